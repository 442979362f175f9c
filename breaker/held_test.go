package breaker

import (
	"testing"
	"time"
)

// An operator who holds a model open wants nobody to call it: a parent that is
// due is probed through the others, and through nobody where there are none.
func TestAParentIsNotProbedThroughAModelThatIsHeldOpen(t *testing.T) {
	suite(t, func(b *bundle) {
		b.failBoth()
		force := func(k Key, f Force) {
			if err := b.store.Force(b.Context(), k, f); err != nil {
				b.Fatal(err)
			}
		}
		force(b.key, Force{Action: ForceOpen, By: "anna"})
		b.rejected() // it has the first turn
		b.pass(5 * time.Minute)
		b.notDue()
		b.notDue() // nor after all others, of which there are none
		b.as(other, func() { b.rejected() })
		b.notDue()
		var p Ticket
		b.as(other, func() { p = b.probe() })
		if p.Scope != ScopeParent {
			b.Fatalf("ticket of the probe: %+v", p)
		}
		b.report(p, Report{Outcome: Failure})
		force(b.key, Force{Action: ForceClose})
		b.rejected()
		b.pass(5 * time.Minute)
		if p := b.probe(); p.Scope != ScopeParent {
			b.Errorf("ticket of the probe after the hold: %+v", p)
		}
	})
}
