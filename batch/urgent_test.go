package batch

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// dueIn gives a backlog a deadline.
func dueIn(d time.Duration) func(*Backlog) {
	return func(b *Backlog) { b.Deadline = newClock().t.Add(d) }
}

// With ten lines a second in all.
func TestPick_WhatWouldBeLateGoesFirst(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		backlogs []Backlog
		want     map[string]int
	}{
		"both are in time": {
			[]Backlog{waits("a", "ann", 10_000, dueIn(hour)), waits("b", "bob", 10_000, dueIn(hour))},
			map[string]int{"a": 5, "b": 5},
		},
		"one would be late": {
			[]Backlog{waits("a", "ann", 30_000, dueIn(hour)), waits("b", "bob", 30_000)},
			map[string]int{"a": 10},
		},
		"a tenth of the time is to spare": {
			[]Backlog{waits("a", "ann", 17_000, dueIn(hour)), waits("b", "bob", 30_000)},
			map[string]int{"a": 10},
		},
		"no rate is given to those who are done sooner": {
			[]Backlog{waits("a", "ann", 30_000, dueIn(hour)), waits("b", "bob", 500)},
			map[string]int{"a": 5, "b": 5},
		},
		"the earliest first": {
			[]Backlog{waits("a", "ann", 50_000, dueIn(2*hour)), waits("b", "bob", 15_000, dueIn(hour)), waits("c", "cem", 9)},
			map[string]int{"b": 10},
		},
		"an earlier deadline goes before one that would be late": {
			[]Backlog{waits("a", "ann", 60_000, dueIn(2*hour)), waits("b", "bob", 20, dueIn(hour)), waits("c", "cem", 9_000)},
			map[string]int{"b": 10},
		},
		"what is left goes to the next": {
			[]Backlog{waits("a", "ann", 60_000, dueIn(2*hour)), waits("b", "bob", 4, dueIn(hour)), waits("c", "cem", 9_000)},
			map[string]int{"b": 4, "a": 6},
		},
		"one that is late anyway makes nobody wait": {
			[]Backlog{waits("a", "ann", 500_000, dueIn(hour)), waits("b", "bob", 500, dueIn(2*hour)), waits("c", "cem", 500)},
			map[string]int{"a": 4, "b": 3, "c": 3},
		},
		"nor do those behind it": {
			[]Backlog{waits("a", "ann", 500_000, dueIn(hour)), waits("b", "bob", 60_000, dueIn(2*hour))},
			map[string]int{"b": 10},
		},
		"what higher priorities take comes first": {
			[]Backlog{waits("high", "hal", 9_000, func(b *Backlog) { b.Priority = 1 }), waits("a", "ann", 15_000, dueIn(hour)), waits("b", "bob", 15_000)},
			map[string]int{"high": 10},
		},
		"and makes others late": {
			[]Backlog{
				waits("high", "hal", 2, func(b *Backlog) { b.Priority, b.Out = 1, 9_000 }),
				waits("a", "ann", 15_000, dueIn(hour)), waits("b", "bob", 15_000),
			},
			map[string]int{"high": 2, "a": 8},
		},
		"one of the same producer": {
			[]Backlog{waits("a", "ann", 30_000, dueIn(hour)), waits("b", "ann", 30_000), waits("c", "cem", 9_000)},
			map[string]int{"a": 10},
		},
		"a full class": {
			[]Backlog{
				waits("a", "ann", 30_000, dueIn(hour), func(b *Backlog) { b.Out, b.Deferred[0] = 97, 97 }),
				waits("b", "bob", 30_000),
			},
			map[string]int{"a": 3, "b": 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, s := range Pick(c.backlogs, Picking{Now: newClock().t, Room: 10, Deferred: 100, Rate: 10}) {
				got[s.ID] += s.N
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPick_GuardsBoundTheirProducersAlone(t *testing.T) {
	two := []Backlog{waits("a1", "ann", 500), waits("a2", "ann", 500), waits("b", "bob", 500)}
	late := waits("a1", "ann", 30_000, dueIn(time.Hour))
	for name, c := range map[string]struct {
		backlogs []Backlog
		calls    Calls
		want     map[string]int
	}{
		"none is open":      {two, Calls{}, map[string]int{"a1": 10, "b": 10}},
		"ann's is open":     {two, Calls{Producers: map[string]int{"ann": 0}}, map[string]int{"b": 20}},
		"or beyond":         {two, Calls{Producers: map[string]int{"ann": -7}}, map[string]int{"b": 20}},
		"nearly":            {two, Calls{Producers: map[string]int{"ann": 3}}, map[string]int{"a1": 3, "b": 17}},
		"both":              {two, Calls{Producers: map[string]int{"ann": 3, "bob": 2}}, map[string]int{"a1": 3, "b": 2}},
		"an allowance":      {two, Calls{Producers: map[string]int{"ann": 0}, Own: map[string]int{"a2": 4}}, map[string]int{"a2": 4, "b": 16}},
		"beside the guard":  {two, Calls{Producers: map[string]int{"ann": 1}, Own: map[string]int{"a2": 4}}, map[string]int{"a1": 1, "a2": 4, "b": 15}},
		"it comes first":    {two, Calls{Producers: map[string]int{"ann": 2}, Own: map[string]int{"a1": 4}}, map[string]int{"a1": 6, "b": 14}},
		"late and open":     {[]Backlog{late, two[2]}, Calls{Producers: map[string]int{"ann": 0}}, map[string]int{"b": 20}},
		"late and not open": {[]Backlog{late, two[2]}, Calls{Producers: map[string]int{"bob": 0}}, map[string]int{"a1": 20}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, s := range Pick(c.backlogs, Picking{Now: newClock().t, Room: 20, Deferred: 100, Rate: 10, Calls: c.calls}) {
				got[s.ID] += s.N
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPick_Bounds: whatever is late or guarded, nobody gets more than there is,
// than fits, or than its guard leaves; and room is left only where nobody may
// have more.
func TestPick_Bounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Picking{
			Now: newClock().t, Room: rapid.IntRange(-1, 60).Draw(t, "room"), Deferred: 5,
			Rate:  rapid.SampledFrom([]float64{0, 0.001, 0.01, 0.1, 10}).Draw(t, "rate"),
			Calls: Calls{Producers: map[string]int{}, Own: map[string]int{}},
		}
		var all []Backlog
		for i := range rapid.IntRange(0, 6).Draw(t, "batches") {
			b := waits(fmt.Sprintf("b%d", i), rapid.SampledFrom([]string{"ann", "bob", "cem"}).Draw(t, "producer"),
				rapid.Int64Range(0, 40).Draw(t, "waiting"), dueIn(rapid.SampledFrom([]time.Duration{-1, 1, 600, 3600, 9000}).Draw(t, "due")*time.Second))
			if rapid.Bool().Draw(t, "open end") {
				b.Deadline = time.Time{}
			}
			p.Calls.Own[b.ID] = rapid.SampledFrom([]int{0, 0, 3, 50}).Draw(t, "own")
			all = append(all, b)
		}
		for _, name := range []string{"ann", "bob", "cem"} {
			if rapid.Bool().Draw(t, name+" is guarded") {
				p.Calls.Producers[name] = rapid.IntRange(-2, 30).Draw(t, name)
			}
		}
		checkBounds(t, all, p, Pick(all, p))
	})
}

func checkBounds(t *rapid.T, all []Backlog, p Picking, shares []Share) {
	given := map[string]int{}
	for _, s := range shares {
		if _, twice := given[s.ID]; twice || s.N <= 0 {
			t.Fatalf("shares %+v", shares)
		}
		given[s.ID] = s.N
	}
	if n := sum(shares); n > max(p.Room, 0) {
		t.Fatalf("%d released into room for %d", n, p.Room)
	}
	charged, more := map[string]int{}, map[string]int{}
	for _, b := range all {
		n, own := given[b.ID], p.Calls.Own[b.ID]
		if int64(n) > b.Waiting || n > 0 && !b.alive(p.Now) {
			t.Fatalf("%s gets %d lines", b.ID, n)
		}
		charged[b.Producer] += max(0, n-own)
		if b.alive(p.Now) {
			more[b.Producer] += int(b.Waiting) - n
			if sum(shares) < p.Room && n < min(own, int(b.Waiting)) {
				t.Fatalf("%s gets %d lines of %d, with %d calls of its own and room left", b.ID, n, b.Waiting, own)
			}
		}
	}
	for producer, n := range more {
		left, bounded := p.Calls.Producers[producer]
		if bounded && charged[producer] > max(left, 0) {
			t.Fatalf("%s has %d calls left and gets %d lines", producer, left, charged[producer])
		}
		if free := !bounded || charged[producer] < left; sum(shares) < p.Room && n > 0 && free {
			t.Fatalf("room for %d is left, and %s may have %d more", p.Room-sum(shares), producer, n)
		}
	}
}

// Half a million lines, then two thousand of another producer with an earlier
// deadline: whatever the queue can do in the time, the second gets at least half.
func TestCase55_AnEarlierDeadlineIsServedAtAnyRate(t *testing.T) {
	for _, due := range []time.Duration{2 * time.Hour, 8 * time.Hour, 24 * time.Hour} {
		for rate := 0.01; rate < 10_000; rate *= 1.5 {
			huge, small := waits("huge", "night", 500_000, dueIn(due)), waits("small", "day", 2_000, dueIn(due/2))
			huge.Out = 50
			got := map[string]int{}
			for _, s := range Pick([]Backlog{huge, small}, Picking{Now: newClock().t, Room: 20, Deferred: 100, Rate: rate}) {
				got[s.ID] += s.N
			}
			if got["small"] < 10 {
				t.Errorf("due in %s, %.2f lines a second: released %v", due, rate, got)
			}
		}
	}
}
