package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestGuard_Of(t *testing.T) {
	t.Parallel()
	g := Guard{CallsPerHour: 5000, USDPerHour: 2, Producers: map[string]GuardProducer{
		"anna": {CallsPerHour: 7}, "bert": {USDPerHour: 0.5}, "carl": {},
	}}
	for name, want := range map[string]GuardProducer{
		"anna": {CallsPerHour: 7, USDPerHour: 2}, "bert": {CallsPerHour: 5000, USDPerHour: 0.5},
		"carl": {CallsPerHour: 5000, USDPerHour: 2}, "nobody": {CallsPerHour: 5000, USDPerHour: 2},
	} {
		if got := g.Of(name); got != want {
			t.Errorf("limits of %s: %+v, want %+v", name, got, want)
		}
	}
}

func TestPriceOf(t *testing.T) {
	t.Parallel()
	zero, dear := 0.0, 1.0
	cfg := Config{Models: map[string]Model{"a/priced": {Price: &Price{Output: 1}}, "a/unpriced": {}}}
	for _, c := range []struct {
		rung Rung
		want *Price
		free bool
	}{
		{Rung{Model: "a/priced"}, &Price{Output: 1}, false},
		{Rung{Model: "a/priced", Price: &Price{}}, &Price{}, true},
		{Rung{Model: "a/priced", Price: &Price{CachedInput: &zero}}, &Price{CachedInput: &zero}, true},
		{Rung{Model: "a/priced", Price: &Price{CachedInput: &dear}}, &Price{CachedInput: &dear}, false},
		{Rung{Model: "a/unpriced", Price: &Price{PerCall: 0.01}}, &Price{PerCall: 0.01}, false},
		{Rung{Model: "a/unpriced", Price: &Price{Input: 1}}, &Price{Input: 1}, false},
		{Rung{Model: "a/unpriced"}, nil, true},
		{Rung{Text: "Sorry."}, nil, true},
	} {
		got := cfg.PriceOf(c.rung)
		if diff := cmp.Diff(c.want, got); diff != "" || got.Free() != c.free {
			t.Errorf("%+v: free %t (-want +got):\n%s", c.rung, got.Free(), diff)
		}
	}
}

func TestHoursOf(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, strings.Replace(minimal, "{ladder: nightly}", `{ladder: nightly, hours: "22:00-07:00"}`, 1)+"\ntimezone: America/New_York\n")
	evening := time.Date(2026, 11, 30, 22, 30, 0, 0, cfg.Location())
	if h := cfg.HoursOf("overnight"); !h.Open(evening) || h.Open(evening.Add(-time.Hour)) {
		t.Errorf("the hours %q are not those of the configured zone", h)
	}
	if !cfg.HoursOf("another").Always() {
		t.Error("a queue that is not in the file has hours")
	}
}
