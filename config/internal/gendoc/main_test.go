package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := generate("../../" + typesFile)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("docs/configuration.md is not what the code says; run go generate ./config (-page +code):\n%s", diff)
	}
}

// TestEveryKeyIsExplained: a key without a comment would leave an empty cell.
func TestEveryKeyIsExplained(t *testing.T) {
	t.Parallel()
	all, err := readStructs("../../" + typesFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, fields := range all {
		for _, f := range fields {
			if _, nested := all[elem(f.typ)]; !nested && f.text == "" {
				t.Errorf("%s.%s has no comment", name, f.key)
			}
			if _, nested := all[elem(f.typ)]; !nested && values(f) == "" {
				t.Errorf("%s.%s: no words for the type %s", name, f.key, f.typ)
			}
		}
	}
}
