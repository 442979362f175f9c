package batch

import (
	"slices"
	"testing"
	"time"
)

func ids(all []Status) (out []string) {
	for _, st := range all {
		out = append(out, st.ID)
	}
	return out
}

func (b *bundle) liveAndEnded(t *testing.T, after time.Time) (live, ended []string) {
	t.Helper()
	l, err := b.Live(t.Context())
	must(t, err)
	e, err := b.Ended(t.Context(), after)
	must(t, err)
	return ids(l), ids(e)
}

func TestEnded(t *testing.T) {
	for name, on := range map[string]func(testing.TB) *bundle{"redis": setup, "embedded": setupMini} {
		t.Run(name, func(t *testing.T) {
			b := on(t)
			begun := b.clock.t
			expect := func(when string, after time.Time, live, ended []string) {
				t.Helper()
				if l, e := b.liveAndEnded(t, after); !slices.Equal(l, live) || !slices.Equal(e, ended) {
					t.Errorf("%s: live %v, ended %v; want %v and %v", when, l, e, live, ended)
				}
			}
			expect("without a batch", begun, nil, nil)
			b.submit(t, "run", jsonl(3))
			b.clock.step(time.Hour)
			b.ended(t, "first")
			expect("before the keeper saw the end", begun, []string{"run"}, nil)
			b.look(t)
			expect("after it", begun, []string{"run"}, []string{"first"})
			b.clock.step(time.Hour)
			b.ended(t, "second")
			b.look(t)
			b.look(t)
			expect("both", begun, []string{"run"}, []string{"first", "second"})
			expect("after the first alone", begun.Add(time.Hour), []string{"run"}, []string{"second"})

			d, err := b.Vanish(t.Context(), "second")
			must(t, err)
			expect("one is deleted", begun, []string{"run"}, []string{"first"})
			must(t, b.Free(t.Context(), d))
			if got := b.indexed(t, endedKey); !slices.Equal(got, []string{"first"}) {
				t.Errorf("left in the index: %v", got)
			}
			b.clock.step(EndsKept)
			b.ended(t, "third")
			b.look(t)
			if got := b.indexed(t, endedKey); !slices.Equal(got, []string{"third"}) {
				t.Errorf("kept in the index: %v", got)
			}
		})
	}
}

// A batch that is retried has not ended until it ends again.
func TestEnded_Retried(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(2), func(d *Description) { d.Deadline = b.clock.t.Add(time.Minute) })
	b.clock.step(time.Minute)
	if _, err := b.End(t.Context(), "b", 1, Expired, 9); err != nil {
		t.Fatal(err)
	}
	b.look(t)
	begun := b.clock.t.Add(-time.Hour)
	if live, ended := b.liveAndEnded(t, begun); len(live) != 0 || len(ended) != 1 {
		t.Errorf("live %v, ended %v", live, ended)
	}
	if _, err := b.Retry(t.Context(), "b", Retry{Deadline: b.clock.t.Add(time.Hour)}, nil); err != nil {
		t.Fatal(err)
	}
	if live, ended := b.liveAndEnded(t, begun); len(live) != 1 || len(ended) != 0 {
		t.Errorf("retried: live %v, ended %v", live, ended)
	}
}
