package tasks

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/batch"
	"nightshift/internal/redistest"
)

// tallied answers from memory.
type tallied map[string]batch.Tally

func (t tallied) Tallies(context.Context) (map[string]batch.Tally, error) { return t, nil }

func TestNight(t *testing.T) {
	ctx := t.Context()
	rdb := redistest.Client(t)
	now := time.Date(2026, 10, 5, 22, 0, 10, 0, time.UTC)
	all := tallied{"old": {Ended: 900, Calls: 950, Cost: 7_000}}
	night, other := NewNight(rdb, all), NewNight(rdb, all)
	step := func(change func()) {
		t.Helper()
		change()
		now = now.Add(time.Minute)
		for _, n := range []*Night{night, other, night} { // several keepers, or one that comes back
			if err := n.Write(ctx, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	step(func() {}) // what was there before is no minute's
	step(func() {
		all["old"] = batch.Tally{Ended: 903, Calls: 954, Cost: 7_500, Wasted: 100}
		all["new"] = batch.Tally{Ended: 2, Calls: 2, Cost: 40}
	})
	step(func() {})
	step(func() { // a retry takes ends back; the calls go on
		all["old"] = batch.Tally{Ended: 803, Calls: 960, Cost: 7_900, Wasted: 100}
		delete(all, "new")
	})
	step(func() { // another of the same name, after it was deleted
		all["new"] = batch.Tally{Ended: 1, Calls: 1, Cost: 5}
	})
	want := []Minute{
		{time.Date(2026, 10, 5, 22, 1, 0, 0, time.UTC), batch.Tally{Ended: 5, Calls: 6, Cost: 540, Wasted: 100}},
		{time.Date(2026, 10, 5, 22, 3, 0, 0, time.UTC), batch.Tally{Calls: 6, Cost: 400}},
		{time.Date(2026, 10, 5, 22, 4, 0, 0, time.UTC), batch.Tally{Ended: 1, Calls: 1, Cost: 5}},
	}
	got, err := night.Minutes(ctx, now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if late, _ := night.Minutes(ctx, want[2].At); len(late) != 1 {
		t.Errorf("since the last minute there are %d", len(late))
	}
	// A day later its places are taken by other minutes.
	now = now.Add(24*time.Hour - 4*time.Minute)
	step(func() { all["new"] = batch.Tally{Ended: 8, Calls: 8, Cost: 50} })
	if n, _ := rdb.HLen(ctx, minutesKey).Result(); n != 3 {
		t.Errorf("%d minutes are kept, want 3: the first was overwritten", n)
	}
}
