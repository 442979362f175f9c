package batch

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// text is a preset for every line; its results say what they were told.
func text(_ Description, ref Ref, l Line, p Progress) (Result, bool) {
	r := answer(l, p)
	r.ID = "-"
	r.Response.RequestID = fmt.Sprint(ref.Generation)
	r.Nightshift.Degraded, r.Nightshift.Model = true, "nightshift/text"
	return r, true
}

// texts writes the texts of some lines, by pieces or of the released ones.
func (m *machine) texts(t *rapid.T) {
	epoch := m.m.epoch + int64(rapid.IntRange(-1, 1).Draw(t, "epoch"))
	mod := rapid.Int64Range(1, 3).Draw(t, "every")
	released := rapid.Bool().Draw(t, "released ones")
	has := func(line int64) bool { return line%mod == 0 && (!released || m.m.line(line).released) }
	preset := func(d Description, ref Ref, l Line, p Progress) (Result, bool) {
		r, _ := text(d, ref, l, p)
		return r, has(l.Number)
	}
	var got, next int
	var err error
	if released {
		got, err = m.b.TextsOut(m.tb.Context(), m.id, epoch, preset)
	} else {
		next, got, err = m.b.Texts(m.tb.Context(), m.id, epoch, 0, preset)
	}
	want, wantErr := m.m.texts(epoch, has, m.b.clock.t)
	expect(t, same(err, wantErr))
	if got != want || next != 0 {
		t.Fatalf("ended %d, want %d; next %d", got, want, next)
	}
}

// Texts go to lines wherever they are, and the rest is released as ever.
func TestTexts_InPieces(t *testing.T) {
	b := setup(t)
	const n = textChunks*chunkLines + 10
	b.submit(t, "b", jsonl(n), func(d *Description) { d.Deadline = b.clock.t.Add(time.Hour) })
	refs := b.release(t, "b", 4)
	b.begin(t, refs[0], "live", Granted)
	b.begin(t, refs[1], "t", Granted)
	p := Progress{Calls: progressOf([]modelCall{{"m", 5}}, 1).Calls, Deferrals: 1}
	must(t, b.Suspend(t.Context(), Lease{refs[1], "t"}, p, Wait{Reason: "x", Until: b.clock.t}))

	rest := int64(n - 2)
	odd := func(d Description, ref Ref, l Line, p Progress) (Result, bool) {
		r, _ := text(d, ref, l, p)
		return r, l.Number%2 == 1 || l.Number == 2
	}
	next, ended, err := b.Texts(t.Context(), "b", 1, 0, odd)
	must(t, err)
	if next != textChunks || ended != textChunks*chunkLines/2 { // all odd ones but the first, and 2
		t.Fatalf("next %d, ended %d", next, ended)
	}
	next, ended, err = b.Texts(t.Context(), "b", 1, next, odd)
	must(t, err)
	if next != 0 || ended != 5 {
		t.Fatalf("next %d, ended %d", next, ended)
	}
	st := b.status(t, "b")
	if st.Succeeded != rest/2+1 || st.Degraded != st.Succeeded || st.Calls != 1 || st.CostUSD != 5 || st.WastedUSD != 0 || st.Deferrals != 1 {
		t.Errorf("%+v", st)
	}
	if left := drain(t, b, "b"); int64(len(left)) != rest/2-1 || left[0] != 6 || left[1] != 8 {
		t.Errorf("%d lines are left: %v", len(left), left[:2])
	}
	for _, r := range b.records(t, "b") {
		if res := result(t, r); r.Line == 2 && (res.Nightshift.CostUSD != 5 || len(res.Nightshift.Attempts) != 1) {
			t.Errorf("what was paid for is lost: %+v", res.Nightshift)
		}
	}
}

// A line that is begun, or whose progress changes, while its text is made keeps
// its own end.
func TestTexts_LeaveWhatChangesMeanwhile(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(3), func(d *Description) { d.Deadline = b.clock.t.Add(time.Hour) })
	refs := b.release(t, "b", 3)
	_, ended, err := b.Texts(t.Context(), "b", 1, 0, func(d Description, ref Ref, l Line, p Progress) (Result, bool) {
		switch l.Number {
		case 1:
			b.begin(t, refs[0], "t1", Granted)
		case 2:
			b.begin(t, refs[1], "t2", Granted)
			p := Progress{Calls: progressOf([]modelCall{{"m", 5}}, 0).Calls}
			must(t, b.Suspend(t.Context(), Lease{refs[1], "t2"}, p, Wait{}))
		}
		return text(d, ref, l, p)
	})
	must(t, err)
	if ended != 1 {
		t.Errorf("ended %d", ended)
	}
	if n, err := b.TextsOut(t.Context(), "b", 1, text); n != 1 || err != nil { // 1 is held
		t.Errorf("ended %d, %v", n, err)
	}
	b.clock.step(time.Minute)
	if n, err := b.TextsOut(t.Context(), "b", 1, text); n != 1 || err != nil {
		t.Errorf("its worker is gone: ended %d, %v", n, err)
	}
	if st := b.status(t, "b"); st.State != Done || st.Succeeded != 3 || st.CostUSD != 5 || st.WastedUSD != 0 {
		t.Errorf("%+v", st)
	}
}

func TestTexts_NoneAfterTheDeadlineOrACancel(t *testing.T) {
	b := setup(t)
	for _, id := range []string{"late", "cancelled"} {
		b.submit(t, id, jsonl(2), func(d *Description) { d.Again, d.Deadline = true, b.clock.t.Add(time.Hour) })
	}
	must(t, b.Cancel(t.Context(), "cancelled"))
	b.clock.step(time.Hour)
	for _, id := range []string{"late", "cancelled"} {
		if _, n, err := b.Texts(t.Context(), id, 1, 0, text); n != 0 || err != nil {
			t.Errorf("%s: ended %d, %v", id, n, err)
		}
	}
	if n, err := b.End(t.Context(), "late", 1, Expired, 5); n != 2 || err != nil {
		t.Error(n, err)
	}
}
