package breaker

import (
	"testing"
	"time"
)

func TestStatusTellsWhenATaskHasToProbe(t *testing.T) {
	suite(t, func(b *bundle) {
		due := func(want bool, when string) {
			b.Helper()
			if got := b.status().TaskDue; got != want {
				b.Errorf("%s: task due is %t", when, got)
			}
		}
		b.settings.TaskProbes = true
		due(false, "never used")
		b.trip()
		b.pass(29 * time.Second)
		due(false, "before its time")
		b.pass(time.Second)
		due(true, "at its time")
		ticket, err := b.store.Admit(b.Context(), b.key)
		if err != nil || !ticket.Probe {
			b.Fatalf("ticket %+v, %v", ticket, err)
		}
		due(false, "while a task probes")
		b.report(ticket, Report{Outcome: Failure})
		due(false, "after it failed")
	})
}

func TestStatusTellsThatATaskProbesAfterAnUnfitProbe(t *testing.T) {
	suite(t, func(b *bundle) {
		b.trip()
		b.pass(30 * time.Second)
		if b.status().TaskDue {
			b.Error("a task is due while a prober is")
		}
		b.report(b.probe(), Report{Outcome: None, Unfit: true})
		b.pass(30 * time.Second)
		if !b.status().TaskDue {
			b.Error("no task is due after a probe that was unfit")
		}
	})
}
