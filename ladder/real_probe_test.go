package ladder

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/internal/sim"
	"nightshift/provider"
)

// setupDue has model a's breaker open and due, and a line that waits for it.
func setupDue(t *testing.T) *realBundle {
	b := setupReal(t, 1, sim.Unavailable, "a")
	for range 3 {
		wantEnd(t, b.attempt(), Failed, "unavailable")
	}
	wantEnd(t, b.attempt(), Deferred, "")
	b.pass(30 * time.Second)
	b.sim.ClearFaults()
	b.events = nil
	return b
}

// Every probe is a call on record, with its purpose and its cost.
func (b *realBundle) wantProbe(kind provider.Kind) {
	b.t.Helper()
	if len(b.events) == 0 {
		b.t.Fatal("no call is on record")
	}
	e := b.events[len(b.events)-1]
	if e.Purpose != ForProbe || e.Scope != breaker.ScopeModel || e.Key != keyA || e.Call.Kind != kind || e.Call.Model != "p/a" {
		b.t.Errorf("event %+v", e)
	}
	same(b.t, "it costs something", e.Call.Cost > 0, kind == provider.OK)
}

func TestARealProbeCloses(t *testing.T) {
	b := setupDue(t)
	b.probe()
	b.wantProbe(provider.OK)
	same(t, "state", b.status("a").State, breaker.Closed)
	wantEnd(t, b.attempt(), Answered, "")
}

// A 429 shows an open door, and a model that wants to be left alone.
func TestARealProbeThatIsLimitedClosesAndParks(t *testing.T) {
	b := setupDue(t)
	if err := b.sim.AddFaults("a", sim.Fault{Kind: sim.RateLimited, RetryAfter: sim.RetrySeconds, RetryIn: 7 * time.Second}); err != nil {
		t.Fatal(err)
	}
	b.probe()
	b.wantProbe(provider.RateLimited)
	same(t, "state", b.status("a").State, breaker.Closed)
	b.sim.ClearFaults()
	hits := b.hits("a")
	wantEnd(t, b.attempt(), Answered, "")
	equal(t, "the next line waits", b.slept, []time.Duration{7 * time.Second})
	same(t, "requests since", b.hits("a"), hits+1)
}

// A model that refuses the prompt is probed by the next line that asks.
func TestARealProbeThatIsRefusedMakesALineTheProbe(t *testing.T) {
	b := setupDue(t)
	b.fault("a", sim.BadRequest)
	b.probe()
	b.wantProbe(provider.InvalidRequest)
	s := b.status("a")
	same(t, "state", s.State, breaker.Open)
	same(t, "it stays open for", s.Until.Sub(b.Now()), 30*time.Second)
	same(t, "warnings", strings.Count(b.log.String(), "refuses the probe"), 1)

	b.pass(30 * time.Second)
	b.sim.ClearFaults()
	if _, err := b.store.AdmitProbe(context.Background(), keyA); !errors.Is(err, breaker.ErrNotDue) {
		t.Fatalf("a prober may try again: %v", err)
	}
	wantEnd(t, b.attempt(), Answered, "")
	e := b.events[len(b.events)-1]
	same(t, "purpose of the line's call", e.Purpose, ForLine)
	same(t, "scope that it probes", e.Scope, breaker.ScopeModel)
	same(t, "state", b.status("a").State, breaker.Closed)
}
