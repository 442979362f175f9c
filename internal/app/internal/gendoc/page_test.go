package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nightshift/internal/app"
)

func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	got, err := os.ReadFile("../../" + pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(generate())); diff != "" {
		t.Errorf("docs/metrics.md is not what the code says; run go generate ./internal/app (-page +code):\n%s", diff)
	}
}

// TestEveryMetricIsExplained: each has its row, a help that ends as a sentence
// does, and the unit that its name has.
func TestEveryMetricIsExplained(t *testing.T) {
	t.Parallel()
	page := string(generate())
	for _, m := range app.MetricList() {
		if strings.Count(page, "| `"+m.Name+"` |") != 1 {
			t.Errorf("%s: does not have one row", m.Name)
		}
		if !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: help %q", m.Name, m.Help)
		}
		if told := strings.HasSuffix(m.Help, "From the keeper only."); told != (m.By == app.KeeperOnly) {
			t.Errorf("%s: exported by %s, and its help says otherwise: %q", m.Name, m.By, m.Help)
		}
		for suffix, unit := range map[string]string{"_seconds": "seconds", "_bytes": "bytes", "_usd_total": "US dollars", "_lines": "lines"} {
			if strings.HasSuffix(m.Name, suffix) && m.Unit != unit {
				t.Errorf("%s: unit %q, want %s", m.Name, m.Unit, unit)
			}
		}
	}
}
