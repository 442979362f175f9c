package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nightshift/internal/sim"
)

// configurations returns the examples that configure something: all but the
// simulator's script.
func configurations(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(all) < 10 {
		t.Fatalf("%d examples, error %v", len(all), err)
	}
	var found []string
	for _, f := range all {
		if filepath.Base(f) != "outage.yaml" {
			found = append(found, f)
		}
	}
	return found
}

var (
	baseURL   = regexp.MustCompile(`base_url: [^,}\s]+`)
	apiKeyEnv = regexp.MustCompile(`api_key_env: (\w+)`)
)

// TestExamplesWork: every example loads without a warning, and each of its
// models answers, once the simulator stands in for the providers.
func TestExamplesWork(t *testing.T) {
	s := sim.New(sim.Script{}, sim.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Setenv("NIGHTSHIFT_REDIS_URL", "embedded") // an example names none
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	for _, f := range configurations(t) {
		checked(t, f, "--no-probe")
		text := read(t, f)
		for _, key := range apiKeyEnv.FindAllStringSubmatch(text, -1) {
			t.Setenv(key[1], "not-a-key")
		}
		copied := filepath.Join(dir, filepath.Base(f))
		if err := os.WriteFile(copied, []byte(baseURL.ReplaceAllString(text, "base_url: "+s.URL())), 0o600); err != nil {
			t.Fatal(err)
		}
		if rows := checked(t, copied); !strings.Contains(rows, "answers in ") {
			t.Errorf("%s: no model answers:\n%s", f, rows)
		}
	}
}

// checked runs check and returns what it says of everything but Redis.
func checked(t *testing.T, file string, flags ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := run(append([]string{"check", "--config", file}, flags...), strings.NewReader(""), &out, &errs); code != 0 {
		t.Errorf("%s: exit code %d\n%s%s", file, code, out.String(), errs.String())
	}
	var rows strings.Builder
	for row := range strings.Lines(out.String()) {
		if strings.HasPrefix(row, "redis ") {
			continue
		}
		rows.WriteString(row)
		if state := strings.Fields(row)[2]; state != "STATE" && state != "ok" && state != "note" {
			t.Errorf("%s: %s", file, row)
		}
	}
	return rows.String()
}

// TestExamplesAreExplained: each has a header that says how to run it and a row
// in the list, and those of docs/ladder.md stand there as they are.
func TestExamplesAreExplained(t *testing.T) {
	list, guide := read(t, "../../examples/README.md"), read(t, "../../docs/ladder.md")
	for _, f := range configurations(t) {
		name, text := filepath.Base(f), read(t, f)
		if !strings.Contains(list, "`"+name+"`") {
			t.Errorf("examples/README.md does not list %s", name)
		}
		if name != "nightshift.yaml" && !strings.Contains(text, "--config examples/"+name) {
			t.Errorf("the header of %s does not say how to run it", name)
		}
		if strings.Contains(text, "# docs/ladder.md explains it.") && !strings.Contains(guide, "```yaml\n"+withoutHeader(text)+"```\n") {
			t.Errorf("docs/ladder.md does not show %s as it is", name)
		}
	}
}

// withoutHeader leaves out the comment at the top.
func withoutHeader(text string) string {
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
