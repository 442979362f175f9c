package batch

import (
	"errors"
	"math/rand"
	"slices"
	"testing"
	"time"

	"nightshift/provider"
)

// expired submits a batch of n lines, of which some were released, and lets all expire.
func expired(tb testing.TB, b *bundle, id string, n int) {
	tb.Helper()
	b.submit(tb, id, jsonl(n), func(d *Description) { d.Deadline = b.clock.t.Add(time.Hour) })
	b.release(tb, id, 3)
	b.clock.step(time.Hour)
	if got, err := b.Settle(tb.Context(), id); got != n || err != nil {
		tb.Fatalf("%d lines expired, %v", got, err)
	}
}

// A retry goes through the log in pieces; what it takes back is released before
// what never was, in file order, and counts as waiting until then.
func TestRetry_InPieces(t *testing.T) {
	b := setup(t)
	expired(t, b, "b", 2500)
	if _, err := b.Retry(t.Context(), "b", Retry{}, nil); !errors.Is(err, ErrDeadline) {
		t.Fatalf("past its deadline: %v", err)
	}
	if got := b.status(t, "b"); got.Expired != 2500 || got.State != Done {
		t.Fatalf("it is changed all the same: %+v", got)
	}
	must(t, b.rdb.ZRem(t.Context(), liveKey, "b").Err()) // as the keeper does
	var looked []int64
	deadline := b.clock.t.Add(time.Hour)
	n, err := b.Retry(t.Context(), "b", Retry{Deadline: deadline}, func(l, _ int64) { looked = append(looked, l) })
	if n != 2500 || err != nil || len(looked) != (2500+endPiece-1)/endPiece || !slices.IsSorted(looked) {
		t.Fatalf("%d lines, %v, by way of %v", n, err, looked)
	}
	st := b.status(t, "b")
	if st.Outstanding != 2500 || st.State == Done || st.FinishedAt != nil || !st.Deadline.Equal(deadline) {
		t.Fatalf("%+v", st)
	}
	if live := b.indexed(t, liveKey); !slices.Equal(live, []string{"b"}) {
		t.Fatalf("live are %v", live)
	}
	if n, err = b.Retry(t.Context(), "b", Retry{}, nil); n != 0 || err != nil {
		t.Fatalf("again: %d, %v", n, err)
	}
	var lines []int64
	for len(lines) < 2500 {
		for _, ref := range b.release(t, "b", 700) {
			if lines = append(lines, ref.Line); ref.Generation != 1 {
				t.Fatalf("released %s in generation %d", ref, ref.Generation)
			}
		}
	}
	if !slices.IsSorted(lines) || len(slices.Compact(lines)) != 2500 {
		t.Error("not all lines once, in the order of the file")
	}
}

// A piece reads no more than its bytes of records: none of long ones holds Redis.
func TestRetry_LongRecords(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(4))
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[rand.Intn(36)]
	}
	for i, ref := range b.release(t, "b", 4) {
		got := b.begin(t, ref, "t", Granted)
		r := answer(got.Line, Progress{})
		r.Response.Body = []byte(`"` + string(noise) + `"`)
		must(t, b.Finish(t.Context(), Lease{ref, "t"}, Progress{}, []Outcome{Failed, Succeeded}[i%2], r))
	}
	pieces := 0
	if n, err := b.Retry(t.Context(), "b", Retry{}, func(int64, int64) { pieces++ }); n != 2 || err != nil || pieces < 2 {
		t.Fatalf("%d lines in %d pieces, %v", n, pieces, err)
	}
}

// Codes tell ends apart, whoever wrote them; an answer of the provider's counts
// by its call.
func TestRetry_ByCode(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(4))
	refs := b.release(t, "b", 4)
	for i, change := range []func(*Result){
		func(r *Result) { r.Response, r.Error = nil, &ResultError{CodeRetriesExhausted, "no"} },
		func(r *Result) { r.Nightshift.Attempts[0].Kind = provider.InvalidRequest },
		func(*Result) {},
	} {
		got := b.begin(t, refs[i], "t", Granted)
		r := answer(got.Line, paid("m"))
		change(&r)
		must(t, b.Finish(t.Context(), Lease{refs[i], "t"}, paid("m"), []Outcome{Failed, Failed, Succeeded}[i], r))
	}
	for _, c := range []struct {
		codes []string
		want  int64
	}{
		{[]string{CodeExpired}, 0},
		{[]string{"ok"}, 0},
		{[]string{string(provider.InvalidRequest), CodeLost}, 1},
		{[]string{CodeRetriesExhausted}, 1},
		{nil, 0},
	} {
		if n, err := b.Retry(t.Context(), "b", Retry{Codes: c.codes}, nil); n != c.want || err != nil {
			t.Errorf("%v: %d lines, %v, want %d", c.codes, n, err, c.want)
		}
	}
	if st := b.status(t, "b"); st.Calls != 3 || st.CostUSD != 3000 || st.WastedUSD != 0 || st.Succeeded != 1 {
		t.Errorf("the batch's cost does not keep what it paid: %+v", st)
	}
}

// The keeper may find a batch done just before a retry and forget it just after.
func TestRetry_BesideAKeeperThatForgetsTheBatch(t *testing.T) {
	b := setup(t)
	expired(t, b, "b", 3)
	if n, err := b.Retry(t.Context(), "b", Retry{Deadline: b.clock.t.Add(time.Hour)}, nil); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	must(t, b.retire(t.Context(), []any{"b"})) // it had seen the end
	if live := b.indexed(t, liveKey); !slices.Equal(live, []string{"b"}) {
		t.Fatalf("live are %v", live)
	}
	must(t, b.rdb.ZRem(t.Context(), liveKey, "b").Err()) // and one that died in between
	if over, err := b.Overdue(t.Context(), time.Hour); len(over) != 0 || err != nil {
		t.Fatal(over, err)
	}
	if live := b.indexed(t, liveKey); !slices.Equal(live, []string{"b"}) {
		t.Fatalf("live are %v", live)
	}
}

// A text that was made for a line in its first generation does not end its second.
func TestTexts_OfALineThatWasRetriedMeanwhile(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(1))
	once := false
	preset := func(d Description, ref Ref, l Line, p Progress) (Result, bool) {
		if !once {
			once = true
			b.end(t, b.release(t, "b", 1)[0], Failed)
			if n, err := b.Retry(t.Context(), "b", Retry{}, nil); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		return text(d, ref, l, p)
	}
	if _, n, err := b.Texts(t.Context(), "b", 1, 0, preset); n != 0 || err != nil {
		t.Fatalf("%d texts, %v", n, err)
	}
	if _, n, err := b.Texts(t.Context(), "b", 1, 0, preset); n != 1 || err != nil {
		t.Fatalf("%d texts, %v", n, err)
	}
	if recs, _ := b.seen(t, "b", 0); len(recs) != 1 || recs[0].Generation != 1 {
		t.Fatalf("%+v", recs)
	}
}

// Case 31: cancel at one third; what is finished keeps its result, all others end
// as cancelled without a keeper, wherever they are, but for a call under way.
func TestCase31_CancelAtOneThird(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(3000))
	refs := b.release(t, "b", 1700)
	for _, ref := range refs[:1000] {
		b.end(t, ref, Succeeded)
	}
	begun := b.begin(t, refs[1000], "live", Granted)
	b.begin(t, refs[1001], "w", Granted)
	must(t, b.Suspend(t.Context(), Lease{refs[1001], "w"}, Progress{Deferrals: 1}, Wait{Reason: "x", Until: b.clock.t}))
	must(t, b.Cancel(t.Context(), "b"))
	for range 2 {
		_, err := b.Settle(t.Context(), "b")
		must(t, err)
	}
	if st := b.status(t, "b"); st.Succeeded != 1000 || st.Cancelled != 1999 || st.Outstanding != 1 || st.State != Cancelling {
		t.Fatalf("%+v", st)
	}
	must(t, b.Finish(t.Context(), Lease{refs[1000], "live"}, paid("m"), Succeeded, answer(begun.Line, paid("m"))))
	if st := b.status(t, "b"); st.Succeeded != 1001 || st.State != Done {
		t.Fatalf("%+v", st)
	}
	seen := map[int64]Outcome{}
	for _, r := range b.records(t, "b") {
		seen[r.Line] = r.Outcome
	}
	for line := range int64(3000) {
		want := Cancelled
		if line < 1001 {
			want = Succeeded
		}
		if seen[line+1] != want {
			t.Fatalf("line %d: %s", line+1, seen[line+1])
		}
	}
}

// Nobody but the keeper ends lines for the budget, and nobody ends what is not over.
func TestSettle_EndsOnlyWhatIsOver(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(5), func(d *Description) { d.Deadline = b.clock.t.Add(time.Hour) })
	_, err := b.Release(t.Context(), "b", 9, 2, nil)
	must(t, err)
	if n, err := b.Settle(t.Context(), "b"); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	b.clock.step(time.Hour)
	if n, err := b.Settle(t.Context(), "b"); n != 5 || err != nil { // whatever the epoch
		t.Fatal(n, err)
	}
	if n, err := b.Settle(t.Context(), "none"); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

// Calls of a stalled attempt are booked as waste though its line was retried and
// begun anew since.
func TestRetry_LateCallsOfBeforeAreBooked(t *testing.T) {
	b := setup(t)
	stalled, _ := one(t, b, "stalled")
	must(t, b.Checkpoint(t.Context(), stalled, paid("a1")))
	b.clock.step(time.Minute)
	got := b.begin(t, stalled.Ref, "second", Granted)
	p := paid("a1", "b1")
	must(t, b.Finish(t.Context(), Lease{stalled.Ref, "second"}, p, Failed, answer(got.Line, p)))
	again := b.retry(t, "one")[0]
	b.begin(t, again, "third", Granted)
	late := paid("a1", "a2", "a3")
	fenced(t, b.Finish(t.Context(), stalled, late, Failed, answer(got.Line, late)))
	p = paid("c1")
	must(t, b.Finish(t.Context(), Lease{again, "third"}, p, Succeeded, answer(got.Line, p)))
	if st := b.status(t, "one"); st.Succeeded != 1 || st.Calls != 5 || st.CostUSD != 5000 || st.WastedUSD != 2000 {
		t.Errorf("%+v", st)
	}
}

// A line that an older version ended is in no counter by code: taken back, it leaves
// none below zero, which would hide as many ends to come.
func TestRetry_OfLinesThatNoCodeCounts(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(3))
	fail := func(ref Ref, token string) {
		got := b.begin(t, ref, token, Granted)
		r := answer(got.Line, Progress{})
		r.Error = &ResultError{Code: "timeout"}
		must(t, b.Finish(t.Context(), Lease{ref, token}, Progress{}, Failed, r))
	}
	for _, ref := range b.release(t, "b", 3) {
		fail(ref, "t")
	}
	must(t, b.rdb.HSet(t.Context(), metaKey("b"), "err:timeout", 1).Err()) // of three
	refs := b.retry(t, "b")
	if n := b.status(t, "b").EndedAs["timeout"]; len(refs) != 3 || n != 0 {
		t.Fatalf("%d lines run again, and %d are counted", len(refs), n)
	}
	fail(refs[0], "again")
	if n := b.status(t, "b").EndedAs["timeout"]; n != 1 {
		t.Errorf("one failed again, and %d are counted", n)
	}
}

func TestUpdate(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(1), func(d *Description) { d.NotBefore = b.clock.t.Add(time.Hour) })
	deadline, priority, budget := b.clock.t.Add(2*time.Hour).UTC(), 7, provider.Dollars(3)
	if err := b.Update(t.Context(), "b", Update{Deadline: b.clock.t.Add(time.Hour)}); !errors.Is(err, ErrBeforeStart) {
		t.Error(err)
	}
	must(t, b.Update(t.Context(), "b", Update{Deadline: deadline, Priority: &priority, Budget: &budget}))
	must(t, b.Update(t.Context(), "b", Update{}))
	all, err := b.Backlogs(t.Context())
	must(t, err)
	if d := all[0].Description; !d.Deadline.Equal(deadline) || d.Priority != 7 || d.Budget != budget {
		t.Errorf("%+v", d)
	}
	if st := b.status(t, "b"); !st.Deadline.Equal(deadline) || *st.BudgetUSD != budget {
		t.Errorf("%+v", st)
	}
	if err := b.Update(t.Context(), "none", Update{Priority: &priority}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
