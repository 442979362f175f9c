package batch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a page shows of a batch whose lines end in several ways: the last ends, the
// counts by code, which a retry lowers, and what its deferrals waited for.
func TestRecentAndTheCountsByCodeAndReason(t *testing.T) {
	for name, b := range map[string]*bundle{"redis": setup(t), "embedded": setupMini(t)} {
		t.Run(name, func(t *testing.T) {
			b.submit(t, "b", jsonl(6))
			refs := b.release(t, "b", 5)
			for i, reason := range []string{"breaker_open", "guard", "breaker_open"} {
				b.begin(t, refs[4], string(rune('a'+i)), Granted)
				wait := Wait{Reason: reason, Until: b.clock.t.Add(time.Minute)}
				must(t, b.Suspend(t.Context(), Lease{refs[4], string(rune('a' + i))}, Progress{Deferrals: i + 1}, wait))
			}
			codes := []string{"", "timeout", "timeout", "invalid_request"}
			for i, code := range codes {
				got := b.begin(t, refs[i], "t", Granted)
				r, o := answer(got.Line, Progress{}), Succeeded
				if code != "" {
					r.Error, o = &ResultError{Code: code}, Failed
				}
				must(t, b.Finish(t.Context(), Lease{refs[i], "t"}, Progress{}, o, r))
				b.clock.step(time.Second)
			}
			st := b.status(t, "b")
			if diff := cmp.Diff(map[string]int64{"timeout": 2, "invalid_request": 1}, st.EndedAs); diff != "" {
				t.Error("ended as: " + diff)
			}
			if diff := cmp.Diff(map[string]int64{"breaker_open": 2, "guard": 1}, st.DeferredFor); diff != "" {
				t.Error("deferred for: " + diff)
			}
			start := b.clock.t.Add(-4 * time.Second)
			last, err := b.Recent(t.Context(), "b", 3)
			must(t, err)
			if diff := cmp.Diff([]EndedLine{
				{Line: 4, Outcome: Failed, Code: "invalid_request", At: start.Add(3 * time.Second)},
				{Line: 3, Outcome: Failed, Code: "timeout", At: start.Add(2 * time.Second)},
				{Line: 2, Outcome: Failed, Code: "timeout", At: start.Add(time.Second)},
			}, last); diff != "" {
				t.Error("the last three ends: " + diff)
			}
			if n, err := b.Retry(t.Context(), "b", Retry{Codes: []string{"timeout"}}, nil); n != 2 || err != nil {
				t.Fatalf("retried %d, %v", n, err)
			}
			if n := b.status(t, "b").EndedAs["timeout"]; n != 0 {
				t.Errorf("after the retry of both, %d are counted", n)
			}
			if last, err = b.Recent(t.Context(), "b", 9); err != nil || len(last) != 2 || last[0].Line != 4 || last[1].Line != 1 || last[1].Code != "" {
				t.Errorf("after the retry: %+v, %v", last, err)
			}
			if none, err := b.Recent(t.Context(), "other", 9); len(none) != 0 || err != nil {
				t.Errorf("of no batch: %+v, %v", none, err)
			}
		})
	}
}
