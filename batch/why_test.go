package batch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightshift/provider"
)

func (b *bundle) why(tb testing.TB, line int64, want Stage) Story {
	tb.Helper()
	s, err := b.Why(tb.Context(), "b", line)
	must(tb, err)
	if s.Stage != want || s.Line != line || s.CustomID == "" {
		tb.Fatalf("line %d: %+v, want the stage %s", line, s, want)
	}
	return s
}

// TestWhy follows one line from the backlog to its end, and again after a retry.
func TestWhy(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *bundle{"redis": setup, "embedded": setupMini} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.submit(t, "b", jsonl(100))
			if s := b.why(t, 70, StageBacklog); *s.Place != 70 || s.CustomID != "r70" || s.BatchState != Running {
				t.Errorf("%+v, place %d", s, *s.Place)
			}
			refs := b.release(t, "b", 66)
			if s := b.why(t, 70, StageBacklog); *s.Place != 4 {
				t.Errorf("place %d, want 4", *s.Place)
			}
			if s := b.why(t, 2, StageReleased); !s.ReleasedAt.Equal(b.clock.t) || s.Place != nil {
				t.Errorf("%+v", s)
			}
			b.begin(t, refs[1], "t1", Granted)
			if s := b.why(t, 2, StageRunning); !s.LeaseUntil.Equal(b.clock.t.Add(time.Minute)) {
				t.Errorf("%+v", s)
			}
			b.clock.step(61 * time.Second)
			if s := b.why(t, 2, StageReleased); s.LeaseUntil == nil {
				t.Error("a lease that ran out is not told")
			}
			b.begin(t, refs[1], "t2", Granted)
			p := paid("m1", "m2")
			p.Failures, p.Deferrals = 1, 2
			p.Skipped = []Skip{{Model: "m3", At: b.clock.t, Detail: "its breaker is open"}}
			until := b.clock.t.Add(time.Minute)
			must(t, b.Suspend(t.Context(), Lease{refs[1], "t2"}, p, Wait{Model: "m1", Reason: "breaker_open", Until: until}))
			s := b.why(t, 2, StageWaiting)
			if w := s.WaitingFor; w.Model != "m1" || !w.Until.Equal(until) || s.Crashes != 1 || s.Failures != 1 || s.Deferrals != 2 || s.CostUSD != 2000 {
				t.Errorf("%+v, %+v", s, w)
			}
			kinds := []provider.Kind{}
			for _, a := range s.Attempts {
				kinds = append(kinds, a.Kind)
			}
			if !slices.Equal(kinds, []provider.Kind{provider.OK, provider.OK, KindSkipped}) {
				t.Errorf("attempts %v", kinds)
			}
			b.end(t, refs[1], Failed)
			if s := b.why(t, 2, StageFinished); s.Outcome != Failed || s.StatusCode != 200 || len(s.Attempts) != 2 || s.CostUSD != 2000 || s.Model == "" {
				t.Errorf("%+v", s)
			}
			b.end(t, refs[0], Failed)
			if _, err := b.Retry(t.Context(), "b", Retry{}, nil); err != nil {
				t.Fatal(err)
			}
			if s := b.why(t, 2, StageBacklog); *s.Place != 2 || s.Generation != 1 {
				t.Errorf("%+v, place %d", s, *s.Place)
			}
			if s := b.why(t, 70, StageBacklog); *s.Place != 6 || s.Generation != 0 {
				t.Errorf("retried lines come first: place %d, want 6", *s.Place)
			}
		})
	}
}

// A line's classes have cursors of their own.
func TestWhy_PlaceAmongClasses(t *testing.T) {
	b := setup(t)
	var text strings.Builder
	for i := range 200 {
		text.WriteString(inClass(fmt.Sprintf("r%d", i+1), i%2) + "\n")
	}
	must(t, b.Submit(t.Context(), describe(t, "b", text.String()), classes(t, text.String()), nil))
	if _, err := b.Release(t.Context(), "b", 1, 90, map[int]int{0: 10, 1: 80}); err != nil {
		t.Fatal(err)
	}
	// Lines 1, 3 … 19 and 2, 4 … 160 are gone.
	for line, want := range map[int64]int64{21: 1, 23: 2, 162: 72, 163: 73} {
		if s := b.why(t, line, StageBacklog); *s.Place != want {
			t.Errorf("line %d: place %d, want %d", line, *s.Place, want)
		}
	}
}

func TestWhy_UnknownLines(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", "\n"+jsonl(100))
	for _, line := range []int64{-1, 0, 1, 102} {
		_, err := b.Why(t.Context(), "b", line)
		var missing *NoLineError
		if !errors.As(err, &missing) || !errors.Is(err, ErrNotFound) || missing.First != 2 || missing.Last != 101 || missing.Total != 100 {
			t.Errorf("line %d: %v", line, err)
		}
	}
	if _, err := b.Why(t.Context(), "none", 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no batch: %v", err)
	}
	if line, err := b.Find(t.Context(), "b", "r100", nil); err != nil || line != 101 {
		t.Errorf("r100 is line %d, %v", line, err)
	}
	looked := int64(0)
	_, err := b.Find(t.Context(), "b", "r101", func(n, _ int64) { looked = n })
	var missing *NoLineError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "2 to 101") {
		t.Errorf("%v after %d lines", err, looked)
	}
	if _, err := b.Find(t.Context(), "none", "r1", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no batch: %v", err)
	}
}
