package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// comingFromConfig has what docs/coming-from.md tells to write: PROVIDER and SET
// are its own words.
const comingFromConfig = `
providers:
  vllm: PROVIDER
models:
  vllm/gpt-3.5-turbo-0125: {}
  vllm/meta-llama/Meta-Llama-3-8B-Instruct: {}
ladders:
  night:
    rungs:
      - {model: vllm/gpt-3.5-turbo-0125, SET}
      - {model: vllm/meta-llama/Meta-Llama-3-8B-Instruct}
queues:
  overnight: {ladder: night, concurrency: 4}
batches: {notify: {allow_private: true}}
`

// TestComingFrom runs every command that docs/coming-from.md names, with files
// of the tools that it speaks of, and looks for every flag.
func TestComingFrom(t *testing.T) {
	page := read(t, "../../docs/coming-from.md")
	word := func(pattern string) string {
		found := regexp.MustCompile("`[^`]*(" + pattern + ")[^`]*`").FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("the page has no %s any more", pattern)
		}
		return found[1]
	}
	provider := strings.Replace(word(`\{api: openai, base_url: [^}]*\}`), "http://127.0.0.1:8000/v1", "SIM", 1)
	d := newDesk(t, strings.NewReplacer("PROVIDER", provider, "SET", word(`set: \{[^}]*\}`)).Replace(comingFromConfig))
	d.work(t)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	const file, in = "../../batch/testdata/examples/openai.jsonl", "../../batch/testdata/examples/vllm.jsonl"
	commands := regexp.MustCompile("`enqueue (\\w+ [^`]*)`").FindAllStringSubmatch(page, -1)
	if len(commands) < 12 {
		t.Fatalf("%d commands: what is the page about?", len(commands))
	}
	for i, command := range commands {
		args, files := strings.Fields(command[1]), 0
		for j, arg := range args {
			switch {
			case arg == "FILE" && args[j-1] == "batch":
				args[j] = file
			case arg == "FILE", arg == "OUT":
				files++
				args[j] = filepath.Join(dir, fmt.Sprintf("%d-%d.jsonl", i, files))
			case arg == "IN":
				args[j] = in
			case arg == "BATCH":
				args[j] = strings.TrimSpace(d.must(t, "batch", "--again", "--wait", file))
			case arg == "URL":
				args[j] = hook.URL
			}
		}
		if args[0] == "batch" {
			args = append(args, "--again", "--wait")
		}
		d.must(t, args...)
		written, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%d-*", i)))
		if err != nil || len(written) != files {
			t.Errorf("enqueue %s wrote %v, want %d files", command[1], written, files)
		}
	}
	checkFlags(t, page)
}

// checkFlags looks for the flags that a page names among those that there are.
func checkFlags(t *testing.T, page string) {
	t.Helper()
	reference, checked := read(t, "../../docs/cli.md"), 0
	for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(page, -1) {
		if strings.HasPrefix(span, "`vllm ") { // theirs
			continue
		}
		for _, flag := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(span, -1) {
			if checked++; !regexp.MustCompile("`(-\\w, )?" + flag + "[ `]").MatchString(reference) {
				t.Errorf("there is no flag %s", flag)
			}
		}
	}
	if checked == 0 {
		t.Error("no flag was found on the page")
	}
}
