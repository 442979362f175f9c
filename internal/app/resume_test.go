package app

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/internal/sim"
)

const (
	resumeLines  = 20_000
	resumeKilled = 6_400 // lines that are done when everything is killed
	resumeSlots  = 32    // of a worker
)

// newResume is a fleet with a batch of 20,000 lines that two workers work on.
func newResume(t testing.TB) (*limited, []*exec.Cmd) {
	l := newLimited(t, limitedOptions{
		concurrency: resumeSlots, guard: "calls_per_hour: 100000",
		behaviour: sim.Behaviour{Latency: sim.Latency{Fixed: 20 * time.Millisecond}},
	}, appendAlways...)
	l.submit("b", resumeLines)
	return l, []*exec.Cmd{l.start(), l.start()}
}

// killedAt waits until n lines are done and kills all workers and Redis, which
// comes back with its file; it returns the status before and after.
func (l *limited) killedAt(n int64, workers []*exec.Cmd) (before, after batch.Status) {
	l.t.Helper()
	l.until(5*time.Minute, fmt.Sprintf("%d lines are done", n), func() bool { return l.status("b").Succeeded >= n })
	before = l.status("b")
	for _, w := range workers {
		kill(w)
	}
	l.redis.Kill()
	l.redis.Restart(l.t)
	return before, l.status("b")
}

// progressed waits until lines of the batch are done that were not before.
func (l *limited) progressed(since batch.Status, more int64) {
	l.t.Helper()
	l.until(2*time.Minute, "more lines are done", func() bool { return l.status("b").Succeeded >= since.Succeeded+more })
}

// calledTwice is how many calls were made for lines that had one before.
func (l *limited) calledTwice() (lines, twice int) {
	seen := map[string]bool{}
	for _, c := range l.sim.Calls() {
		if seen[c.Digest] {
			twice++
		}
		seen[c.Digest] = true
	}
	return len(seen), twice
}

// Everything is killed at 6,400 of 20,000 lines, Redis too: a new worker goes on
// where the others stood. Then the rest is cancelled: every line has one record, and
// of those that were called only what was in flight has no answer.
func TestEverythingKilledThenResumedAndCancelled(t *testing.T) {
	t.Parallel()
	l, workers := newResume(t)
	before, after := l.killedAt(resumeKilled, workers)
	if after.Succeeded < before.Succeeded || after.Calls < before.Calls || after.CostUSD < before.CostUSD {
		t.Errorf("progress was lost: %+v, then %+v", before, after)
	}
	l.start()
	l.progressed(after, 500)
	if err := l.conn.Batches.Cancel(context.Background(), "b"); err != nil {
		t.Fatal(err)
	}
	s := l.done("b", 3*time.Minute) // what the dead held ends with their leases
	if s.Succeeded+s.Cancelled != resumeLines || s.Cancelled == 0 {
		t.Errorf("status: %+v", s)
	}
	var answers int64
	l.recordEach("b", resumeLines, func(r batch.Result) bool {
		if r.Error != nil {
			return r.Error.Code == batch.CodeCancelled && r.Response == nil
		}
		answers++
		return ownEcho(r)
	})
	if answers != s.Succeeded {
		t.Errorf("%d answers, %d lines succeeded", answers, s.Succeeded)
	}
	const inFlight = 2 * resumeSlots
	if lines, twice := l.calledTwice(); twice > inFlight || int64(lines) > s.Succeeded+inFlight {
		t.Errorf("%d lines were called, %d of them twice, %d succeeded", lines, twice, s.Succeeded)
	}
}

// waiting is how many lines of the batch are not released.
func (l *limited) waiting() int64 {
	l.t.Helper()
	all, err := l.conn.Batches.Backlogs(context.Background())
	if err != nil || len(all) != 1 {
		l.t.Fatalf("%d backlogs, %v", len(all), err)
	}
	return all[0].Waiting
}

// BenchmarkResume kills everything at 6,400 of 20,000 lines and tells how long it is
// from the start of a new worker's process to the next line that finishes, to the
// next that is released (the dead keeper's lease must end), and to the last but for
// those that were in flight. Of another such batch it cancels the rest, as the command
// does, and tells how long it is to the end of all lines but those in flight.
func BenchmarkResume(b *testing.B) {
	const inFlight = 2 * resumeSlots
	var finished, released, rest, cancelled time.Duration
	var missing, doubled int64
	for b.Loop() {
		l, workers := newResume(b)
		_, after := l.killedAt(resumeKilled, workers)
		waiting, start := l.waiting(), time.Now()
		l.start()
		l.progressed(after, 1)
		finished += time.Since(start)
		l.until(time.Minute, "more lines are released", func() bool { return l.waiting() < waiting })
		released += time.Since(start)
		l.until(5*time.Minute, "all are done but what was in flight", func() bool { return l.status("b").Outstanding <= inFlight })
		rest += time.Since(start)
		s := l.done("b", 3*time.Minute)
		_, twice := l.calledTwice()
		missing, doubled = missing+resumeLines-s.Succeeded, doubled+int64(twice)
		cancelled += cancelResumed(b, inFlight)
	}
	n := float64(b.N)
	b.ReportMetric(finished.Seconds()/n, "finish_s")
	b.ReportMetric(released.Seconds()/n, "release_s")
	b.ReportMetric(rest.Seconds()/n, "rest_s")
	b.ReportMetric(cancelled.Seconds()/n, "cancel_s")
	b.ReportMetric(float64(missing)/n, "missing")
	b.ReportMetric(float64(doubled)/n, "calls_twice")
	b.ReportMetric(0, "ns/op")
}

// cancelResumed cancels a batch that is worked on again after everything was killed.
func cancelResumed(b *testing.B, inFlight int64) time.Duration {
	l, workers := newResume(b)
	_, after := l.killedAt(resumeKilled, workers)
	l.start()
	l.progressed(after, 100)
	start := time.Now()
	if err := l.conn.Batches.Cancel(context.Background(), "b"); err != nil {
		b.Fatal(err)
	}
	if _, err := l.conn.Batches.Settle(context.Background(), "b"); err != nil {
		b.Fatal(err)
	}
	l.until(time.Minute, "all have ended but what is in flight", func() bool { return l.status("b").Outstanding <= inFlight })
	return time.Since(start)
}
