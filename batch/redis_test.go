package batch

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/provider"
)

func TestAWholeNight(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *bundle{"redis": setup, "miniredis": setupMini} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			ctx := t.Context()
			text := jsonl(200)
			b.submit(t, "night", text)
			backlogs, err := b.Backlogs(ctx)
			if err != nil || len(backlogs) != 1 || backlogs[0].Waiting != 200 || backlogs[0].Classes[0] != 200 {
				t.Fatalf("backlogs %+v, %v", backlogs, err)
			}
			seen := map[int64]bool{}
			for len(seen) < 200 {
				refs := b.release(t, "night", 30)
				for _, ref := range refs {
					if seen[ref.Line] {
						t.Fatalf("line %d was released twice", ref.Line)
					}
					seen[ref.Line] = true
					got := b.begin(t, ref, fmt.Sprintf("t%d", ref.Line), Granted)
					if want := fmt.Sprintf("r%d", ref.Line); got.Line.CustomID != want {
						t.Fatalf("line %d has the ID %s, want %s", ref.Line, got.Line.CustomID, want)
					}
					p := Progress{Calls: []provider.Call{call("openai/gpt-4o", 1000)}}
					l := Lease{ref, fmt.Sprintf("t%d", ref.Line)}
					if err := b.Finish(ctx, l, p, Succeeded, answer(got.Line, p)); err != nil {
						t.Fatal(err)
					}
				}
				b.clock.step(time.Second)
			}
			st := b.status(t, "night")
			if st.State != Done || st.Succeeded != 200 || st.CostUSD != 200_000 || st.Calls != 200 || st.FinishedAt == nil {
				t.Fatalf("status %+v", st)
			}
			recs := b.records(t, "night")
			if len(recs) != 200 {
				t.Fatalf("%d records", len(recs))
			}
			if backlogs, _ := b.Backlogs(ctx); len(backlogs) != 0 {
				t.Fatalf("a finished batch is in the backlogs: %+v", backlogs)
			}
			if all, err := b.List(ctx); err != nil || len(all) != 1 || !cmp.Equal(all[0], st) {
				t.Fatalf("list %+v, %v", all, err)
			}
			b.begin(t, Ref{"night", 7, 0}, "late", Over)
		})
	}
}
