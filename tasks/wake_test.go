package tasks

import (
	"context"
	"maps"
	"testing"

	"nightshift/breaker"
)

// states is a breaker store by what is open.
type states map[breaker.Key]bool

func (s states) List(_ context.Context, keys []breaker.Key) ([]breaker.Status, error) {
	var all []breaker.Status
	for _, k := range keys {
		st := breaker.Status{Key: k, State: breaker.Closed}
		if s[k] {
			st.State = breaker.Open
		}
		all = append(all, st)
	}
	return all, nil
}

func TestAModelUnderAnOpenParentIsOpen(t *testing.T) {
	a := breaker.Key{Provider: "p", Model: "p/a"}
	east := breaker.Key{Provider: "p", Model: "p/b", Region: "east"}
	other := breaker.Key{Provider: "q", Model: "q/c"}
	b := BreakerKeys{
		Store: states{a.Parent(): true, other: true},
		Keys:  map[string]breaker.Key{"p/a": a, "p/b": east, "q/c": other},
	}
	open, err := b.Open(t.Context(), []string{"p/a", "p/b", "q/c", "gone"})
	if want := map[string]bool{"p/a": true, "p/b": false, "q/c": true}; err != nil || !maps.Equal(open, want) {
		t.Errorf("open %v, %v, want %v", open, err, want)
	}
}
