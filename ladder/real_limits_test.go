package ladder

import (
	"context"
	"testing"
	"time"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// fails is a script in which model a always meets the fault.
func fails(f sim.Fault) func() map[string][]sim.Fault {
	f.FirstCall, f.LastCall = 1, 1<<30
	return func() map[string][]sim.Fault { return map[string][]sim.Fault{"a": {f}} }
}

// An answer with nothing in it is no success.
func TestCase21_RealAnswersWithNothingInThem(t *testing.T) {
	overBothAPIs(t, nightly(1, "a", "b"), fails(sim.Fault{Kind: sim.EmptyChoices}), func(t *testing.T, b *realBundle) {
		out := b.attempt()
		wantEnd(t, out, Answered, "")
		same(t, "answered by", out.Answer.Model, "p/b")
		same(t, "failures", b.status("a").Failures, 1)
	})
}

// Without a header the wait grows from a second, and no call comes before.
func TestCase22_RealRefusalsWithoutHeaders(t *testing.T) {
	overBothAPIs(t, nightly(2, "a"), fails(sim.Fault{Kind: sim.RateLimited, RetryAfter: sim.RetryNone}), func(t *testing.T, b *realBundle) {
		wantEnd(t, b.attempt(), Deferred, "")
		equal(t, "slept", b.slept, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9})
		same(t, "requests", b.hits("a"), 6)
		same(t, "results of the breaker", b.status("a").Results, 0)
	})
}

// A Retry-After of 30 s keeps every line away for as long, and costs no retry.
func TestCase23_RealRetryAfter(t *testing.T) {
	for _, form := range []sim.RetryAfter{sim.RetrySeconds, sim.RetryDate, sim.RetryMS} {
		overBothAPIs(t, nightly(2, "a"), fails(sim.Fault{Kind: sim.RateLimited, RetryAfter: form, RetryIn: 30 * time.Second}),
			func(t *testing.T, b *realBundle) {
				wantEnd(t, b.attempt(), Deferred, "")
				for range 5 { // other lines, of other workers
					b.pass(5 * time.Second)
					b.patient(0)
					wantEnd(t, b.attempt(), Deferred, "")
				}
				same(t, string(form)+": requests", b.hits("a"), 1)
				b.sim.ClearFaults()
				b.pass(6 * time.Second)
				out := b.attempt()
				wantEnd(t, out, Answered, "")
				equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.OK})
			})
	}
}

// patient gives the lines of the ladder another patience.
func (b *realBundle) patient(d time.Duration) {
	c := nightly(2, "a")
	c.Patience = d
	b.build(c)
}

// Case 16 and 17 in the other family's words.
func TestCase16_17_RealOnBothAPIs(t *testing.T) {
	overBothAPIs(t, nightly(2, "a"), fails(sim.Fault{Kind: sim.Overloaded}), func(t *testing.T, b *realBundle) {
		wantEnd(t, b.attempt(), Failed, "unavailable")
		same(t, "failures", b.status("a").Failures, 2)
	})
	overBothAPIs(t, nightly(2, "a", "b"), fails(sim.Fault{Kind: sim.Refusal}), func(t *testing.T, b *realBundle) {
		wantEnd(t, b.ladder.whole(context.Background(), line(), b.journal), Final, "content_filtered")
		same(t, "results", b.status("a").Results, 0)
		same(t, "requests to the other", b.hits("b"), 0)
	})
}
