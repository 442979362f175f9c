package breaker

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func TestHooksSeeTransitionsInOrderAndOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		m := NewMemory(func(Key) Settings { return Settings{Window: 1} }, nil, OnTransition(func(tr Transition) {
			seen = append(seen, "begin "+tr.Key.Model)
			time.Sleep(time.Second)
			seen = append(seen, "end "+tr.Key.Model)
		}))
		var wg sync.WaitGroup
		for _, model := range []string{"a/1", "a/2", "a/3"} {
			wg.Go(func() {
				key := Key{Provider: "a", Model: model}
				tk, _ := m.Admit(t.Context(), key)
				_ = m.Report(t.Context(), tk, Report{Outcome: Failure})
			})
			synctest.Wait() // the others come while the first one's hook is under way
		}
		wg.Wait()
		want := []string{"begin a/1", "end a/1", "begin a/2", "end a/2", "begin a/3", "end a/3"}
		if !slices.Equal(seen, want) {
			t.Errorf("the hook saw %q", seen)
		}
	})
}

// The race detector holds this one to its locks; without it, the history must
// still be a chain.
func TestTransitionsOfManyWorkersAreAChain(t *testing.T) {
	key := Key{Provider: "a", Model: "a/x"}
	var now atomic.Int64
	now.Store(1_750_000_000_000)
	last, calls := Closed, 0
	m := NewMemory(func(Key) Settings {
		return Settings{Window: 1, Cooldown: time.Millisecond, ProbeLease: time.Hour}
	}, func() time.Time { return time.UnixMilli(now.Add(1)) }, OnTransition(func(tr Transition) {
		if tr.From != last {
			t.Errorf("from %s after %s", tr.From, last)
		}
		last = tr.To
		calls++
	}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				if tk, err := m.Admit(t.Context(), key); err == nil {
					_ = m.Report(t.Context(), tk, Report{Outcome: Failure})
				}
				if tk, err := m.AdmitProbe(t.Context(), key); err == nil {
					_ = m.Report(t.Context(), tk, Report{Outcome: Success})
				}
			}
		})
	}
	wg.Wait()
	if calls < 100 {
		t.Errorf("only %d transitions", calls)
	}
}
