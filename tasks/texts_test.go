package tasks

import (
	"context"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/ladder"
	"nightshift/limit"
	"nightshift/provider"
)

// atDeadline is a ladder of a model that is down and a text at the deadline.
var atDeadline = config.Ladder{Name: "n", Patience: time.Second, Rungs: []config.Rung{
	{Model: "sim/a", Tries: 1},
	{Rules: []config.Rule{{Match: "NOBODY", Text: "?"}}, AtDeadline: true},
	{Text: "No answer for {{.custom_id}}.", AtDeadline: true},
}}

func lastResort(t testing.TB, c config.Ladder) LastResort {
	t.Helper()
	l, err := ladder.NewLastResort(c, nil)
	if err != nil || l == nil {
		t.Fatal(l, err)
	}
	return l
}

// failing is a model that is down.
type failing struct{}

func (failing) Call(context.Context, provider.Request) (provider.Answer, error) {
	return provider.Answer{}, &provider.Error{Kind: provider.Unavailable, StatusCode: 503, Message: "down"}
}

// gateOf is a gate without limits.
func gateOf(breakers ladder.Breakers) ladder.Gate {
	return ladder.StoreGate{
		Breakers: breakers, Pacer: limit.NewMemory(nil, nil), Guard: limit.NewGuardMemory(limit.GuardOptions{}, nil),
	}
}

// climbs is a real ladder over breakers in memory.
func climbs(t testing.TB, c config.Ladder, model ladder.Caller) *ladder.Ladder {
	t.Helper()
	l, err := ladder.New(ladder.Options{
		Ladder: c, Models: map[string]config.Model{"sim/a": {Key: "sim/a", Provider: "sim", FirstToken: time.Minute}},
		Callers: map[string]ladder.Caller{"sim/a": model},
		Gate: gateOf(breaker.NewMemory(func(breaker.Key) breaker.Settings {
			return breaker.Settings{Window: 20, Failures: 11, Cooldown: time.Minute, MaxCooldown: time.Minute}
		}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// allTexts checks that every line has its text, not before the margin and not
// after the deadline.
func allTexts(t *testing.T, r *rig, id string, n int64, deadline time.Time) {
	t.Helper()
	s := r.done(id, 60*time.Second)
	if s.Succeeded != n || s.Degraded != n || s.FinishedAt.After(deadline) {
		t.Errorf("status: %+v, the deadline was %s", s, deadline)
	}
	margin := ladder.MarginAt(deadline, batch.Margin(n, deadline.Sub(s.CreatedAt)))
	for id, res := range r.results(id) {
		n := res.Nightshift
		if res.Response == nil || n.Model != "nightshift/text" || !n.Degraded || n.FinishedAt.Before(margin) {
			t.Errorf("%s: %+v, the margin was %s", id, res, margin)
		}
	}
}

// The keeper answers in time for lines that no worker comes to.
func TestKeeperWritesTextsWhereNoWorkerComes(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{})
	// Of a shorter life the margin would be its half, and less than so many texts are
	// given.
	deadline := time.Now().Add(8 * time.Second)
	const n = 3000
	r.submit("b", n, func(d *batch.Description) { d.Deadline = deadline })
	// Some were released, to a worker that is gone.
	if _, err := r.store.Release(context.Background(), "b", 1, 10, nil); err != nil {
		t.Fatal(err)
	}
	r.worker(nil, func(o *Options) {
		o.Queues[0].Name = "another"
		o.LastResorts = map[string]LastResort{"q": lastResort(t, atDeadline)}
	})
	allTexts(t, r, "b", n, deadline)
	if c := r.results("b")["c77"].Response.Body; string(c) == "" {
		t.Error("no body")
	}
}

// In an outage, those that wait and those that are left all get their text:
// also the lines whose retries are spent.
func TestTextsInAnOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{})
	deadline := time.Now().Add(8 * time.Second)
	const n = 600
	r.submit("b", n, func(d *batch.Description) { d.Deadline = deadline })
	r.worker(nil, func(o *Options) {
		o.Queues[0].Slots, o.Queues[0].Retries, o.Queues[0].Ladder = 20, 0, climbs(t, atDeadline, failing{})
		o.Breakers = &doors{open: map[string]bool{"sim/a": true}}
		o.LastResorts = map[string]LastResort{"q": lastResort(t, atDeadline)}
	})
	allTexts(t, r, "b", n, deadline)
	s, err := r.store.Status(context.Background(), "b")
	if err != nil || s.Calls < 11 || s.Calls > 31 {
		t.Errorf("%d calls, %v: the breaker opens after 11, and 20 are in flight", s.Calls, err)
	}
}

// hanging is a model that answers only when it is told to stop.
type hanging struct{}

func (hanging) Call(ctx context.Context, r provider.Request) (provider.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	<-ctx.Done()
	return provider.Answer{}, &provider.Error{Kind: provider.Timeout, Message: "silent"}
}

// Calls under way end at the margin, by the worker that holds the line.
func TestCallsEndForTheirTexts(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{})
	deadline := time.Now().Add(6 * time.Second)
	r.submit("b", 5, func(d *batch.Description) { d.Deadline = deadline })
	r.worker(nil, func(o *Options) {
		o.Queues[0].Ladder = climbs(t, atDeadline, hanging{})
		o.LastResorts = map[string]LastResort{"q": lastResort(t, atDeadline)}
	})
	allTexts(t, r, "b", 5, deadline)
	for _, res := range r.results("b") {
		if a := res.Nightshift.Attempts; len(a) != 3 || a[0].Kind != provider.Canceled || a[1].Kind != batch.KindSkipped {
			t.Errorf("attempts: %+v", a)
		}
	}
}

// A keeper with several batches begins each early enough to be done before the
// next one is due.
func TestMarginsOfSeveralBatches(t *testing.T) {
	now := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	b := func(id string, deadline time.Duration, lines int64) batch.Backlog {
		return batch.Backlog{Description: batch.Description{ID: id, CreatedAt: now, Deadline: now.Add(deadline)}, Waiting: lines}
	}
	all := []batch.Backlog{b("z", 10*time.Hour, 100_000), b("a", 10*time.Hour, 200_000), b("far", 20*time.Hour, 1)}
	got := margins(all)
	first := now.Add(10*time.Hour - 75*time.Second)
	want := []time.Time{first.Add(-300 * time.Second), first.Add(-100 * time.Second), now.Add(20*time.Hour - 75*time.Second - time.Second)}
	for i := range want {
		if d := got[i].Sub(want[i]); d < 0 || d > time.Second {
			t.Errorf("%s is due at %s, want %s", all[i].ID, got[i], want[i])
		}
	}
	if tight := margins([]batch.Backlog{b("a", time.Hour, 10_000_000)}); !tight[0].Equal(now.Add(30 * time.Minute)) {
		t.Errorf("more than half of its life: %s", tight[0])
	}
}
