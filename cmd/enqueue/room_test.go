package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightshift/internal/cli"
	"nightshift/internal/redistest"
)

// A Redis near the limit of its memory takes no batch, and nothing of it is left.
func TestSubmissionsNeedRoom(t *testing.T) {
	server, dir := redistest.Start(t), t.TempDir()
	filler := server.Client(t)
	err := filler.Set(context.Background(), "filler", strings.Repeat("x", 40<<20), 0).Err()
	if err := errors.Join(err, filler.ConfigSet(context.Background(), "maxmemory", "44mb").Err()); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"in.jsonl": `{"id":"a","prompt":"Hello"}`,
		"nightshift.yaml": "providers: {sim: {base_url: 'http://127.0.0.1:1/v1'}}\nmodels: {sim/a: {}}\n" +
			"ladders: {l: {rungs: [{model: sim/a}]}}\nqueues: {q: {ladder: l}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	enqueue := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		args = append(args, "--config", filepath.Join(dir, "nightshift.yaml"), "--redis", server.URL())
		code = run(args, strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	code, stdout, stderr := enqueue("batch", "--id", "b", filepath.Join(dir, "in.jsonl"))
	if code != cli.ExitRefused || stdout != "" || !strings.Contains(stderr, "redis has no room for 0.0 MiB: it uses ") || !strings.Contains(stderr, "hint: raise maxmemory of Redis") {
		t.Errorf("exit %d, printed %q, %s", code, stdout, stderr)
	}
	code, _, stderr = enqueue("run", filepath.Join(dir, "in.jsonl"), "-o", filepath.Join(dir, "out.jsonl"))
	if code != cli.ExitRefused || !strings.Contains(stderr, "redis has no room for ") || !strings.Contains(stderr, "the same command goes on then") {
		t.Errorf("run: exit %d, %s", code, stderr)
	}
	if err := filler.ConfigSet(context.Background(), "maxmemory", "1gb").Err(); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr = enqueue("status", "--json"); code != 0 || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("after a refusal: exit %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = enqueue("batch", "--id", "b", filepath.Join(dir, "in.jsonl")); code != 0 || stdout != "b\n" {
		t.Errorf("with room again: exit %d, %s%s", code, stdout, stderr)
	}
}
