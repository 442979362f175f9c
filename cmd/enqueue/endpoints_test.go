package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nightshift/batch"
	"nightshift/internal/sim"
)

// TestEndpointsExample runs the example with all endpoints, with the simulator in
// place of the provider: each line is answered by the model that it names, in
// the shape of its endpoint. Package provider holds the simulator's answers to
// what the adapters make of them.
func TestEndpointsExample(t *testing.T) {
	t.Parallel()
	bin, err := exec.LookPath("enqueue") // this test binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	s := sim.New(sim.Script{}, sim.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "endpoints.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`base_url: [^,}\s]+`).ReplaceAll(text, []byte("base_url: "+s.URL()))
	if err := os.WriteFile(filepath.Join(dir, "endpoints.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "run", "--config", "endpoints.yaml", "endpoints.jsonl", "-o", "out.jsonl")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "OPENAI_API_KEY=none", "NIGHTSHIFT_REDIS_URL=embedded")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	results, err := os.ReadFile(filepath.Join(dir, "out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"chat-1": "chat.completion of openai/gpt-4o-mini", "response-1": "response of openai/gpt-4o-mini",
		"text-1": "text_completion of openai/gpt-3.5-turbo-instruct", "vectors-1": "list of openai/text-embedding-3-small",
	}
	for line := range strings.Lines(string(results)) {
		var r batch.Result
		var body struct {
			Object string            `json:"object"`
			Data   []json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Response == nil || json.Unmarshal(r.Response.Body, &body) != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := body.Object + " of " + r.Nightshift.Model; got != want[r.CustomID] || r.Response.StatusCode != 200 || r.CustomID == "vectors-1" && len(body.Data) != 3 {
			t.Errorf("%s: %s, want %s", r.CustomID, got, want[r.CustomID])
		}
		delete(want, r.CustomID)
	}
	if len(want) > 0 {
		t.Errorf("no result for %v", want)
	}
}
