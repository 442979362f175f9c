package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/internal/redistest"
	"nightshift/ladder"
	"nightshift/provider"
	"nightshift/replay"
)

// TestCallsAreExported: what a worker logged comes out as it is in docs/formats.md,
// to a file or to standard output.
func TestCallsAreExported(t *testing.T) {
	server := redistest.Start(t)
	log, err := replay.NewLog(replay.LogOptions{Redis: server.Client(t), Keep: 10, Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { log.Run(ctx) })
	log.Called(ladder.CallEvent{
		Purpose: ladder.ForLine, Key: breaker.Key{Provider: "p", Model: "p/m"}, Latency: time.Second, Batch: "b", Line: 3, Queue: "q", Producer: "anna",
		Call: provider.Call{Kind: provider.OK, StartedAt: time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC), Cost: 1_500_000},
	})
	cancel()
	wg.Wait()
	dir := t.TempDir()
	config := filepath.Join(dir, "nightshift.yaml")
	text := "redis: {url: \"" + server.URL() + "\"}\nproviders: {p: {base_url: \"http://127.0.0.1:1/v1\"}}\nmodels: {p/m: {}}\nladders: {l: {rungs: [{model: p/m}]}}\nqueues: {q: {ladder: l}}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `{"v":1,"type":"call","time":"2026-11-30T22:00:00Z","worker":"w","seq":1,"queue":"q","producer":"anna","batch":"b","line":3,"model":"p/m","provider":"p","purpose":"line","kind":"ok","latency_ms":1000,"cost_usd":0.0015,"breaker":"closed"}` + "\n"
	var out, errs bytes.Buffer
	if code := run([]string{"calls", "--config", config}, strings.NewReader(""), &out, &errs); code != 0 || out.String() != want {
		t.Errorf("exit %d, printed %s%s", code, &out, &errs)
	}
	out.Reset()
	file := filepath.Join(dir, "calls.jsonl")
	code := run([]string{"calls", "--config", config, "-o", file}, strings.NewReader(""), &out, &errs)
	if got, _ := os.ReadFile(file); code != 0 || out.Len() != 0 || string(got) != want {
		t.Errorf("exit %d, file: %s, printed %s%s", code, got, &out, &errs)
	}
}
