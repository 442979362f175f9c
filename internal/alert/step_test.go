package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begin = time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)

// world is what a keeper knows, without a Redis.
type world struct {
	known map[string]occurrence
	rules map[Event]Rule
	now   time.Time
	told  []string // titles, with the times since the beginning
}

func newWorld(r Rule) *world {
	return &world{known: map[string]occurrence{}, rules: map[Event]Rule{BreakerOpenLong: r, BatchDone: {}}, now: begin}
}

func everybody(Event) []string { return []string{"r"} }

// look is one at what is seen.
func (w *world) look(seen map[Event][]Sighting) {
	changes, out := step(w.known, seen, w.rules, everybody, begin, w.now)
	for _, c := range changes {
		if c.to == nil {
			delete(w.known, c.key)
			continue
		}
		w.known[c.key] = *c.to
	}
	for _, n := range out {
		w.told = append(w.told, fmt.Sprintf("%s %s", w.now.Sub(begin), n.note.Title))
	}
}

func open(subject string) Sighting {
	return Sighting{Event: BreakerOpenLong, Subject: subject, Title: subject + " open", Over: subject + " closed", Data: map[string]string{"model": subject}}
}

// lasts looks every 10 s for so long.
func (w *world) lasts(d time.Duration, seen ...Sighting) {
	for range int(d / (10 * time.Second)) {
		w.look(map[Event][]Sighting{BreakerOpenLong: seen})
		w.now = w.now.Add(10 * time.Second)
	}
}

func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(w.told, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(w.told, "\n"), strings.Join(want, "\n"))
	}
	w.told = nil
}

func TestStep_ToldOnceAndOver(t *testing.T) {
	t.Parallel()
	w := newWorld(Rule{After: 15 * time.Minute, Quiet: time.Minute})
	w.lasts(14*time.Minute+50*time.Second, open("a"))
	w.expect(t)
	w.lasts(2*time.Hour, open("a"), open("b"))
	w.expect(t, "15m0s a open", "29m50s b open")
	w.lasts(50*time.Second, open("b")) // not long enough to be over
	w.lasts(time.Hour, open("a"), open("b"))
	w.expect(t)
	w.lasts(2*time.Minute, open("b"))
	w.expect(t, "3h16m40s a closed")
	w.lasts(16*time.Minute, open("a"), open("b"))
	w.expect(t, "3h32m40s a open")
	w.lasts(2 * time.Minute)
	if len(w.known) != 0 {
		t.Errorf("known for ever: %+v", w.known)
	}
}

func TestStep_FlappingIsNotNews(t *testing.T) {
	t.Parallel()
	w := newWorld(Rule{Quiet: 15 * time.Minute})
	for range 60 { // a guard at its limit
		w.lasts(50*time.Second, open("a"))
		w.lasts(10 * time.Second)
	}
	w.expect(t, "0s a open")
	w.lasts(16 * time.Minute)
	w.expect(t, "1h14m50s a closed")
}

func TestStep_HeldBack(t *testing.T) {
	t.Parallel()
	held := open("a")
	held.Hold = true
	w := newWorld(Rule{After: time.Minute, Quiet: time.Minute})
	w.lasts(time.Hour, held)
	w.expect(t)
	w.lasts(50*time.Second, open("a"))
	w.lasts(2*time.Minute, held) // what it waited for is forgotten
	w.lasts(time.Minute, open("a"))
	w.expect(t)
	w.lasts(10*time.Second, open("a"))
	w.expect(t, "1h3m50s a open")
	w.lasts(time.Hour, held) // it is open still
	w.expect(t)
}

func TestStep_WhatCannotBeLookedForIsNotOver(t *testing.T) {
	t.Parallel()
	w := newWorld(Rule{})
	w.lasts(10*time.Second, open("a"))
	w.look(map[Event][]Sighting{})
	w.look(map[Event][]Sighting{BatchDone: nil})
	w.expect(t, "0s a open")
	w.look(map[Event][]Sighting{BreakerOpenLong: nil})
	w.expect(t, "10s a closed")
}

func TestStep_WhatHappenedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(Rule{})
	done := func(id string, after time.Duration) Sighting {
		return Sighting{Event: BatchDone, Subject: id, At: begin.Add(after), Title: id + " done"}
	}
	seen := map[Event][]Sighting{BatchDone: {done("before", -time.Second), done("just", 0), done("b", time.Second)}}
	w.look(seen)
	w.look(seen)
	w.expect(t, "0s b done")
	w.look(map[Event][]Sighting{BatchDone: nil}) // long ago by now
	w.expect(t)
	if len(w.known) != 0 {
		t.Errorf("known for ever: %+v", w.known)
	}
}

// However conditions come and go: of one, what is told alternates between open and
// closed, never sooner than the rule says, and nothing is known once all is over.
func TestStep_Alternates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{
			After: time.Duration(rapid.IntRange(0, 6).Draw(t, "after")) * 10 * time.Second,
			Quiet: time.Duration(rapid.IntRange(0, 6).Draw(t, "quiet")) * 10 * time.Second,
		}
		w := newWorld(r)
		var since time.Time // when it came or went, for the last time
		was, told := false, 0
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			is := rapid.Bool().Draw(t, "is")
			if is != was {
				was, since = is, w.now
			}
			var seen []Sighting
			if is {
				seen = append(seen, open("a"))
			}
			w.look(map[Event][]Sighting{BreakerOpenLong: seen})
			for ; told < len(w.told); told++ {
				isOpen := strings.HasSuffix(w.told[told], "open")
				if isOpen != (told%2 == 0) || isOpen != is {
					t.Fatalf("told %v while it is %v", w.told, is)
				}
				if !isOpen && w.now.Sub(since) < r.Quiet {
					t.Fatalf("over after %s: %v", w.now.Sub(since), w.told)
				}
				if isOpen && w.now.Sub(begin) < r.After {
					t.Fatalf("told after %s", w.now.Sub(begin))
				}
			}
			w.now = w.now.Add(10 * time.Second)
		}
		w.lasts(3 * time.Minute)
		if len(w.known) != 0 || len(w.told)%2 != 0 {
			t.Fatalf("in the end %+v, told %v", w.known, w.told)
		}
	})
}
