package batch

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// waits is a backlog with so many lines of class 0 to be released.
func waits(id, producer string, n int64, change ...func(*Backlog)) Backlog {
	b := Backlog{
		Description: Description{ID: id, Producer: producer, CreatedAt: newClock().t},
		Waiting:     n, Classes: map[int]int64{0: n}, Deferred: map[int]int{},
	}
	for _, f := range change {
		f(&b)
	}
	return b
}

func TestPick(t *testing.T) {
	now := newClock().t
	due := func(h int) func(*Backlog) {
		return func(b *Backlog) { b.Deadline = now.Add(time.Duration(h) * time.Hour) }
	}
	priority := func(n int) func(*Backlog) { return func(b *Backlog) { b.Priority = n } }
	starts := func(d time.Duration) func(*Backlog) {
		return func(b *Backlog) { b.NotBefore = now.Add(d) }
	}
	out := func(n int64, deferred int) func(*Backlog) {
		return func(b *Backlog) { b.Out, b.Deferred[0] = n, deferred }
	}
	for name, c := range map[string]struct {
		backlogs []Backlog
		room     int
		want     map[string]int
	}{
		"nothing":         {nil, 10, map[string]int{}},
		"no room":         {[]Backlog{waits("a", "ann", 5)}, 0, map[string]int{}},
		"less than none":  {[]Backlog{waits("a", "ann", 5)}, -3, map[string]int{}},
		"all that waits":  {[]Backlog{waits("a", "ann", 5)}, 10, map[string]int{"a": 5}},
		"equal shares":    {[]Backlog{waits("a", "ann", 500), waits("b", "bob", 500)}, 10, map[string]int{"a": 5, "b": 5}},
		"small wish":      {[]Backlog{waits("a", "ann", 500), waits("b", "bob", 2)}, 10, map[string]int{"a": 8, "b": 2}},
		"what is out":     {[]Backlog{waits("a", "ann", 500, out(6, 0)), waits("b", "bob", 500)}, 10, map[string]int{"a": 2, "b": 8}},
		"deferred is not": {[]Backlog{waits("a", "ann", 500, out(6, 6)), waits("b", "bob", 500)}, 10, map[string]int{"a": 5, "b": 5}},
		"healthy class":   {[]Backlog{waits("a", "ann", 500)}, 300, map[string]int{"a": 300}},
		"full class":      {[]Backlog{waits("a", "ann", 500, out(100, 100)), waits("b", "bob", 500)}, 10, map[string]int{"b": 10}},
		"nearly full":     {[]Backlog{waits("a", "ann", 500, out(97, 97)), waits("c", "ann", 500)}, 10, map[string]int{"a": 3}},
		"earliest deadline": {
			[]Backlog{waits("late", "ann", 500, due(9)), waits("none", "ann", 500), waits("soon", "ann", 4, due(1))},
			10,
			map[string]int{"soon": 4, "late": 6},
		},
		"over": {
			[]Backlog{waits("gone", "ann", 500, due(0)), waits("off", "bob", 500, func(b *Backlog) { b.Cancelled = true }), waits("c", "cem", 3)},
			10,
			map[string]int{"c": 3},
		},
		"not before its time": {
			[]Backlog{waits("later", "ann", 500, starts(time.Millisecond), due(1)), waits("now", "ann", 3, starts(0)), waits("b", "bob", 2)},
			10,
			map[string]int{"now": 3, "b": 2},
		},
		"priority goes before deadline and share": {
			[]Backlog{waits("a", "ann", 500, due(1)), waits("b", "bob", 7, priority(1)), waits("c", "cem", 500, priority(-5), due(1))},
			10,
			map[string]int{"b": 7, "a": 3},
		},
		"equal shares within a priority, with what is out of others": {
			[]Backlog{
				waits("a", "ann", 2, priority(9)), waits("a0", "ann", 500),
				waits("b", "bob", 500, out(3, 0)), waits("c", "cem", 500),
			},
			10,
			map[string]int{"a": 2, "a0": 3, "b": 1, "c": 4},
		},
		"what cannot go yet keeps nobody waiting": {
			[]Backlog{waits("a", "ann", 500, priority(9), starts(time.Hour)), waits("b", "bob", 500, priority(9), out(100, 100)), waits("c", "cem", 4)},
			10,
			map[string]int{"c": 4},
		},
		"batches of one producer share": {
			[]Backlog{waits("a1", "ann", 500), waits("a2", "ann", 500), waits("b", "bob", 500)}, 10, map[string]int{"a1": 5, "b": 5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, s := range Pick(c.backlogs, Picking{Now: now, Room: c.room, Deferred: 100}) {
				got[s.ID] += s.N
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPick_ClassesAreBoundedApart(t *testing.T) {
	b := waits("a", "ann", 0)
	b.Waiting, b.Classes, b.Deferred, b.Out = 60, map[int]int64{0: 50, 1: 10}, map[int]int{0: 99, 2: 7}, 106
	got := Pick([]Backlog{b}, Picking{Now: newClock().t, Room: 40, Deferred: 100})
	want := []Share{{ID: "a", N: 11, Room: map[int]int{0: 1, 1: 10}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestPick_Fair: never more than there is room for, or than a class may have;
// nobody gets less than another who wants no more; no room is left while
// somebody wants it.
func TestPick_Fair(t *testing.T) {
	now := newClock().t
	rapid.Check(t, func(t *rapid.T) {
		var all []Backlog
		for i := range rapid.IntRange(0, 8).Draw(t, "batches") {
			b := waits(fmt.Sprintf("b%d", i), rapid.SampledFrom([]string{"ann", "bob", "cem"}).Draw(t, "producer"), 0)
			for class := range rapid.IntRange(1, 3).Draw(t, "classes") {
				n := rapid.Int64Range(0, 40).Draw(t, "waiting")
				b.Classes[class] = n
				b.Waiting += n
				b.Deferred[class] = rapid.IntRange(0, 25).Draw(t, "deferred")
				b.Out += int64(b.Deferred[class])
			}
			b.Out += rapid.Int64Range(0, 10).Draw(t, "active")
			if h := rapid.IntRange(-1, 3).Draw(t, "deadline"); h >= 0 {
				b.Deadline = now.Add(time.Duration(h) * time.Hour)
			}
			all = append(all, b)
		}
		room, bound := rapid.IntRange(0, 60).Draw(t, "room"), rapid.IntRange(1, 30).Draw(t, "bound")
		checkFair(t, all, room, bound, Pick(all, Picking{Now: now, Room: room, Deferred: bound}), now)
	})
}

// left is what a class may still get; without a deferred line it is not bounded.
func left(bound, deferred int) int {
	if deferred == 0 {
		return math.MaxInt
	}
	return max(0, bound-deferred)
}

func checkFair(t *rapid.T, all []Backlog, room, bound int, shares []Share, now time.Time) {
	given := map[string]int{}
	used := map[string]map[int]int{}
	active := map[string]int64{}
	byID := map[string]Backlog{}
	total := 0
	for _, b := range all {
		byID[b.ID] = b
		if used[b.Producer] == nil {
			used[b.Producer] = map[int]int{}
		}
		active[b.Producer] += b.Out
		for c, n := range b.Deferred {
			used[b.Producer][c] += n
			active[b.Producer] -= int64(n)
		}
	}
	wants := map[string]int{}
	for p := range used {
		for c := range 3 {
			waiting := 0
			for _, b := range all {
				if b.Producer == p && (b.Deadline.IsZero() || b.Deadline.After(now)) {
					waiting += int(b.Classes[c])
				}
			}
			wants[p] += min(waiting, left(bound, used[p][c]))
		}
	}
	for _, s := range shares {
		b := byID[s.ID]
		total += s.N
		given[b.Producer] += s.N
		sum := 0
		for c, n := range s.Room {
			sum += n
			if n > left(bound, used[b.Producer][c]) || int64(n) > b.Classes[c] {
				t.Fatalf("%s may release %d of class %d", s.ID, n, c)
			}
		}
		if s.N <= 0 || s.N > sum {
			t.Fatalf("share %+v", s)
		}
	}
	if total > room {
		t.Fatalf("%d released into room for %d", total, room)
	}
	for p := range used {
		for q := range used {
			if given[q] > 0 && given[p] < wants[p] && active[p]+int64(given[p]) < active[q]+int64(given[q])-1 {
				t.Fatalf("%s has %d, %s has %d and wants more", q, active[q]+int64(given[q]), p, active[p]+int64(given[p]))
			}
		}
		if total < room && given[p] < wants[p] {
			t.Fatalf("%s wants %d and got %d, with room for %d more", p, wants[p], given[p], room-total)
		}
	}
}
