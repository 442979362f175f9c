package limit

import (
	"fmt"
	"testing"

	"nightshift/internal/redistest"
)

func TestGuardUsesABatchsOwnCallsFirst(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 1}, func(b *guardBundle) {
		grant := Grant{Calls: 2, By: "eve", At: guardStart}
		b.ok(b.store.Grant(b.Context(), "big", grant))
		b.ok(b.store.Grant(b.Context(), "big", grant)) // a repeated message
		for i := range 3 {
			c := b.charge(fmt.Sprint(i), 0)
			c.Batch = "big"
			b.in(c) // two of its own, then the producer's one
		}
		c := b.charge("4", 0)
		c.Batch = "big"
		b.over(c, GuardProducer)
	})
}

func TestGuardHoldsABatchToItsBudget(t *testing.T) {
	eachGuard(t, GuardLimits{}, func(b *guardBundle) {
		b.ok(b.store.SetBudget(b.Context(), "dear", 100))
		ask := func(line string, usd int64) Charge {
			c := b.charge(line, usd)
			c.Batch = "dear"
			return c
		}
		first := b.in(ask("1", 60))
		if wait := b.over(ask("2", 60), GuardBudget); wait != budgetWait {
			t.Errorf("while a call may cost less than reserved, a line asks again in %s", wait)
		}
		b.ok(b.store.Settle(b.Context(), first, 30))
		second := b.in(ask("2", 60))
		b.ok(b.store.Settle(b.Context(), second, 70))
		if wait := b.over(ask("3", 1), GuardBudget); wait != 0 {
			t.Errorf("a spent budget is waited for: %s", wait)
		}
		rooms, err := b.store.Room(b.Context(), nil, []string{"dear", "other"})
		b.ok(err)
		if r, ok := rooms.Batches["other"]; !rooms.Batches["dear"].Spent || ok {
			t.Errorf("%+v, %+v", rooms.Batches, r)
		}
	})
}

func TestGuardGoesByTheLimitsOfNow(t *testing.T) {
	limits := GuardLimits{Calls: 1}
	g := NewGuardRedis(redistest.Client(t), GuardOptions{Limits: func(string) GuardLimits { return limits }})
	for i, calls := range []int64{1, 2, 0} { // each lets in one more
		limits.Calls = calls
		if err := g.Reserve(t.Context(), Charge{Producer: "ann", Batch: "b", Ticket: fmt.Sprint(i)}); err != nil {
			t.Errorf("under a limit of %d: %v", calls, err)
		}
	}
	limits.Calls = 3
	if err := g.Reserve(t.Context(), Charge{Producer: "ann", Batch: "b", Ticket: "over"}); err == nil {
		t.Error("a limit that came back holds nobody")
	}
}
