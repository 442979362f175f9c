package breaker

import (
	"context"
	"testing"
	"time"
)

func TestForce(t *testing.T) {
	force := func(b *bundle, k Key, f Force) {
		b.Helper()
		if err := b.store.Force(context.Background(), k, f); err != nil {
			b.Fatal(err)
		}
	}
	t.Run("open for good", func(t *testing.T) {
		suite(t, func(b *bundle) {
			force(b, b.key, Force{Action: ForceOpen, By: "anna"})
			b.wantWait(5*time.Minute + 40*time.Second)
			b.pass(1000 * time.Hour)
			b.rejected()
			b.notDue()
			st := b.status()
			if st.Held.State != Open || st.Held.By != "anna" || !st.Held.Until.IsZero() || !st.Until.IsZero() || st.Reason != "held open by anna" {
				b.Errorf("status %+v", st)
			}
			force(b, b.key, Force{Action: ForceClose, By: "bea"})
			b.admit()
			if st := b.status(); st.Held.State != "" || st.Transitions[0].Reason != "closed by bea" || len(b.saw()) != 2 {
				b.Errorf("status %+v, hook %v", st, b.saw())
			}
		})
	})
	t.Run("a parent for an hour", func(t *testing.T) {
		suite(t, func(b *bundle) {
			force(b, b.key.Parent(), Force{Action: ForceOpen, For: time.Hour})
			if open := b.rejected(); open.Scope != ScopeParent || !open.Until.Equal(b.clock().Add(time.Hour)) {
				b.Errorf("rejected by %+v", open)
			}
			b.pass(time.Hour - time.Minute)
			b.rejected()
			b.notDue()
			b.pass(time.Minute)
			b.report(b.probe(), Report{Outcome: Success})
			b.admit()
			if st := b.of(b.key.Parent()); st.Held.State != "" {
				b.Errorf("status %+v", st)
			}
		})
	})
	t.Run("closed for an hour", func(t *testing.T) {
		suite(t, func(b *bundle) {
			b.trip()
			force(b, b.key, Force{Action: ForceClose, For: time.Hour})
			b.fails(50)
			b.report(b.admit(), Report{Hard: true})
			b.wantState(Closed)
			b.pass(time.Hour)
			b.fails(11)
			b.wantState(Open)
		})
	})
	t.Run("reset", func(t *testing.T) {
		suite(t, func(b *bundle) {
			b.fails(10)
			late := b.admit()
			force(b, b.key, Force{Action: ForceReset})
			b.report(late, Report{Outcome: Failure})
			if st := b.status(); st.Results != 0 || st.Transitions[0].Reason != "reset by somebody" {
				b.Errorf("status %+v", st)
			}
			for _, bad := range []Force{{}, {Action: ForceReset, For: time.Second}, {Action: ForceOpen, For: -1}} {
				if err := b.store.Force(b.Context(), b.key, bad); err == nil {
					b.Errorf("%+v passes", bad)
				}
			}
		})
	})
}
