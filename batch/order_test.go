package batch

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// read returns the lines that an order yields.
func (o *Order) read(tb testing.TB, gaps bool) (lines []int64) {
	tb.Helper()
	must(tb, o.Read(tb.Context(), gaps, func(r Record) error {
		if got := result(tb, r).Nightshift.Line; got != r.Line || r.Place != -1 {
			tb.Errorf("the record of line %d says line %d, place %d", r.Line, got, r.Place)
		}
		lines = append(lines, r.Line)
		return nil
	}))
	return lines
}

func TestOrder(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", "\n"+jsonl(300)+"\n\n") // line 1 is blank
	refs := b.release(t, "b", 300)
	finish := func(places ...int) {
		for _, i := range places {
			b.end(t, refs[i], Succeeded)
		}
	}
	finish(4, 0, 2, 1)
	done, err := b.Finished(t.Context(), "b", 0)
	must(t, err)
	all, err := b.Lines(t.Context(), "b", 0)
	must(t, err)
	if got := done.read(t, true); !slices.Equal(got, []int64{2, 3, 4, 6}) || done.Left() {
		t.Errorf("finished: %v", got)
	}
	if got := all.read(t, false); !slices.Equal(got, []int64{2, 3, 4}) || !all.Left() || all.Before() != 3 {
		t.Errorf("as far as they are finished: %v, %d before", got, all.Before())
	}
	if got := all.read(t, false); len(got) != 0 {
		t.Errorf("it does not wait for line 5: %v", got)
	}
	finish(3)
	failed := errors.New("disk full")
	if err := all.Read(t.Context(), false, func(r Record) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v, want that of who reads", err)
	}
	if got := all.read(t, false); !slices.Equal(got, []int64{5, 6}) {
		t.Errorf("went on with %v", got)
	}
	for i := 299; i > 4; i-- {
		finish(i)
	}
	if got := all.read(t, false); len(got) != 295 || !slices.IsSorted(got) || all.Left() || all.Before() != 300 {
		t.Errorf("the rest: %v", got)
	}
	if all, err = b.Lines(t.Context(), "b", 299); err != nil || all.Before() != 298 {
		t.Fatal(err)
	}
	if got := all.read(t, false); !slices.Equal(got, []int64{300, 301}) {
		t.Errorf("after line 299: %v", got)
	}
	if _, err := b.Lines(t.Context(), "none", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no batch: %v", err)
	}
}

func TestIndexEntries(t *testing.T) {
	chunk, runs, err := parseIndex("3 7:2:0 10:1:2")
	if diff := cmp.Diff([]run{{7, 2, 0}, {10, 1, 2}}, runs, cmp.AllowUnexported(run{})); err != nil || chunk != "3" || diff != "" {
		t.Error(chunk, err, diff)
	}
	for _, damaged := range []string{"", "3", "3 7:2", "3 7:2:x", "3 7:2:0:1"} {
		if _, _, err := parseIndex(damaged); err == nil {
			t.Errorf("%q is taken for an entry", damaged)
		}
	}
}

func TestLineSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s lineSet
		in := map[int64]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			l := rapid.Int64Range(1, 300).Draw(t, "line")
			in[l] = true
			expect(t, s.add(l))
		}
		var below, next int64
		for l := int64(310); l >= 0; l-- {
			if in[l] {
				next = l
			}
			if got := s.from(l); got != next {
				t.Fatalf("from %d: %d, want %d of %v", l, got, next, in)
			}
		}
		for l := range int64(310) {
			if got := s.below(l); got != below {
				t.Fatalf("below %d: %d, want %d", l, got, below)
			}
			if in[l] {
				below++
			}
		}
	})
	var s lineSet
	for _, l := range []int64{0, -1, mostLines} {
		if err := s.add(l); err == nil {
			t.Error(fmt.Sprint(l, " is taken for a line"))
		}
	}
}
