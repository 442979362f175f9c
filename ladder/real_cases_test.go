package ladder

import (
	"context"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/internal/sim"
	"nightshift/provider"
)

// A filter's refusal says nothing about the model, and another one is asked only
// where the ladder says so.
func TestCase17_AFilterMovesNoBreaker(t *testing.T) {
	for _, fault := range []sim.Kind{sim.Filter, sim.Refusal} {
		for onFilter, answered := range map[string]bool{"fail": false, "next": true} {
			b := setupReal(t, 2, "", "a", "b")
			c := nightly(2, "a", "b")
			c.OnFilter = onFilter
			b.build(c)
			b.fault("a", fault)
			out := b.attempt()
			if answered {
				wantEnd(t, out, Answered, "")
				same(t, "who answers", out.Answer.Model, "p/b")
			} else {
				wantEnd(t, out, Final, "content_filtered")
			}
			same(t, "requests to a", b.hits("a"), 1)
			same(t, "requests to b", b.hits("b"), map[bool]int{true: 1}[answered])
			for _, k := range []breaker.Key{keyA, keyA.Parent()} {
				s := b.listed(k)
				same(t, "state of "+k.String(), s.State, breaker.Closed)
				same(t, "failures of "+k.String(), s.Failures, 0)
			}
			same(t, "results of a", b.status("a").Results, 0)
		}
	}
}

// Money that is used up is one call's news: the whole provider is left alone for
// the longest cooldown, and the next provider answers.
func TestCase18_QuotaOpensTheProviderAtOnce(t *testing.T) {
	for fault, status := range map[sim.Kind]int{sim.Quota: 429, sim.Payment: 402, sim.SpendLimit: 400} {
		b := setupReal(t, 2, "", "a", "b", "c")
		b.fault("a", fault)
		m := b.models["p/c"]
		m.Provider = "q"
		b.models["p/c"] = m
		b.build(nightly(2, "a", "b", "c"))
		for range 3 {
			out := b.attempt()
			wantEnd(t, out, Answered, "")
			same(t, "who answers", out.Answer.Model, "p/c")
		}
		same(t, "status", b.events[0].StatusCode, status)
		same(t, "kind", b.events[0].Call.Kind, provider.QuotaExhausted)
		same(t, "requests to a", b.hits("a"), 1)
		same(t, "requests to b, of the same key", b.hits("b"), 0)
		same(t, "requests to c", b.hits("c"), 3)
		same(t, "parks", len(b.pace.until), 0)
		parent := b.listed(keyA.Parent())
		same(t, "state of the provider", parent.State, breaker.Open)
		same(t, "it stays open for", parent.Until.Sub(b.Now()), 5*time.Minute)
		same(t, "state of the model", b.status("a").State, breaker.Closed)

		// A probe that meets the same is one call more in the longest cooldown.
		b.fault("b", fault)
		b.pass(5 * time.Minute)
		b.probe()
		same(t, "it stays open for", b.listed(keyA.Parent()).Until.Sub(b.Now()), 5*time.Minute)
	}
}

// probe does what the watcher of a fleet does about the one breaker that is due.
func (b *realBundle) probe() {
	b.t.Helper()
	due, err := b.store.Due(context.Background(), "p")
	if err != nil || len(due) != 1 {
		b.t.Fatalf("due are %v, %v", due, err)
	}
	ticket, err := b.store.AdmitProbe(context.Background(), due[0])
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.store.Report(context.Background(), ticket, b.prober.Probe(context.Background(), ticket)); err != nil {
		b.t.Fatal(err)
	}
}
