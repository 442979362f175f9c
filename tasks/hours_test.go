package tasks

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/internal/hours"
	"nightshift/ladder"
)

// wallClock goes as fast as time does, from where it is set.
type wallClock struct{ ahead atomic.Int64 }

func (c *wallClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *wallClock) set(to time.Time) { c.ahead.Store(int64(time.Until(to))) }

// nightly gives a worker a queue that is open from 22:00 to 07:00 by a clock.
func nightly(t *testing.T, c *wallClock) func(*Options) {
	t.Helper()
	h, err := hours.Parse("22:00-07:00", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Hours, o.Now = map[string]hours.Hours{"q": h}, c.now }
}

// status is what people see, by the hours of the queue.
func (r *rig) status(id string, now time.Time) batch.Status {
	r.t.Helper()
	s, err := r.store.Status(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	h, err := hours.Parse("22:00-07:00", time.UTC)
	if err != nil {
		r.t.Fatal(err)
	}
	s.AtHours(h, now)
	return s
}

func waitsFor(s batch.Status, reason string, until time.Time) bool {
	return slices.ContainsFunc(s.WaitingFor, func(w batch.WaitingFor) bool {
		return w.Reason == reason && w.Until.Equal(until)
	})
}

// When a queue closes, calls in flight finish, what was released goes back and
// waits, and nothing more is released; when it opens, the rest is done. No line is
// tried twice and none has failed.
func TestAQueueClosesAndOpens(t *testing.T) {
	evening := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	var clock wallClock
	clock.set(evening)
	r := newRig(t, batch.Options{Now: clock.now})
	begun, goOn := make(chan struct{}, 40), make(chan struct{})
	r.submit("b", 40, func(d *batch.Description) { d.CreatedAt = evening })
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		begun <- struct{}{}
		<-goOn
		return answer(q)
	}, nightly(t, &clock))
	for range 5 {
		<-begun
	}
	clock.set(time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC))
	opens := time.Date(2026, 12, 1, 22, 0, 0, 0, time.UTC)
	close(goOn)
	var s batch.Status
	r.until(20*time.Second, "what was released waits for the hours", func() bool {
		s = r.status("b", clock.now())
		return s.Succeeded == 5 && s.Idle && s.Out > 0
	})
	if s.State != batch.Waiting || !waitsFor(s, batch.ReasonHours, opens) || s.Outstanding != 35 {
		t.Errorf("closed: %+v", s)
	}
	clock.set(opens)
	s = r.done("b", 30*time.Second)
	if lines, attempts := r.seen.total(); s.Succeeded != 40 || lines != 40 || attempts != 40 {
		t.Errorf("%d attempts of %d lines: %+v", attempts, lines, s)
	}
}

// A closed queue holds back one batch, and its own time another.
func TestNothingIsReleasedBeforeItsTime(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	opens, starts := noon.Add(10*time.Hour), noon.Add(12*time.Hour)
	var clock wallClock
	clock.set(noon)
	r := newRig(t, batch.Options{Now: clock.now})
	r.submit("now", 3, func(d *batch.Description) { d.CreatedAt = noon })
	r.submit("later", 3, func(d *batch.Description) { d.CreatedAt, d.NotBefore, d.Priority = noon, starts, 9 })
	other := r.options(nil).Queues[0]
	other.Name = "always"
	r.submit("always", 3, func(d *batch.Description) { d.Queue = "always" })
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) }, func(o *Options) {
		nightly(t, &clock)(o)
		other.Ladder = o.Queues[0].Ladder
		o.Queues = append(o.Queues, other)
	})
	r.done("always", 20*time.Second)
	for id, reason := range map[string]string{"now": batch.ReasonHours, "later": batch.ReasonSchedule} {
		until := map[string]time.Time{batch.ReasonHours: opens, batch.ReasonSchedule: starts}[reason]
		if s := r.status(id, clock.now()); s.State != batch.Scheduled || s.Out != 0 || !waitsFor(s, reason, until) || len(s.WaitingFor) != 1 {
			t.Errorf("batch %s: %+v", id, s)
		}
	}
	clock.set(opens)
	r.done("now", 20*time.Second)
	if s := r.status("later", clock.now()); s.State != batch.Scheduled || s.Outstanding != 3 || s.Out != 0 {
		t.Errorf("it began before its time: %+v", s)
	}
	clock.set(starts)
	r.done("later", 20*time.Second)
}
