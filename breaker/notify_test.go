package breaker

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAHookThatPanicsHarmsNobody(t *testing.T) {
	var log bytes.Buffer
	calls := 0
	m := NewMemory(func(Key) Settings { return Settings{Window: 1} }, nil,
		OnTransition(func(Transition) { calls++; panic("hook") }),
		WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	for _, model := range []string{"a/x", "a/y"} {
		tk, err := m.Admit(t.Context(), Key{Provider: "a", Model: model})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Report(t.Context(), tk, Report{Outcome: Failure}); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 2 || strings.Count(log.String(), "transition hook panicked") != 2 {
		t.Errorf("%d calls, log:\n%s", calls, log.String())
	}
}

func TestAHookMayUseTheStore(t *testing.T) {
	key := Key{Provider: "a", Model: "a/x"}
	var m *Memory
	var seen []State
	m = NewMemory(func(Key) Settings { return Settings{Window: 1} }, nil, OnTransition(func(tr Transition) {
		seen = append(seen, tr.To)
		if list, err := m.List(context.Background(), []Key{tr.Key}); err != nil || list[0].State != tr.To {
			t.Errorf("the hook sees %v, %v after %v", list, err, tr)
		}
	}))
	tk, _ := m.Admit(t.Context(), key)
	_ = m.Report(t.Context(), tk, Report{Outcome: Failure})
	if len(seen) != 1 || seen[0] != Open {
		t.Errorf("the hook saw %v", seen)
	}
}

// Transitions of one breaker come one after the other, however many workers
// make them.
func TestHooksSeeTransitionsInOrder(t *testing.T) {
	key := Key{Provider: "a", Model: "a/x"}
	last, calls := Closed, 0
	m := NewMemory(func(Key) Settings {
		return Settings{Window: 1, Cooldown: time.Millisecond, ProbeLease: time.Millisecond}
	}, func() time.Time { return time.UnixMilli(1_750_000_000_000) }, OnTransition(func(tr Transition) {
		if tr.From != last {
			t.Errorf("from %s after %s", tr.From, last)
		}
		last = tr.To
		calls++
	}))
	now := int64(1_750_000_000_000)
	var clock sync.Mutex
	m.clock = func() time.Time { // every look is a millisecond later
		clock.Lock()
		defer clock.Unlock()
		now++
		return time.UnixMilli(now)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				if tk, err := m.Admit(context.Background(), key); err == nil {
					_ = m.Report(context.Background(), tk, Report{Outcome: Failure})
				}
				if tk, err := m.AdmitProbe(context.Background(), key); err == nil {
					_ = m.Report(context.Background(), tk, Report{Outcome: Success})
				}
			}
		})
	}
	wg.Wait()
	m.notify.drain()
	if calls == 0 {
		t.Error("nothing happened")
	}
}
