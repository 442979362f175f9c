package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"worker": main})
}

// TestReferenceIsUpToDate: docs/cli.md is what the code says.
func TestReferenceIsUpToDate(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := run([]string{"reference"}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	if !strings.Contains(string(doc), out.String()) {
		t.Error("docs/cli.md is out of date; run: make generate")
	}
}
