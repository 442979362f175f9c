package breaker

import (
	"slices"
	"testing"
	"time"
)

// other is the provider's second model.
var other = Key{Provider: "openai", Model: "openai/gpt-4o-mini"}

// as runs f with another model as the bundle's.
func (b *bundle) as(k Key, f func()) {
	b.Helper()
	before := b.key
	b.key = k
	defer func() { b.key = before }()
	f()
}

// of returns the status of one breaker.
func (b *bundle) of(k Key) (st Status) {
	b.Helper()
	b.as(k, func() { st = b.status() })
	return st
}

func (b *bundle) wantOf(k Key, want State) {
	b.Helper()
	if st := b.of(k); st.State != want {
		b.Fatalf("%s is %s, want %s: %+v", k, st.State, want, st)
	}
}

// failBoth has the calls to both models fail in turn until their parent opens.
func (b *bundle) failBoth() {
	b.Helper()
	for i := range 11 {
		b.as([]Key{b.key, other}[i%2], func() { b.fails(1) })
	}
	b.wantOf(b.key.Parent(), Open)
	b.wantOf(b.key, Closed)
	b.wantOf(other, Closed)
}

func TestCase05_TheModelIsDueAndItsProviderOpen(t *testing.T) {
	suite(t, func(b *bundle) {
		b.trip()
		b.pass(30 * time.Second)
		b.as(other, func() {
			b.report(b.admit(), Report{Hard: true, Scope: ScopeParent, Reason: "quota"})
		})
		b.wantOf(b.key.Parent(), Open)
		if due := b.due(); len(due) != 0 {
			b.Errorf("due: %v", due)
		}
		b.notDue()
		open := b.rejected()
		if open.Scope != ScopeParent || open.Reason != "quota" {
			b.Errorf("rejected by %+v", open)
		}
		if st := b.of(b.key); st.State != Open || st.Probing != 0 {
			b.Errorf("a lease was taken: %+v", st)
		}
		b.pass(5 * time.Minute)
		b.report(b.probe(), Report{Outcome: Success})
		b.wantOf(b.key.Parent(), Closed)
		b.wantOf(b.key, Closed) // it answered
	})
}

func TestCase09_OneModelFailsAHundredTimes(t *testing.T) {
	suite(t, func(b *bundle) {
		b.settings.Failures, b.settings.Window = 200, 200 // the model's own stays out of it
		b.parent = &Settings{Window: 20, Failures: 11}
		b.fails(100)
		b.wantOf(b.key.Parent(), Closed)
		b.as(other, func() { b.fails(1) })
		b.wantOf(b.key.Parent(), Open)
		for _, k := range []Key{b.key, other} {
			b.as(k, func() {
				if open := b.rejected(); open.Scope != ScopeParent || open.Key != k {
					b.Errorf("rejected by %+v", open)
				}
			})
		}
	})
}

func TestProbesOfAParentRotateOverItsModels(t *testing.T) {
	suite(t, func(b *bundle) {
		b.failBoth()
		var through []Key
		for range 4 {
			for _, k := range []Key{b.key, other} {
				b.as(k, func() { b.rejected() }) // the work that waits
			}
			b.pass(5 * time.Minute)
			due := b.due()
			if len(due) != 1 {
				b.Fatalf("due: %v", due)
			}
			through = append(through, due[0])
			notDue := map[Key]Key{b.key: other, other: b.key}[due[0]]
			b.as(notDue, b.notDue)
			b.as(due[0], func() {
				p := b.probe()
				if p.Scope != ScopeParent || p.Key != due[0] {
					b.Errorf("ticket of the probe: %+v", p)
				}
				b.report(p, Report{Outcome: Failure})
			})
		}
		if want := []Key{b.key, other, b.key, other}; !slices.Equal(through, want) {
			b.Errorf("probed through %v, want %v", through, want)
		}
	})
}

func TestCase53_TheParentClosesByTheOther(t *testing.T) {
	suite(t, func(b *bundle) {
		b.failBoth()
		answers := map[Key]Report{
			b.key: {Hard: true, Reason: "misconfigured: unknown model"},
			other: {Outcome: Success},
		}
		rounds := 0
		for ; rounds < 4 && b.of(b.key.Parent()).State != Closed; rounds++ {
			for k := range answers {
				_, _ = b.store.Admit(b.Context(), k)
			}
			b.pass(5 * time.Minute)
			for _, k := range b.due() {
				b.as(k, func() { b.report(b.probe(), answers[k]) })
			}
		}
		if rounds > 2 {
			b.Errorf("closed after %d rounds", rounds)
		}
		b.wantOf(b.key.Parent(), Closed)
		b.as(other, func() { b.admit() })
	})
}

func TestARegionsOutageStaysInItsRegion(t *testing.T) {
	suite(t, func(b *bundle) {
		b.key.Region = "eastus"
		west := Key{Provider: "openai", Model: "openai/west", Region: "westus"}
		b.report(b.admit(), Report{Hard: true, Scope: ScopeParent})
		b.wantOf(b.key.Parent(), Open)
		if got := b.key.Parent().String(); got != "openai@eastus" {
			b.Errorf("parent %s", got)
		}
		b.as(west, func() { b.admit() })
		parents := Parents([]Key{b.key, west, other, {Provider: "openai", Model: "openai/x", Region: "eastus"}})
		want := []Key{b.key.Parent(), west.Parent(), other.Parent()}
		if !slices.Equal(parents, want) {
			b.Errorf("parents %v", parents)
		}
	})
}

func TestAHardConditionOpensItsLevel(t *testing.T) {
	suite(t, func(b *bundle) {
		b.report(b.admit(), Report{Hard: true, Scope: ScopeModel})
		b.wantOf(b.key, Open)
		b.wantOf(b.key.Parent(), Closed)
		b.as(other, func() {
			b.report(b.admit(), Report{Hard: true, Scope: ScopeParent})
			b.wantOf(other, Closed)
			if st := b.of(other); st.Results != 0 {
				b.Errorf("it counts for the model, too: %+v", st)
			}
			b.wantOf(other.Parent(), Open)
			b.wantWait(5*time.Minute + 40*time.Second)
		})
	})
}

func TestEpochsOfBothLevelsAreCheckedByThemselves(t *testing.T) {
	suite(t, func(b *bundle) {
		late := b.admit()
		b.fails(11)
		b.wantOf(b.key, Open)
		before := b.of(b.key.Parent()).Results
		b.report(late, Report{Outcome: Success})
		b.report(late, Report{Outcome: Success})
		if st := b.of(b.key.Parent()); st.Results != before+1 {
			b.Errorf("the parent counts %d results, want %d", st.Results, before+1)
		}
		if st := b.of(b.key); st.Results != 11 {
			b.Errorf("the model counts %d results, want 11", st.Results)
		}
	})
}

func TestTheHookTellsOfBothLevels(t *testing.T) {
	suite(t, func(b *bundle) {
		b.failBoth()
		moves := b.saw()
		if len(moves) != 1 || moves[0].Scope != ScopeParent || moves[0].Key != b.key.Parent() || moves[0].To != Open {
			b.Errorf("the hook saw %+v", moves)
		}
	})
}

func TestCase46_RetryAfterFromTwoWorkers(t *testing.T) {
	suite(t, func(b *bundle) {
		b.fails(9)
		first, second := b.admit(), b.admit()
		b.report(first, Report{Outcome: Failure, RetryAfter: time.Minute})
		b.report(second, Report{Outcome: Failure, RetryAfter: 5 * time.Second})
		b.wantWait(time.Minute + 40*time.Second)
	})
}

func TestCase15_AStreamThatDiesIsOneFailure(t *testing.T) {
	suite(t, func(b *bundle) {
		tk := b.admit()
		b.report(tk, Report{Outcome: Failure, Reason: "unavailable: the stream ended early"}) // at its end, not at its 200
		b.report(tk, Report{Outcome: Success})
		if st := b.status(); st.Results != 1 || st.Failures != 1 {
			b.Errorf("status %+v", st)
		}
	})
}

// Ten failures of one model and one of another open their parent (docs/adr/0005),
// and one answer through either closes it.
func TestAParentOpensOnOneFailureOfASecondModel(t *testing.T) {
	suite(t, func(b *bundle) {
		b.fails(10)
		b.wantOf(b.key.Parent(), Closed)
		b.as(other, func() { b.fails(1) })
		b.wantOf(b.key.Parent(), Open)
		b.as(other, func() {
			b.wantWait(70 * time.Second)
			b.pass(30 * time.Second)
			b.report(b.probe(), Report{Outcome: Success})
			b.admit()
		})
		b.wantOf(b.key.Parent(), Closed)
	})
}

// What keeps it closed: a sibling that is called, or a larger ring.
func TestAParentOfAHealthySiblingStaysClosed(t *testing.T) {
	suite(t, func(b *bundle) {
		answers := func(n int) {
			b.as(other, func() {
				for range n {
					b.report(b.admit(), Report{Outcome: Success})
				}
			})
		}
		for range 10 {
			answers(1)
			b.fails(1)
		}
		b.fails(1)
		b.wantOf(b.key, Open)
		answers(4)
		b.as(other, func() { b.fails(1) })
		b.wantOf(b.key.Parent(), Closed)
	})
	suite(t, func(b *bundle) {
		b.parent = &Settings{Window: 40, Failures: 22}
		b.fails(11)
		b.as(other, func() { b.fails(10) })
		b.wantOf(b.key.Parent(), Closed)
		b.as(other, func() { b.fails(1) })
		b.wantOf(b.key.Parent(), Open)
	})
}
