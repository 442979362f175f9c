package batch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// end ends a released line of a generation, e.g. as failed.
func (b *bundle) end(tb testing.TB, ref Ref, o Outcome) {
	tb.Helper()
	token := fmt.Sprintf("t%d-%d", ref.Line, ref.Generation)
	begun := b.begin(tb, ref, token, Granted)
	must(tb, b.Finish(tb.Context(), Lease{ref, token}, begun.Progress, o, answer(begun.Line, begun.Progress)))
}

// seen is what of a record says where it comes from.
type seen struct {
	Line       int64
	Generation int
	Place      int64
	Outcome    Outcome
}

func (b *bundle) seen(tb testing.TB, id string, from int64) (all []seen, next int64) {
	tb.Helper()
	next, err := b.Results(tb.Context(), id, from, func(r Record) error {
		if got := result(tb, r).Nightshift; got.Line != r.Line || got.Generation != r.Generation {
			tb.Errorf("the record of line %d, generation %d, says %d, %d", r.Line, r.Generation, got.Line, got.Generation)
		}
		all = append(all, seen{r.Line, r.Generation, r.Place, r.Outcome})
		return nil
	})
	must(tb, err)
	return all, next
}

// A line that was retried has the result of its last end alone, where it stands;
// whoever had read the first one finds the second.
func TestResults_OfLinesThatWereRetried(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(3))
	refs := b.release(t, "b", 3)
	b.end(t, refs[0], Failed)
	b.end(t, refs[1], Succeeded)
	all, next := b.seen(t, "b", 0)
	if diff := cmp.Diff([]seen{{1, 0, 0, Failed}, {2, 0, 1, Succeeded}}, all); diff != "" || next != 2 {
		t.Fatal(next, diff)
	}
	again := b.retry(t, "b")[0]
	if all, _ = b.seen(t, "b", 0); len(all) != 1 || all[0].Line != 2 {
		t.Fatalf("while it runs again: %+v", all)
	}
	b.end(t, again, Succeeded)
	b.end(t, refs[2], Succeeded)
	want := []seen{{2, 0, 1, Succeeded}, {1, 1, 2, Succeeded}, {3, 0, 3, Succeeded}}
	if all, next = b.seen(t, "b", 0); cmp.Diff(want, all) != "" || next != 4 {
		t.Fatal(next, cmp.Diff(want, all))
	}
	if all, _ = b.seen(t, "b", 2); cmp.Diff(want[1:], all) != "" {
		t.Fatal(cmp.Diff(want[1:], all))
	}
}

func TestPlaceOfAndRecord(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(4))
	refs := b.release(t, "b", 3)
	b.end(t, refs[2], Failed)
	b.end(t, refs[0], Succeeded)
	b.retry(t, "b")
	b.end(t, Ref{"b", 3, 1}, Succeeded)
	for _, c := range []struct {
		line       int64
		generation int
		from, want int64
	}{{3, 0, 0, 0}, {1, 0, 0, 1}, {3, 1, 0, 2}, {3, 1, 2, 2}, {3, 0, 1, -1}, {2, 0, 0, -1}} {
		if got, err := b.PlaceOf(t.Context(), "b", c.line, c.generation, c.from); got != c.want || err != nil {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
	if r, err := b.Record(t.Context(), "b", 3); err != nil || r.Generation != 1 || result(t, r).CustomID != "r3" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, line := range []int64{2, 9} {
		if _, err := b.Record(t.Context(), "b", line); !errors.Is(err, ErrNotFound) {
			t.Errorf("line %d without a record: %v", line, err)
		}
	}
}

func TestLogEntries(t *testing.T) {
	for text, want := range map[string]ended{"7": {7, 0}, "7.2": {7, 2}, "": {}, "0": {}, "7.": {}, "7.-1": {}, "x": {}} {
		if got, err := parseEnded(text); got != want || (err == nil) != (want != ended{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
