package sim_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"nightshift/internal/sim"
)

func TestHangEndsWithTheClient(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Hang}}}})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if r := b.send(ctx, request); !errors.Is(r.Err, context.DeadlineExceeded) {
		t.Fatalf("got %+v", r)
	}
	waitFor(t, "the hang to end", func() bool { return b.Counts().InFlight == 0 })
	if c := b.Calls()[0]; !c.Cut || !c.Done || c.Status != 0 || c.Fault != sim.Hang {
		t.Errorf("on the log: %+v", c)
	}
}

func TestCloseEndsHangsAndLatencies(t *testing.T) {
	for name, behaviour := range map[string]sim.Behaviour{
		"hang":    {Faults: []sim.Fault{{Kind: sim.Hang}}},
		"latency": {Latency: sim.Latency{Fixed: time.Hour}},
		"slow":    {Faults: []sim.Fault{{Kind: sim.Slow, Delay: time.Hour}}},
		"garbage": {Latency: sim.Latency{Fixed: time.Hour}, Faults: []sim.Fault{{Kind: sim.Garbage}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, sim.Script{Default: behaviour})
			done := make(chan error, 1)
			go func() { done <- b.call("m", "x").Err }()
			waitFor(t, "the call", func() bool { return b.Counts().InFlight == 1 })
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if c := b.Counts(); c.InFlight != 0 || c.Cut != 1 {
				t.Errorf("after Close: %+v", c)
			}
			if err := <-done; err == nil {
				t.Error("the client got an answer")
			}
		})
	}
}

func TestServesAsAHandler(t *testing.T) {
	s := sim.New(sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Hang, FirstCall: 2}}}}, sim.Options{})
	srv := httptest.NewServer(s)
	defer srv.Close()
	client := srv.Client()
	if r := post(t.Context(), client, srv.URL+"/v1", request); r.Status != 200 {
		t.Fatalf("got %+v", r)
	}
	done := make(chan error, 1)
	go func() { done <- post(context.Background(), client, srv.URL+"/v1", request).Err }()
	waitFor(t, "the hang", func() bool { return s.Counts().InFlight == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the hang ended in an answer")
	}
	if r := post(t.Context(), client, srv.URL+"/v1", request); r.Status != 503 {
		t.Errorf("a closed simulator: %+v", r)
	}
}

func TestStartRefuses(t *testing.T) {
	bad := sim.New(sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: "fire"}}}}, sim.Options{})
	if err := bad.Start("127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "fire") {
		t.Errorf("got %v", err)
	}
	b := setup(t, sim.Script{})
	if err := b.Start("127.0.0.1:0"); err == nil {
		t.Error("it was started twice")
	}
	taken := strings.TrimSuffix(strings.TrimPrefix(b.URL(), "http://"), "/v1")
	if err := sim.New(sim.Script{}, sim.Options{}).Start(taken); err == nil {
		t.Error("an address was used twice")
	}
}

func TestLogAndCounts(t *testing.T) {
	b := setup(t, sim.Script{Models: map[string]sim.Behaviour{"bad": {Faults: []sim.Fault{{Kind: sim.Unavailable}}}}},
		func(o *sim.Options) { o.KeepCalls = 8 })
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			b.call([]string{"good", "bad"}[i%2], fmt.Sprint(i))
		})
	}
	wg.Wait()
	waitFor(t, "all calls to end", func() bool { return b.Counts().InFlight == 0 })
	c := b.Counts()
	if c.Calls != 20 || c.Cut != 0 || c.MaxInFlight < 1 || c.Models["good"].Statuses[200] != 10 || c.Models["bad"].Statuses[503] != 10 {
		t.Errorf("counts: %+v", c)
	}
	calls := b.Calls()
	if len(calls) != 8 {
		t.Fatalf("%d calls kept, want 8", len(calls))
	}
	for i, call := range calls {
		if call.N != int64(13+i) || call.IdempotencyKey != "key-1" || len(call.Digest) != 16 || !call.Done {
			t.Errorf("call %d: %+v", i, call)
		}
	}
	b.Reset()
	if c := b.Counts(); c.Calls != 0 || len(b.Calls()) != 0 {
		t.Errorf("after Reset: %+v", c)
	}
}

func TestResetBeginsTheScriptAnew(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Unavailable, From: time.Second}, {Kind: sim.Filter, FirstCall: 2}}}})
	b.call("m", "x")
	b.clock.set(5 * time.Second)
	b.Reset()
	if got := b.status("m"); got != 200 {
		t.Errorf("the first call after Reset: %d", got)
	}
}

func TestRehearsalHasItsOutage(t *testing.T) {
	script := sim.Rehearsal()
	if err := script.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, m := range script.Models { // the latencies are not what is tested
		m.Latency = sim.Latency{Fixed: time.Nanosecond}
		script.Models[name] = m
	}
	b := setup(t, script)
	for at, want := range map[int]int{1: 200, 5: 503, 15: 503, 16: 200} {
		b.clock.set(time.Duration(at) * time.Second)
		if got := b.status("large"); got != want {
			t.Errorf("large after %d s: %d, want %d", at, got, want)
		}
	}
	for at, want := range map[int]int{1: 200, 8: 200, 15: 503, 16: 200} {
		b.clock.set(time.Duration(at) * time.Second)
		if got := b.status("small"); got != want {
			t.Errorf("small after %d s: %d, want %d", at, got, want)
		}
	}
	b.clock.set(7 * time.Second)
	got := map[int]int{}
	for range 40 {
		got[b.status("small")]++
	}
	if got[200] == 0 || got[429] == 0 || len(got) != 2 {
		t.Errorf("small in its spell: %v", got)
	}
}
