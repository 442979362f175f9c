package breaker

import (
	"testing"
	"time"
)

// judged checks the model's quality figure, and that the parent has none.
func (b *bundle) judged(answers, invalid int) {
	b.Helper()
	list, err := b.store.List(b.Context(), []Key{b.key, b.key.Parent()})
	if err != nil {
		b.Fatal(err)
	}
	if m := list[0]; m.Judged != answers || m.Invalid != invalid {
		b.Errorf("%d of %d answers are invalid, want %d of %d", m.Invalid, m.Judged, invalid, answers)
	}
	if p := list[1]; p.Judged != 0 || p.Invalid != 0 {
		b.Errorf("the parent has %d invalid of %d answers, want none", p.Invalid, p.Judged)
	}
}

// answer makes one call whose output is invalid, or valid.
func (b *bundle) answer(valid bool) Ticket {
	b.Helper()
	t, r := b.admit(), Report{Output: InvalidOutput}
	if valid {
		r = Report{Outcome: Success, Output: ValidOutput}
	}
	b.report(t, r)
	return t
}

func TestInvalidOutputsAreCountedAndMoveNothing(t *testing.T) {
	suite(t, func(b *bundle) {
		for range 3 * b.settings.Window {
			b.answer(false)
		}
		b.judged(50, 50)
		if list, err := b.store.List(b.Context(), []Key{b.key}); err != nil || list[0].State != Closed || list[0].Results != 0 {
			b.Errorf("%+v (%v), want a closed breaker without results", list, err)
		}
	})
}

func TestOnlyTheLastFiftyVerdictsCount(t *testing.T) {
	suite(t, func(b *bundle) {
		for range 10 {
			b.answer(false)
		}
		for range 40 {
			b.answer(true)
		}
		b.judged(50, 10)
		b.pass(23 * time.Hour) // they have no age
		for range 4 {
			b.answer(true)
		}
		b.judged(50, 6)
	})
}

func TestAVerdictCountsOnceATicket(t *testing.T) {
	suite(t, func(b *bundle) {
		tk := b.answer(false)
		b.report(tk, Report{Output: InvalidOutput})
		b.report(tk, Report{Outcome: Success, Output: ValidOutput})
		b.judged(1, 1)
	})
}

func TestReportsWithoutAVerdictAreNotJudged(t *testing.T) {
	suite(t, func(b *bundle) {
		b.report(b.admit(), Report{Outcome: Success})
		b.report(b.admit(), Report{Outcome: Success, Output: 7})
		b.report(b.admit(), Report{Outcome: Limited})
		b.judged(0, 0)
	})
}

func TestVerdictsSurviveTransitionsButNotAReset(t *testing.T) {
	suite(t, func(b *bundle) {
		b.answer(false)
		late := b.admit()
		b.trip()
		b.report(late, Report{Output: InvalidOutput}) // of an earlier epoch
		b.judged(1, 1)
		b.pass(b.settings.Cooldown)
		b.report(b.probe(), Report{Outcome: Success, Output: ValidOutput})
		b.judged(2, 1)
		for _, f := range []Force{{Action: ForceOpen}, {Action: ForceClose}} {
			if err := b.store.Force(b.Context(), b.key, f); err != nil {
				b.Fatal(err)
			}
		}
		b.judged(2, 1)
		if err := b.store.Force(b.Context(), b.key, Force{Action: ForceReset}); err != nil {
			b.Fatal(err)
		}
		b.judged(0, 0)
	})
}

func TestTheVerdictOnAParentsProbeIsTheModels(t *testing.T) {
	suite(t, func(b *bundle) {
		b.report(b.admit(), Report{Hard: true, Scope: ScopeParent})
		b.rejected()
		b.pass(b.settings.MaxCooldown)
		b.report(b.probe(), Report{Outcome: Success, Output: InvalidOutput})
		b.judged(1, 1)
	})
}
