package config

import "testing"

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	known := []string{"window", "failures", "cooldown", "max_cooldown", "probe", "probes"}
	for word, want := range map[string]string{
		"windw":       "window",
		"widnow":      "window", // swapped letters
		"Window":      "window",
		"cool":        "cooldown", // its beginning
		"cooldwon":    "cooldown",
		"maxcooldown": "max_cooldown",
		"probess":     "probes",
		"xyz":         "",
		"w":           "",
		"":            "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
