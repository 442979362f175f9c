package batch

import (
	"testing"
	"time"
)

// A first attempt that stalls beyond its lease while another ends the line by a
// script that books no calls: what it paid for meanwhile is still booked, as waste,
// and nothing else of the line is left.
func TestAStalledFirstAttemptIsBooked(t *testing.T) {
	ends := map[string]func(*bundle, Ref){
		"begun after a cancellation": func(b *bundle, r Ref) {
			must(t, b.Cancel(t.Context(), r.Batch))
			b.begin(t, r, "t2", BatchCancelled)
		},
		"ended by the keeper": func(b *bundle, r Ref) {
			must(t, b.Cancel(t.Context(), r.Batch))
			if n, err := b.End(t.Context(), r.Batch, 1, Cancelled, 10); n != 1 || err != nil {
				t.Errorf("ended %d, %v", n, err)
			}
		},
		"given a text": func(b *bundle, r Ref) {
			if n, err := b.TextsOut(t.Context(), r.Batch, 1, text); n != 1 || err != nil {
				t.Errorf("%d texts, %v", n, err)
			}
		},
		"answered by another": func(b *bundle, r Ref) {
			got := b.begin(t, r, "t2", Granted)
			must(t, b.Finish(t.Context(), Lease{r, "t2"}, paid("m2"), Succeeded, answer(got.Line, paid("m2"))))
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			l, begun := one(t, b, "t1")
			b.clock.step(2 * time.Minute)
			end(b, l.Ref)
			before := b.status(t, "one")
			fenced(t, b.Finish(t.Context(), l, paid("m1"), Succeeded, answer(begun.Line, paid("m1"))))
			if st := b.status(t, "one"); st.Calls != before.Calls+1 || st.WastedUSD != before.WastedUSD+1000 {
				t.Errorf("%d calls, then %d; wasted %s, then %s", before.Calls, st.Calls, before.WastedUSD, st.WastedUSD)
			}
			for _, k := range []string{"out", "wait", "lease", "prog", "crash"} {
				if n := b.rdb.HLen(t.Context(), key("one", k)).Val(); n != 0 {
					t.Errorf("%d left in %s", n, k)
				}
			}
		})
	}
}
