package breaker

import (
	"errors"
	"testing"
)

// What is no model can neither be called nor probed: the script would take a
// parent's record for a model's and damage it for all of its models.
func TestAKeyWithoutAModelIsRefused(t *testing.T) {
	suite(t, func(b *bundle) {
		for _, k := range []Key{{}, b.key.Parent(), {Provider: "openai", Model: "openai/a\nb"}} {
			if _, err := b.store.Admit(b.Context(), k); !errors.Is(err, ErrNoModel) {
				b.Errorf("admit %+v: %v", k, err)
			}
			if _, err := b.store.AdmitProbe(b.Context(), k); !errors.Is(err, ErrNoModel) {
				b.Errorf("admit probe %+v: %v", k, err)
			}
			if err := b.store.Report(b.Context(), Ticket{Key: k}, Report{Outcome: Failure}); err != nil {
				b.Errorf("report %+v: %v", k, err)
			}
		}
		if f, ok := b.store.(*Fallback); ok && f.Away() {
			b.Error("a wrong key passes for a store that is away")
		}
		b.fails(1)
	})
}

// The names of models need only differ within their provider.
func TestTwoProvidersMayNameAModelAlike(t *testing.T) {
	suite(t, func(b *bundle) {
		b.settings.Window, b.settings.Failures = 2, 1
		b.key = Key{Provider: "openai", Model: "gpt-4"}
		namesake := Key{Provider: "azure", Model: "gpt-4"}
		b.fails(1)
		b.wantState(Open)
		b.as(namesake, func() {
			b.wantState(Closed)
			b.fails(1)
			b.wantState(Open)
			b.rejected()
		})
		b.pass(b.settings.Cooldown)
		due, err := b.store.Due(b.Context(), "azure")
		if err != nil || len(due) != 1 || due[0] != namesake {
			b.Errorf("due of azure: %v, %v", due, err)
		}
		if due := b.due(); len(due) != 0 {
			b.Errorf("due of openai, for which nobody waits: %v", due)
		}
	})
}
