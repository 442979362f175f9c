package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nightshift/config"
)

// TestRehearsalOfTheREADME runs the first command of the README and looks for
// what it promises to show.
func TestRehearsalOfTheREADME(t *testing.T) {
	t.Parallel()
	bin, err := exec.LookPath("enqueue") // this test binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "results.jsonl")
	example, err := filepath.Abs("../../examples/overnight.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "run", "--rehearse", example, "-o", out)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "NIGHTSHIFT_REDIS_URL=redis://127.0.0.1:1/0")
	started := time.Now()
	said, err := cmd.CombinedOutput()
	t.Logf("in %s:\n%s", time.Since(started), said)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^This is a rehearsal`,
		`(?m)^\d\d:\d\d:\d\d breaker of sim/large opened: unavailable \(503\); next probe at `,
		`(?m)^\d\d:\d\d:\d\d sim/small asks for patience \(429\): no worker calls it until `,
		`(?m)^lines \d+/120 \(\d+%\) waiting for `,
		`(?m)^\d\d:\d\d:\d\d breaker of sim/large closed`,
		`(?m)^this run: 120 lines in \d.*, \d+ calls, \d+ of them to probe$`,
		`(?m)^  calls avoided: \d+ tries met an open breaker and were not sent$`,
		`(?m)^in /.*results.jsonl: 120 lines$`,
		`(?m)^  succeeded  120, [1-9]\d* of them degraded$`,
		`(?m)^  calls      \d+$`,
		`(?m)^  deferrals  [1-9]`,
		`(?m)^  cost       \$0\.\d+$`,
		`(?m)^It was a rehearsal: `,
	} {
		if !regexp.MustCompile(want).Match(said) {
			t.Errorf("it never said %s", want)
		}
	}
	for line := range strings.Lines(string(said)) {
		if event := strings.Contains(line, " breaker of "); event && len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	results, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if n, marked := strings.Count(string(results), "\n"), strings.Count(string(results), `"rehearsal":true`); n != 120 || marked != 120 {
		t.Errorf("%d results, %d of them marked as a rehearsal's; want 120", n, marked)
	}
}

// TestRealConfigurationIsTheExample: what a rehearsal ends with is the file of
// the examples, of ten lines, and it loads.
func TestRealConfigurationIsTheExample(t *testing.T) {
	example, err := os.ReadFile("../../examples/nightshift.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var bare strings.Builder
	for line := range strings.Lines(string(example)) {
		if !strings.HasPrefix(line, "#") {
			bare.WriteString(line)
		}
	}
	if bare.String() != realProvider {
		t.Errorf("real.yaml is not examples/nightshift.yaml without its comments:\n%s", realProvider)
	}
	if n := strings.Count(realProvider, "\n"); n > 10 {
		t.Errorf("it has %d lines, more than ten", n)
	}
	if _, err := config.Parse("real.yaml", []byte(realProvider), nil, config.WithoutKeys()); err != nil {
		t.Error(err)
	}
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
