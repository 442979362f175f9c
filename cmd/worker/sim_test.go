package main

import (
	"os"
	"strings"
	"testing"

	"nightshift/internal/sim"
)

func TestExampleScriptLoads(t *testing.T) {
	s, err := sim.LoadFile("../../examples/outage.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Models) == 0 {
		t.Error("it has no models")
	}
}

// TestKindsOfFaultAreDocumented: in the page of formats, and in the help.
func TestKindsOfFaultAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	var help, errs strings.Builder
	if code := run([]string{"sim", "--help"}, strings.NewReader(""), &help, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	for _, k := range sim.Kinds() {
		if !strings.Contains(string(page), "`"+string(k)+"`") && !strings.Contains(string(page), "`\""+string(k)+"\"`") {
			t.Errorf("docs/formats.md lacks the kind %s", k)
		}
		if !strings.Contains(help.String(), string(k)) {
			t.Errorf("worker sim --help lacks the kind %s", k)
		}
	}
}
