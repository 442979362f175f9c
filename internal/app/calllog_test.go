package app

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/replay"
)

// TestCallLogOfAFleet: two worker processes, an outage; every call that reached the
// provider is in the log once, and every deferral.
func TestCallLogOfAFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: 4, retries: 5, cooldown: "1s", maxCooldown: "2s"})
	f.up.set(true)
	f.submit("b", 60)
	one, two := f.start(), f.start()
	f.until(30*time.Second, "the breaker is open", func() bool {
		all, err := f.conn.Breakers.List(context.Background(), f.conn.Keys)
		return err == nil && all[0].State != breaker.Closed
	})
	f.until(30*time.Second, "a probe failed", func() bool { _, probes := f.up.counts(); return probes > 0 })
	f.up.set(false)
	status := f.done("b", 60*time.Second)
	for _, w := range []interface{ Wait() error }{one, two} {
		_ = one.Process.Signal(syscall.SIGTERM)
		_ = two.Process.Signal(syscall.SIGTERM)
		_ = w.Wait()
	}
	var calls, probes, deferrals int
	lines, workers, text := map[int64]bool{}, map[string]bool{}, strings.Builder{}
	err := f.conn.Calls(t.Context(), replay.Exporting{Each: func(r replay.Record) error {
		workers[r.Worker] = true
		switch {
		case r.Type == replay.TypeDeferral:
			deferrals++
		case r.Probe && r.Batch == "":
			probes++
			calls++
		default:
			calls++
			lines[r.Line] = lines[r.Line] || r.Kind == "ok"
			if r.Producer != "p" || r.Queue != "q" || r.Batch != "b" || r.Model != "a/one" || r.Provider != "a" || r.Ladder != "night" {
				t.Errorf("names of a call: %+v", r)
			}
		}
		return json.NewEncoder(&text).Encode(r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	total, sent := f.up.counts()
	if calls != total || probes != sent || int64(deferrals) != status.Deferrals {
		t.Errorf("log: %d calls, %d probes, %d deferrals; provider %d and %d, batch %d", calls, probes, deferrals, total, sent, status.Deferrals)
	}
	for line, ok := range lines {
		if !ok {
			t.Errorf("line %d has no answer in the log", line)
		}
	}
	if len(lines) != 60 || len(workers) != 2 {
		t.Errorf("%d lines of %d workers", len(lines), len(workers))
	}
	if strings.Contains(text.String(), "line ") || deferrals == 0 {
		t.Errorf("a prompt in the log, or no deferral (%d): %.500s", deferrals, text.String())
	}
}
