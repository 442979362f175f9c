package config

import (
	"slices"
	"testing"
)

func TestRungOf(t *testing.T) {
	t.Parallel()
	cfg := &Config{
		Models: map[string]Model{
			"a/gpt": {Name: "gpt"}, "b/gpt": {Name: "gpt"}, "c/x": {Name: "a/gpt"}, "d/other": {Name: "other"},
		},
		Ladders: map[string]Ladder{"n": {Rungs: []Rung{
			{Text: "?", AtDeadline: true}, {Model: "c/x"}, {Model: "a/gpt", Set: map[string]any{"seed": 1}}, {Model: "b/gpt"}, {Model: "a/gpt"},
		}}},
	}
	for model, want := range map[string]int{
		"a/gpt": 2, // a key comes before a name
		"b/gpt": 3,
		"gpt":   2, // the first of that name
		"c/x":   1,
		"x":     -1,
		"other": -1, // a model, but of another ladder
		"":      -1,
	} {
		if got, ok := cfg.RungOf("n", model); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: rung %d, %t; want %d", model, got, ok, want)
		}
	}
	if _, ok := cfg.RungOf("none", "gpt"); ok {
		t.Error("a ladder that there is not has a rung")
	}
	if got := cfg.RungModels("n"); !slices.Equal(got, []string{"c/x", "a/gpt", "b/gpt"}) {
		t.Errorf("models %v", got)
	}
}
