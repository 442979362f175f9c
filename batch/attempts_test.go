package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nightshift/provider"
)

// A checkpoint that a later one overtook, on another connection, changes nothing.
func TestCheckpoint_Overtaken(t *testing.T) {
	b := setup(t)
	l, _ := one(t, b, "t1")
	must(t, b.Checkpoint(t.Context(), l, paid("a1", "a2")))
	must(t, b.Checkpoint(t.Context(), l, paid("a1")))
	b.clock.step(time.Minute)
	if got := b.begin(t, l.Ref, "t2", Granted); len(got.Progress.Calls) != 2 {
		t.Fatalf("the later checkpoint is lost: %+v", got.Progress)
	}
	if st := b.status(t, "one"); st.CostUSD != 2000 {
		t.Fatalf("%+v", st)
	}
}

// What an attempt of an earlier generation still says is booked, and no more.
func TestOldGeneration(t *testing.T) {
	b := setup(t)
	old, begun := one(t, b, "old")
	b.clock.step(time.Minute)
	b.begin(t, old.Ref, "second", Granted)
	must(t, b.Finish(t.Context(), Lease{old.Ref, "second"}, Progress{}, Failed, answer(begun.Line, Progress{})))
	ref := b.retry(t, "one")[0]
	b.begin(t, old.Ref, "third", Over)
	b.begin(t, ref, "new", Granted)
	p := paid("a1")
	fenced(t, b.Checkpoint(t.Context(), old, p))
	p = paid("a1", "a2")
	fenced(t, b.Finish(t.Context(), old, p, Succeeded, answer(begun.Line, p)))
	fenced(t, b.Suspend(t.Context(), old, p, Wait{Reason: "x", Until: b.clock.t}))
	if lost, err := b.Renew(t.Context(), []Lease{old}); err != nil || len(lost) != 1 {
		t.Fatal(lost, err)
	}
	p = paid("n1")
	must(t, b.Finish(t.Context(), Lease{ref, "new"}, p, Succeeded, answer(begun.Line, p)))
	if st := b.status(t, "one"); st.Succeeded != 1 || st.Failed != 0 || st.Calls != 3 || st.CostUSD != 3000 || st.WastedUSD != 2000 {
		t.Fatalf("%+v", st)
	}
}

func TestSuspendedLinesAreNoCrashes(t *testing.T) {
	b := setup(t)
	l, _ := one(t, b, "t0")
	for i := range 12 {
		must(t, b.Suspend(t.Context(), Lease{l.Ref, fmt.Sprintf("t%d", i)}, Progress{}, Wait{Reason: "x", Until: b.clock.t}))
		b.clock.step(time.Hour)
		if got := b.begin(t, l.Ref, fmt.Sprintf("t%d", i+1), Granted); got.Crashes != 0 {
			t.Fatalf("%d crashes", got.Crashes)
		}
	}
	raw, err := b.rdb.HGet(t.Context(), key("one", "marks"), "1").Result()
	must(t, err)
	if len(raw) > 200 {
		t.Fatalf("the marks of a line grow: %s", raw)
	}
}

// A line that is begun, lost and retried for ever keeps few marks.
func TestLostAttemptsAreForgotten(t *testing.T) {
	b := setup(t)
	l, _ := one(t, b, "g0a0")
	must(t, b.Checkpoint(t.Context(), l, paid("m1")))
	for gen := range 4 {
		ref := Ref{"one", 1, gen}
		for i := range 6 {
			want := Granted
			if i == 5 {
				want = Lost
			}
			b.begin(t, ref, fmt.Sprintf("g%da%d", gen, i), want)
			b.clock.step(time.Hour)
		}
		if got := b.retry(t, "one"); len(got) != 1 || got[0] != (Ref{"one", 1, gen + 1}) {
			t.Fatalf("retried %v", got)
		}
	}
	raw, err := b.rdb.HGet(t.Context(), key("one", "marks"), "1").Result()
	must(t, err)
	if n := strings.Count(raw, ";"); n != 8 || !strings.Contains(raw, "g3a4 ") {
		t.Errorf("%d marks: %s", n, raw)
	}
	before := b.status(t, "one")
	fenced(t, b.Checkpoint(t.Context(), l, paid("m1", "m2")))
	if after := b.status(t, "one"); after.Calls != before.Calls || after.Calls != 1 {
		t.Errorf("%d calls, then %d", before.Calls, after.Calls)
	}
}

// Case 34 for an attempt that was forgotten: its answer counts, and no sum falls.
func TestCase34_AnswerOfAForgottenAttempt(t *testing.T) {
	b := setup(t)
	late, begun := one(t, b, "late")
	l := late
	for i := range 9 {
		must(t, b.Suspend(t.Context(), l, Progress{Calls: []provider.Call{call("dear", 1000)}}, Wait{}))
		l.Token = fmt.Sprintf("t%d", i)
		b.begin(t, l.Ref, l.Token, Granted)
	}
	p := Progress{Calls: []provider.Call{call("cheap", 1), call("cheap", 1)}}
	must(t, b.Finish(t.Context(), late, p, Succeeded, answer(begun.Line, p)))
	if st := b.status(t, "one"); st.Succeeded != 1 || st.Calls != 2 || st.CostUSD != 1000 {
		t.Errorf("%d succeeded, %d calls, %s", st.Succeeded, st.Calls, st.CostUSD)
	}
}

func TestBeginIsIdempotent(t *testing.T) {
	b := setup(t)
	l, _ := one(t, b, "t1")
	b.clock.step(59 * time.Second)
	if got := b.begin(t, l.Ref, "t1", Granted); got.Crashes != 0 {
		t.Fatalf("a repeated begin counts as a crash: %+v", got)
	}
	b.begin(t, l.Ref, "t2", Held)
	must(t, b.Suspend(t.Context(), l, Progress{}, Wait{}))
	b.begin(t, l.Ref, "t1", Over) // arrives late
	b.begin(t, l.Ref, "t2", Granted)
	for _, ref := range []Ref{{"one", 2, 0}, {"one", 1, 1}, {"none", 1, 0}} {
		b.begin(t, ref, "t3", Over)
	}
}

func TestRenew_OfManyBatches(t *testing.T) {
	b := setup(t)
	var ls []Lease
	for _, id := range []string{"a", "b"} {
		b.submit(t, id, jsonl(3), func(d *Description) { d.Again = true })
		for _, ref := range b.release(t, id, 3) {
			b.begin(t, ref, "t", Granted)
			ls = append(ls, Lease{ref, "t"})
		}
	}
	b.clock.step(time.Hour) // nobody took them
	b.begin(t, ls[1].Ref, "u", Granted)
	lost, err := b.Renew(t.Context(), append(ls, Lease{Ref{"gone", 1, 0}, "t"}))
	must(t, err)
	if len(lost) != 2 {
		t.Fatalf("lost %v", lost)
	}
	b.clock.step(59 * time.Second)
	for i, l := range ls {
		want := Held
		if i == 1 {
			continue
		}
		b.begin(t, l.Ref, "v", want)
	}
}

func TestMoneyIsExact(t *testing.T) {
	b := setup(t)
	l, begun := one(t, b, "t1")
	var p Progress
	for range 3 {
		p.Calls = append(p.Calls, call("m", 1<<51+1)) // two million dollars and a bit
	}
	must(t, b.Checkpoint(t.Context(), l, p))
	must(t, b.Finish(t.Context(), l, p, Succeeded, answer(begun.Line, p)))
	if st := b.status(t, "one"); st.CostUSD != 3*(1<<51+1) {
		t.Fatalf("cost %d", st.CostUSD)
	}
	if err := b.Checkpoint(t.Context(), l, Progress{Calls: []provider.Call{call("m", -1)}}); err == nil {
		t.Fatal("a negative cost is accepted")
	}
}
