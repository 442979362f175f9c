package sim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"nightshift/internal/sim"
)

// do makes a control request, as a test in another process would.
func (b *bundle) do(method, path, body string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequest(method, strings.TrimSuffix(b.URL(), "/v1")+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestControlFaults(t *testing.T) {
	b := setup(t, sim.Script{})
	b.call("m", "x")
	b.clock.set(10 * time.Second)
	status, text := b.do("POST", "/sim/faults", `{"model":"m","faults":[{"kind":"filter","first_call":2},{"kind":"503","to":"5s"}]}`)
	if status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	if k := b.status("other"); k != 200 {
		t.Errorf("another model: %d", k)
	}
	for i, want := range []int{503, 400} {
		if k := b.status("m"); k != want {
			t.Errorf("call %d since then: %d, want %d", i+1, k, want)
		}
	}
	b.do("DELETE", "/sim/faults", "")
	if k := b.status("m"); k != 200 {
		t.Errorf("after clearing: %d", k)
	}
	b.do("POST", "/sim/faults", `{"faults":[{"kind":"503","to":"5s"}]}`)
	if k := b.status("other"); k != 503 {
		t.Errorf("a fault for all: %d", k)
	}
	b.clock.set(15 * time.Second)
	if k := b.status("other"); k != 200 {
		t.Errorf("after its time: %d", k)
	}
	for _, bad := range []string{`{"faults":[{"kind":"fire"}]}`, `{"fault":[]}`, `{`} {
		if status, text := b.do("POST", "/sim/faults", bad); status != 400 {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}

func TestControlLog(t *testing.T) {
	b := setup(t, sim.Script{Models: map[string]sim.Behaviour{"a": {}, "b": {}}})
	for _, m := range []string{"a", "b", "a"} {
		b.call(m, "x")
	}
	waitFor(t, "all calls to end", func() bool { return b.Counts().InFlight == 0 })
	var calls []sim.Call
	_, text := b.do("GET", "/sim/calls?after=1&model=a", "")
	if err := json.Unmarshal([]byte(text), &calls); err != nil || len(calls) != 1 || calls[0].N != 3 || calls[0].Status != 200 {
		t.Errorf("%v: %s", err, text)
	}
	if status, _ := b.do("GET", "/sim/calls?after=x", ""); status != 400 {
		t.Errorf("after=x: %d", status)
	}
	var counts sim.Counts
	_, text = b.do("GET", "/sim/counts", "")
	if err := json.Unmarshal([]byte(text), &counts); err != nil || counts.Calls != 3 || counts.Models["a"].Statuses[200] != 2 {
		t.Errorf("%v: %s", err, text)
	}
	b.do("POST", "/sim/reset", "")
	if _, text = b.do("GET", "/sim/calls", ""); strings.TrimSpace(text) != "[]" {
		t.Errorf("after the reset: %s", text)
	}
	if _, text = b.do("GET", "/v1/models", ""); !strings.Contains(text, `"id":"a"`) || !strings.Contains(text, `"id":"b"`) {
		t.Errorf("models: %s", text)
	}
	if status, _ := b.do("GET", "/health", ""); status != 200 {
		t.Errorf("health: %d", status)
	}
	if status, _ := b.do("GET", "/v1/embeddings", ""); status != 404 {
		t.Errorf("an unknown path: %d", status)
	}
}
