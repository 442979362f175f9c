package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/provider"
)

func TestOut_AndTouch(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(5))
	refs := b.release(t, "b", 3)
	start := b.clock.t
	b.begin(t, refs[0], "t0", Granted)
	b.begin(t, refs[1], "t1", Granted)
	wait := Wait{Model: "openai/gpt-4o", Reason: "breaker_open", Until: b.clock.t.Add(90 * time.Second)}
	must(t, b.Suspend(t.Context(), Lease{refs[1], "t1"}, Progress{Deferrals: 1}, wait))
	b.clock.step(30 * time.Second)
	must(t, b.Touch(t.Context(), []Ref{refs[2], {"b", 1, 9}, {"b", 5, 0}, {"none", 1, 0}}))
	out, err := b.Out(t.Context(), "b")
	must(t, err)
	want := []OutEntry{
		{Ref: refs[0], Since: start, Leased: true},
		{Ref: refs[1], Since: start, Wait: wait},
		{Ref: refs[2], Since: b.clock.t},
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	b.clock.step(30 * time.Second)
	if out, err = b.Out(t.Context(), "b"); err != nil || out[0].Leased {
		t.Errorf("an expired lease counts as live: %+v, %v", out[0], err)
	}
}

func TestRelease_OldEpochIsFenced(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(5))
	if _, err := b.Release(t.Context(), "b", 7, 2, nil); err != nil {
		t.Fatal(err)
	}
	_, err := b.Release(t.Context(), "b", 6, 2, nil)
	fenced(t, err)
	_, err = b.End(t.Context(), "b", 6, Cancelled, 2)
	fenced(t, err)
}

// A class that is full does not hold up the others, though its lines come first.
func TestRelease_FullClassIsPassedOver(t *testing.T) {
	b := setup(t)
	var lines []string
	for i := range 400 {
		lines = append(lines, inClass(fmt.Sprint("r", i), i/300*2))
	}
	text := strings.Join(lines, "\n")
	must(t, b.Submit(t.Context(), describe(t, "b", text), classes(t, text), nil))
	refs, err := b.Release(t.Context(), "b", 1, 10, map[int]int{0: 3, 2: 4})
	must(t, err)
	var got []int64
	for _, r := range refs {
		got = append(got, r.Line)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 301, 302, 303, 304}, got); diff != "" {
		t.Error(diff)
	}
	if rest := drain(t, b, "b"); len(rest) != 393 || rest[0] != 4 {
		t.Errorf("%d lines from %d", len(rest), rest[0])
	}
}

func TestEnd_InPieces(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(2500), func(d *Description) { d.Deadline = b.clock.t.Add(time.Hour) })
	refs := b.release(t, "b", 3)
	b.begin(t, refs[0], "live", Granted)
	begun := b.begin(t, refs[1], "t", Granted)
	p := Progress{Calls: []provider.Call{call("m", 5)}, Deferrals: 1}
	must(t, b.Suspend(t.Context(), Lease{refs[1], "t"}, p, Wait{Reason: "x", Until: b.clock.t}))
	if n, err := b.End(t.Context(), "b", 1, Expired, 5000); n != 0 || err != nil {
		t.Fatalf("ended %d before the deadline, %v", n, err)
	}
	b.clock.step(time.Hour)
	if lost, err := b.Renew(t.Context(), []Lease{{refs[0], "live"}}); err != nil || len(lost) > 0 {
		t.Fatal(lost, err)
	}
	if n, err := b.End(t.Context(), "b", 1, Expired, 1500); n != 1500 || err != nil {
		t.Fatalf("ended %d, %v", n, err)
	}
	if n, err := b.End(t.Context(), "b", 1, Expired, 5000); n != 999 || err != nil {
		t.Fatalf("ended %d, %v", n, err)
	}
	if st := b.status(t, "b"); st.Expired != 2499 || st.State == Done || st.RatePerMinute != 0 {
		t.Fatalf("%+v", st)
	}
	must(t, b.Finish(t.Context(), Lease{refs[0], "live"}, Progress{}, Succeeded, answer(begun.Line, Progress{})))
	recs := b.records(t, "b")
	if len(recs) != 2500 || b.status(t, "b").State != Done {
		t.Fatalf("%d records", len(recs))
	}
	for _, r := range recs {
		if r.Line != 2 {
			continue
		}
		res := result(t, r)
		want := Result{
			ID: res.ID, CustomID: "r2", Error: &ResultError{CodeExpired, messages[CodeExpired]},
			Nightshift: NightshiftInfo{
				Line: 2, Output: []byte("null"), Metadata: []byte("null"), Attempts: p.Calls, Deferrals: 1, CostUSD: 5,
				Request: begun.Line.Digest, FinishedAt: b.clock.t,
			},
		}
		if diff := cmp.Diff(want, res); diff != "" {
			t.Error(diff)
		}
	}
}

func TestBegin_AfterCancelAndDeadline(t *testing.T) {
	b := setup(t)
	b.submit(t, "c", jsonl(1))
	ref := b.release(t, "c", 1)[0]
	must(t, b.Cancel(t.Context(), "c"))
	b.begin(t, ref, "t", BatchCancelled)
	if st := b.status(t, "c"); st.Cancelled != 1 || st.State != Done {
		t.Fatalf("%+v", st)
	}
	must(t, b.Cancel(t.Context(), "c")) // over already
	if err := b.Cancel(t.Context(), "none"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	b.submit(t, "d", jsonl(2), func(d *Description) { d.Deadline = b.clock.t.Add(time.Second) })
	ref = b.release(t, "d", 1)[0]
	b.clock.step(time.Second)
	b.begin(t, ref, "t", DeadlinePassed)
	if st := b.status(t, "d"); st.Expired != 1 || st.State != Running || st.OnTime != nil {
		t.Fatalf("%+v", st)
	}
	b.clock.step(time.Second)
	if st := b.status(t, "d"); st.OnTime == nil || *st.OnTime {
		t.Fatalf("past its deadline, and on time: %+v", st)
	}
}

func TestStatus_RateAndWaits(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(100), func(d *Description) { d.Deadline = b.clock.t.Add(10 * time.Minute) })
	refs := b.release(t, "b", 44)
	for i, ref := range refs[:40] {
		l := Lease{ref, fmt.Sprintf("t%d", i)}
		got := b.begin(t, ref, l.Token, Granted)
		must(t, b.Finish(t.Context(), l, Progress{}, Succeeded, answer(got.Line, Progress{})))
		b.clock.step(6 * time.Second)
	}
	until := b.clock.t.Add(20 * time.Second).UTC()
	for i, ref := range refs[40:] {
		l := Lease{ref, "w"}
		b.begin(t, ref, "w", Granted)
		w := Wait{Model: "m1", Reason: "breaker_open", Until: until.Add(time.Duration(i) * time.Second)}
		if i == 3 {
			w = Wait{Model: "m2", Reason: "rate_limited", Until: until.Add(-time.Second)}
		}
		must(t, b.Suspend(t.Context(), l, Progress{}, w))
	}
	st := b.status(t, "b")
	want := []WaitingFor{
		{Model: "m2", Reason: "rate_limited", Until: until.Add(-time.Second), Lines: 1},
		{Model: "m1", Reason: "breaker_open", Until: until, Lines: 3},
	}
	if diff := cmp.Diff(want, st.WaitingFor); diff != "" || st.State != Waiting {
		t.Errorf("%s %s", st.State, diff)
	}
	if st.RatePerMinute != 10 || st.ETA == nil || !st.ETA.Equal(b.clock.t.Add(6*time.Minute)) || st.OnTime == nil || !*st.OnTime {
		t.Errorf("rate %v, eta %v (now %v), on time %v", st.RatePerMinute, st.ETA, b.clock.t, st.OnTime)
	}
	b.clock.step(20 * time.Minute)
	if st := b.status(t, "b"); st.RatePerMinute != 0 || st.ETA != nil || *st.OnTime {
		t.Errorf("twenty minutes later: %+v", st)
	}
	n, err := b.rdb.HLen(t.Context(), key("b", "rate")).Result()
	if err != nil || n > 31 {
		t.Errorf("%d buckets, %v", n, err)
	}
}

func TestResults_FromAnOffset(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(600))
	must(t, b.Cancel(t.Context(), "b"))
	_, err := b.End(t.Context(), "b", 1, Cancelled, 600)
	must(t, err)
	stop := errors.New("stop")
	seen := 0
	next, err := b.Results(t.Context(), "b", 0, func(Record) error {
		if seen == 300 {
			return stop
		}
		seen++
		return nil
	})
	if next != 300 || !errors.Is(err, stop) {
		t.Fatalf("next %d, %v", next, err)
	}
	next, err = b.Results(t.Context(), "b", next, func(r Record) error {
		seen++
		if int(r.Line) != seen || r.Outcome != Cancelled {
			t.Fatalf("record %d is line %d, %s", seen, r.Line, r.Outcome)
		}
		return nil
	})
	if next != 600 || seen != 600 || err != nil {
		t.Fatalf("next %d, seen %d, %v", next, seen, err)
	}
	if next, err = b.Results(t.Context(), "b", 600, nil); next != 600 || err != nil {
		t.Fatal(next, err)
	}
	if _, err = b.Results(t.Context(), "none", 0, nil); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}
