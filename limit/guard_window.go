package limit

import (
	"math"
	"slices"
	"time"
)

// The numbers of the guard.
const (
	// guardMinutes is how many whole minutes before the present one count: with
	// it they hold every hour that ends now, of whatever phase, so that no hour
	// ever holds more than the limit. A call counts for 60 to 61 minutes.
	guardMinutes = 60
	// placeGrace is how long after its time a place is kept: a line wakes at a
	// whole second, spread and behind what is pending.
	placeGrace = 5 * time.Minute
	// budgetWait is when a line asks again whose batch's budget is only reserved.
	budgetWait = 5 * time.Second
	maxCharge  = int64(1e15) // nano-dollars
	minuteMS   = int64(60_000)
)

// GuardWindow is the longest that a call counts in the hour of a guard, and how
// long after a full minute one counts that was made at it.
const GuardWindow = (guardMinutes + 1) * time.Minute

// window is the sliding hour of one producer, or of all. The zero window is empty.
type window struct {
	Minutes []guardMinute // ascending; of those that count
	Calls   int64         // their sums
	USD     int64
	Waiting []turn // by order of asking
	Seq     int64  // places ever given
	Opened  int64  // ms; 0: closed
	Dear    int64  // while it is open, what the call that was refused last would have cost

	Released   int64 // ms
	ReleasedBy string
}

type guardMinute struct{ Minute, Calls, USD int64 }

// turn is a line's turn.
type turn struct {
	Line string
	Seq  int64
	Due  int64 // ms, as it was last told
}

// tidy drops the minutes that no longer count and the places that nobody came
// for, and returns the minute in which calls are counted now. A clock that
// stepped back counts on in the last minute; one that stepped back by more than
// the window voids it.
func (w *window) tidy(now int64) int64 {
	minute := now / minuteMS
	if n := len(w.Minutes); n > 0 {
		if last := w.Minutes[n-1].Minute; last > minute+guardMinutes {
			w.Minutes, w.Calls, w.USD = nil, 0, 0
		} else {
			minute = max(minute, last)
		}
	}
	for len(w.Minutes) > 0 && w.Minutes[0].Minute < minute-guardMinutes {
		w.Calls -= w.Minutes[0].Calls
		w.USD -= w.Minutes[0].USD
		w.Minutes = w.Minutes[1:]
	}
	for len(w.Waiting) > 0 && w.Waiting[0].Due+placeGrace.Milliseconds() < now {
		w.Waiting = w.Waiting[1:]
	}
	return minute
}

// add counts calls and cost in a minute that counts, or opens it.
func (w *window) add(minute, calls, usd int64) {
	i, ok := slices.BinarySearchFunc(w.Minutes, minute, func(m guardMinute, t int64) int { return int(m.Minute - t) })
	if !ok {
		w.Minutes = slices.Insert(w.Minutes, i, guardMinute{Minute: minute})
	}
	w.Minutes[i].Calls += calls
	w.Minutes[i].USD += usd
	w.Calls += calls
	w.USD += usd
}

// correct is add for a call that is not settled. Its minute may have passed out of
// the window; where a person set the hour to nothing since, it is not of this count.
func (w *window) correct(h heldCharge, calls, usd int64) {
	i := slices.IndexFunc(w.Minutes, func(m guardMinute) bool { return m.Minute == h.Minute })
	if i >= 0 && h.At > w.Released {
		m := w.Minutes[i]
		w.add(h.Minute, max(calls, -m.Calls), max(usd, -m.USD))
	}
}

// rank is how many lines have a place before this one.
func (w *window) rank(line string) int {
	if i := slices.IndexFunc(w.Waiting, func(p turn) bool { return p.Line == line }); i >= 0 && line != "" {
		return i
	}
	return len(w.Waiting)
}

// free says whether a call fits that has rank calls of its kind before it.
// Calls without a limit do not count here where own is set: they are the batch's own.
func (w *window) free(l GuardLimits, rank, usd int64, own bool) bool {
	if l.Calls > 0 && !own && w.Calls+rank >= l.Calls {
		return false
	}
	// A call dearer than the whole limit goes alone.
	return l.USD <= 0 || w.USD+usd*(rank+1) <= l.USD || w.USD <= 0 && rank == 0
}

// holds is how many calls of that cost a window holds, at least one.
func (l GuardLimits) holds(usd int64, own bool) int64 {
	n := int64(math.MaxInt64)
	if l.Calls > 0 && !own {
		n = l.Calls
	}
	if l.USD > 0 && usd > 0 {
		n = min(n, l.USD/usd)
	}
	return max(n, 1)
}

// due is when a call of that rank fits, by what falls out of the window until
// then: now where it fits. A rank beyond what a window holds waits for whole
// windows more.
func (w *window) due(l GuardLimits, rank, usd, now int64, own bool) int64 {
	holds := l.holds(usd, own)
	rounds := rank / holds
	rank %= holds
	after, at := window{Calls: w.Calls, USD: w.USD}, now
	for _, m := range w.Minutes {
		if after.free(l, rank, usd, own) {
			break
		}
		after.Calls -= m.Calls
		after.USD -= m.USD
		at = max(now, (m.Minute+guardMinutes+1)*minuteMS)
	}
	return at + rounds*(guardMinutes+1)*minuteMS
}

// wait gives a line its place, or keeps the one it has, and says when it is due.
func (w *window) wait(line string, due int64) {
	if line == "" {
		return
	}
	if i := w.rank(line); i < len(w.Waiting) {
		w.Waiting[i].Due = due
		return
	}
	w.Seq++
	w.Waiting = append(w.Waiting, turn{Line: line, Seq: w.Seq, Due: due})
}

// leave takes a line's place away.
func (w *window) leave(line string) {
	w.Waiting = slices.DeleteFunc(w.Waiting, func(p turn) bool { return p.Line == line })
}

// open says whether a new call would be refused, of the price of the last that
// was, and until when.
func (w *window) open(l GuardLimits, now int64) (bool, int64) {
	if !w.full(l) {
		return false, 0
	}
	return true, w.due(l, int64(len(w.Waiting)), max(w.Dear, 1), now, false)
}

func (w *window) full(l GuardLimits) bool {
	return !w.free(l, int64(len(w.Waiting)), w.Dear, false) || l.USD > 0 && w.USD >= l.USD
}
