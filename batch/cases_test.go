package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"
)

// one submits a batch of one line and begins it.
func one(tb testing.TB, b *bundle, token string) (Lease, Begun) {
	tb.Helper()
	b.submit(tb, "one", jsonl(1))
	ref := b.release(tb, "one", 1)[0]
	return Lease{ref, token}, b.begin(tb, ref, token, Granted)
}

// paid is a progress with calls of a thousand nano-dollars each.
func paid(models ...string) Progress {
	var p Progress
	for _, m := range models {
		p.Calls = append(p.Calls, call(m, 1000))
	}
	return p
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func fenced(tb testing.TB, err error) {
	tb.Helper()
	if !errors.Is(err, ErrFenced) {
		tb.Fatalf("error %v, want %v", err, ErrFenced)
	}
}

func result(tb testing.TB, r Record) Result {
	tb.Helper()
	var res Result
	must(tb, json.Unmarshal(r.JSON, &res))
	return res
}

func TestCase37_AnswerAfterCancel(t *testing.T) {
	b := setup(t)
	l, begun := one(t, b, "t1")
	must(t, b.Cancel(t.Context(), "one"))
	if n, err := b.End(t.Context(), "one", 1, Cancelled, 10); n != 0 || err != nil {
		t.Fatalf("ended %d lines with a live lease, %v", n, err)
	}
	p := paid("m")
	if err := b.Checkpoint(t.Context(), l, p); !errors.Is(err, ErrCancelled) {
		t.Fatalf("a further call may start: %v", err)
	}
	must(t, b.Finish(t.Context(), l, p, Succeeded, answer(begun.Line, p)))
	st := b.status(t, "one")
	if st.Succeeded != 1 || st.Cancelled != 0 || st.State != Done || st.CostUSD != 1000 {
		t.Fatalf("%+v", st)
	}
}

func TestCase38_StalledWorker(t *testing.T) {
	for _, o := range []Outcome{Succeeded, Failed} {
		t.Run(string(o), func(t *testing.T) {
			b := setup(t)
			a, _ := one(t, b, "stalled")
			must(t, b.Checkpoint(t.Context(), a, paid("a1")))
			b.clock.step(time.Minute)
			got := b.begin(t, a.Ref, "second", Granted)
			if got.Crashes != 1 || len(got.Progress.Calls) != 1 {
				t.Fatalf("%+v", got)
			}
			p := paid("a1", "b1")
			must(t, b.Finish(t.Context(), Lease{a.Ref, "second"}, p, Succeeded, answer(got.Line, p)))
			before := b.records(t, "one")
			late := paid("a1", "a2", "a3")
			for range 2 { // the second is a repetition after a lost reply
				fenced(t, b.Finish(t.Context(), a, late, o, answer(got.Line, late)))
			}
			fenced(t, b.Suspend(t.Context(), a, late, Wait{Reason: "x", Until: b.clock.t}))
			st := b.status(t, "one")
			if st.Succeeded != 1 || st.Failed != 0 || st.Calls != 4 || st.CostUSD != 4000 || st.WastedUSD != 2000 {
				t.Fatalf("%+v", st)
			}
			if after := b.records(t, "one"); string(after[0].JSON) != string(before[0].JSON) {
				t.Fatalf("the record changed: %s", after[0].JSON)
			}
			if lost, err := b.Renew(t.Context(), []Lease{a}); err != nil || len(lost) != 1 {
				t.Fatalf("renew: lost %v, %v", lost, err)
			}
		})
	}
}

func TestCase34_CountsNeverFall(t *testing.T) {
	b := setup(t)
	b.submit(t, "n", jsonl(20))
	seen := b.status(t, "n")
	look := func() {
		st := b.status(t, "n")
		if st.Succeeded < seen.Succeeded || st.Failed < seen.Failed || st.Cancelled < seen.Cancelled ||
			st.Calls < seen.Calls || st.Deferrals < seen.Deferrals || st.CostUSD < seen.CostUSD {
			t.Fatalf("from %+v to %+v", seen, st)
		}
		seen = st
	}
	for i, ref := range b.release(t, "n", 12) {
		l := Lease{ref, fmt.Sprintf("t%d", i)}
		got := b.begin(t, ref, l.Token, Granted)
		p := paid("m")
		must(t, b.Checkpoint(t.Context(), l, p))
		look()
		if i%2 == 0 {
			must(t, b.Finish(t.Context(), l, p, Failed, answer(got.Line, p)))
		} else {
			p.Deferrals = 1
			must(t, b.Suspend(t.Context(), l, p, Wait{Reason: "breaker_open", Until: b.clock.t}))
		}
		look()
	}
	must(t, b.Cancel(t.Context(), "n"))
	look()
	for {
		n, err := b.End(t.Context(), "n", 1, Cancelled, 3)
		must(t, err)
		look()
		if n == 0 {
			break
		}
	}
	if seen.Failed != 6 || seen.Cancelled != 14 || seen.State != Done || seen.Calls != 12 {
		t.Fatalf("%+v", seen)
	}
}

// A worker that shuts down hands the line back, and its answer comes all the same.
func TestCase49_HandedBackThenFinished(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun again %v", again), func(t *testing.T) {
			b := setup(t)
			l, begun := one(t, b, "t1")
			must(t, b.Suspend(t.Context(), l, paid("a1"), Wait{}))
			if again {
				b.begin(t, l.Ref, "t2", Granted)
			}
			p := paid("a1", "a2")
			for range 2 {
				must(t, b.Finish(t.Context(), l, p, Succeeded, answer(begun.Line, p)))
			}
			if again {
				other := paid("a1", "b1")
				fenced(t, b.Finish(t.Context(), Lease{l.Ref, "t2"}, other, Succeeded, answer(begun.Line, other)))
			}
			st := b.status(t, "one")
			want := int64(2)
			if again {
				want = 3
			}
			if st.Succeeded != 1 || st.Outstanding != 0 || st.Calls != want || int64(st.WastedUSD) != (want-2)*1000 {
				t.Fatalf("%+v", st)
			}
			if bs, err := b.Backlogs(t.Context()); err != nil || len(bs) != 0 {
				t.Fatalf("backlogs %+v, %v", bs, err)
			}
		})
	}
}

func TestCase51_CostsAndDeferralSurviveAKill(t *testing.T) {
	b := setup(t)
	l, _ := one(t, b, "t1")
	p := paid("a1")
	p.Deferrals = 1
	until := b.clock.t.Add(30 * time.Second)
	must(t, b.Suspend(t.Context(), l, p, Wait{Model: "m", Reason: "breaker_open", Until: until}))
	got := b.begin(t, l.Ref, "t2", Granted)
	p = got.Progress
	p.Calls = append(p.Calls, call("b1", 500))
	must(t, b.Checkpoint(t.Context(), Lease{l.Ref, "t2"}, p)) // and is killed
	b.clock.step(time.Minute)
	got = b.begin(t, l.Ref, "t3", Granted)
	// The killed attempt's twin wakes up: what it stored must not come back.
	fenced(t, b.Suspend(t.Context(), Lease{l.Ref, "t2"}, paid("a1"), Wait{Model: "m", Reason: "breaker_open", Until: until}))
	must(t, b.Finish(t.Context(), Lease{l.Ref, "t3"}, got.Progress, Succeeded, answer(got.Line, got.Progress)))
	res := result(t, b.records(t, "one")[0])
	if res.Nightshift.Deferrals != 1 || res.Nightshift.CostUSD != 1500 || len(res.Nightshift.Attempts) != 2 {
		t.Fatalf("%+v", res.Nightshift)
	}
	if st := b.status(t, "one"); st.CostUSD != 1500 || st.WastedUSD != 0 || st.Deferrals != 1 {
		t.Fatalf("%+v", st)
	}
}

func TestCase52_TheFifthCrashEndsTheLine(t *testing.T) {
	b := setup(t)
	l, _ := one(t, b, "t1")
	must(t, b.Checkpoint(t.Context(), l, paid("a1")))
	for i := 2; i <= 5; i++ {
		b.clock.step(time.Minute)
		got := b.begin(t, l.Ref, fmt.Sprintf("t%d", i), Granted)
		if got.Crashes != i-1 {
			t.Fatalf("begin %d: %d crashes", i, got.Crashes)
		}
	}
	if got := b.begin(t, l.Ref, "t6", Held); got.HeldFor != time.Minute {
		t.Fatalf("held for %s", got.HeldFor)
	}
	b.clock.step(time.Minute)
	b.begin(t, l.Ref, "t6", Lost)
	b.begin(t, l.Ref, "t7", Over)
	st := b.status(t, "one")
	if st.Failed != 1 || st.State != Done || st.CostUSD != 1000 {
		t.Fatalf("%+v", st)
	}
	res := result(t, b.records(t, "one")[0])
	if res.Error == nil || res.Error.Code != CodeLost || res.Nightshift.CostUSD != 1000 || res.CustomID != "r1" {
		t.Fatalf("%+v", res)
	}
}
