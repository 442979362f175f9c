package app

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
)

func (f *fleet) force(key breaker.Key, action breaker.Action) {
	f.t.Helper()
	if err := f.conn.Breakers.Force(context.Background(), key, breaker.Force{Action: action, By: "anna@desk"}); err != nil {
		f.t.Fatal(err)
	}
}

// Lines wait behind breakers that an operator holds open, a model's and a
// provider's; a kill of the worker changes nothing. Once both are closed they
// finish within seconds, though they were sent to sleep for minutes, and
// nothing was spent: no call, no probe, no retry.
func TestLinesWaitForAnOperatorAndGoOnAtOnce(t *testing.T) {
	t.Parallel()
	const n = 5
	one := breaker.Key{Provider: "a", Model: "a/one"}
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: 5, retries: 0, cooldown: "30s", maxCooldown: "5m"})
	f.force(one, breaker.ForceOpen)
	f.force(one.Parent(), breaker.ForceOpen)
	f.submit("b", n)
	waits := func() bool {
		return f.status("b").State == batch.Waiting && f.status("b").Deferrals >= n
	}
	first := f.start()
	f.until(60*time.Second, "all lines wait", waits)
	kill(first)
	f.start()

	st, err := f.conn.Status(context.Background(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if want := (batch.WaitingFor{Model: "a/one", Reason: "breaker_open", HeldBy: "anna@desk", Parent: "a", Lines: n}); len(st.WaitingFor) != 1 || st.WaitingFor[0] != want {
		t.Errorf("it waits for %+v, want %+v", st.WaitingFor, want)
	}
	f.force(one, breaker.ForceClose)
	if total, _ := f.up.counts(); total != 0 {
		t.Errorf("%d calls and probes while both levels, then one, were held open", total)
	}
	f.force(one.Parent(), breaker.ForceClose)
	s := f.done("b", 60*time.Second) // they sleep for 5 minutes and a probe's lease
	if total, probes := f.up.counts(); s.Succeeded != n || s.Calls != n || total != n || probes != 0 {
		t.Errorf("%d calls, %d of them probes; status %+v", total, probes, s)
	}
	f.onceEach("b", n)
}

// A breaker is opened by hand while calls are in flight: they finish and are
// their lines' answers, no further call begins, and what they came to is late
// for the breaker, which stays as it was forced.
func TestOpenedDuringCalls(t *testing.T) {
	t.Parallel()
	const n, slots = 6, 2
	one := breaker.Key{Provider: "a", Model: "a/one"}
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: slots, retries: 0, cooldown: "30s", maxCooldown: "5m"})
	answer := make(chan struct{})
	var inFlight atomic.Int64
	serve := f.up.Config.Handler
	f.up.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Add(1)
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		serve.ServeHTTP(w, r)
	})
	f.submit("b", n)
	f.start()
	f.until(60*time.Second, "the slots are full of calls", func() bool { return inFlight.Load() == slots })
	f.force(one, breaker.ForceOpen)
	close(answer)
	f.until(60*time.Second, "the calls are answers and the rest waits", func() bool {
		s := f.status("b")
		return s.Succeeded == slots && s.State == batch.Waiting
	})
	all, err := f.conn.Breakers.List(context.Background(), f.conn.Keys[:1])
	if err != nil {
		t.Fatal(err)
	}
	if b := all[0]; b.Key != one || b.State != breaker.Open || b.Held.By != "anna@desk" || b.Results != 0 || len(b.Transitions) != 1 {
		t.Errorf("the breaker: %+v", b)
	}
	if total, _ := f.up.counts(); total != slots {
		t.Errorf("%d calls, want the %d that were in flight", total, slots)
	}
	f.force(one, breaker.ForceReset)
	f.done("b", 60*time.Second)
	f.onceEach("b", n)
}
