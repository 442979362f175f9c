package batch

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestPick_LowerPrioritiesTakeNothing: each priority gets what it would get if the
// lower ones had nothing to release, and those below get lines only while there is
// room for more than that.
func TestPick_LowerPrioritiesTakeNothing(t *testing.T) {
	now := newClock().t
	rapid.Check(t, func(t *rapid.T) {
		var all []Backlog
		for i := range rapid.IntRange(1, 8).Draw(t, "batches") {
			b := waits(fmt.Sprintf("b%d", i), rapid.SampledFrom([]string{"ann", "bob", "cem"}).Draw(t, "producer"), rapid.Int64Range(0, 40).Draw(t, "waiting"))
			b.Priority = rapid.IntRange(-1, 1).Draw(t, "priority")
			b.Out = rapid.Int64Range(0, 10).Draw(t, "out")
			if h := rapid.IntRange(0, 3).Draw(t, "deadline"); h > 0 {
				b.Deadline = now.Add(time.Duration(h) * time.Minute)
			}
			if rapid.IntRange(0, 4).Draw(t, "later") == 0 {
				b.NotBefore = now.Add(time.Second)
			}
			all = append(all, b)
		}
		p := Picking{
			Now: now, Room: rapid.IntRange(0, 60).Draw(t, "room"), Deferred: 100, Rate: float64(rapid.IntRange(0, 3).Draw(t, "rate")),
			Calls: Calls{Producers: map[string]int{"ann": rapid.IntRange(0, 30).Draw(t, "calls")}},
		}
		got := byBatch(Pick(all, p))
		for lowest := -1; lowest <= 1; lowest++ {
			want := byBatch(Pick(without(all, lowest), p))
			seen := map[string]int{}
			for _, b := range all {
				if n := got[b.ID]; n > 0 && b.Priority >= lowest {
					seen[b.ID] = n
				}
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Fatalf("priorities from %d on (-without the lower ones +with them):\n%s", lowest, diff)
			}
		}
		for _, b := range all {
			if got[b.ID] > 0 && b.NotBefore.After(now) {
				t.Fatalf("%s was released before its time", b.ID)
			}
		}
	})
}

// without are the backlogs with nothing to release below a priority.
func without(all []Backlog, lowest int) (rest []Backlog) {
	for _, b := range all {
		if b.Priority < lowest {
			b.Waiting, b.Classes = 0, map[int]int64{}
		}
		rest = append(rest, b)
	}
	return rest
}

func byBatch(shares []Share) map[string]int {
	n := map[string]int{}
	for _, s := range shares {
		n[s.ID] += s.N
	}
	return n
}
