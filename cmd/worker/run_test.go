package main

import (
	"slices"
	"strings"
	"testing"
)

func TestAddressesOfFlagsMayBeTheNextWord(t *testing.T) {
	for in, want := range map[string]string{
		"run --metrics 127.0.0.1:0 --dashboard :8080": "run --metrics=127.0.0.1:0 --dashboard=:8080",
		"run --metrics --dashboard":                   "run --metrics=configured --dashboard=configured",
		"run --metrics --config a:b":                  "run --metrics=configured --config a:b",
		"run --metrics=:1 x:2":                        "run --metrics=:1 x:2",
		"--metrics":                                   "--metrics=configured",
	} {
		if got := joinAddresses(strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q", in, got)
		}
	}
	if got := joinAddresses([]string{"--metrics", ""}); !slices.Equal(got, []string{"--metrics=configured", ""}) {
		t.Errorf("an empty word: %q", got)
	}
}
