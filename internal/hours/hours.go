package hours

import (
	"fmt"
	"strings"
	"time"
)

// Hours are the hours of the week in which something is open. The zero Hours
// are always. They do not change and are safe for concurrent use.
type Hours struct {
	spans []span
	zone  *time.Location
}

// span opens on each of some days. One whose to is not behind its from ends on
// the next day.
type span struct {
	days     [7]bool // of its beginning, by time.Weekday
	from, to int     // minutes from midnight; to may be that of the next day
}

// on returns when the span opens and closes on a day that it may open on. Where
// clocks change the two may be the same.
func (s span) on(year int, month time.Month, day int, zone *time.Location) (opens, closes time.Time) {
	end := day
	if s.to <= s.from {
		end++
	}
	return At(year, month, day, s.from, zone), At(year, month, end, s.to, zone)
}

// Always says that it never closes because no hours are named.
func (h Hours) Always() bool { return len(h.spans) == 0 }

// each calls f for every opening that begins on one of so many days, the first of
// which is the one before t.
func (h Hours) each(t time.Time, days int, f func(opens, closes time.Time)) {
	year, month, today := t.In(h.zone).Date()
	for day := today - 1; day < today-1+days; day++ {
		weekday := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()
		for _, s := range h.spans {
			if !s.days[weekday] {
				continue
			}
			if opens, closes := s.on(year, month, day, h.zone); closes.After(opens) {
				f(opens, closes)
			}
		}
	}
}

// until returns the latest end of the openings that hold t; zero: none does.
func (h Hours) until(t time.Time) (end time.Time) {
	h.each(t, 2, func(opens, closes time.Time) {
		if !t.Before(opens) && t.Before(closes) && closes.After(end) {
			end = closes
		}
	})
	return end
}

// Open says whether it is open now.
func (h Hours) Open(now time.Time) bool { return h.Always() || !h.until(now).IsZero() }

// lookAhead is how many days are searched: hours come again every week, and a
// change of clocks takes one day of them at most.
const lookAhead = 16

// Next returns when it is open next: now, where it is open.
func (h Hours) Next(now time.Time) time.Time {
	if h.Open(now) {
		return now
	}
	var next time.Time
	h.each(now, lookAhead, func(opens, _ time.Time) {
		if opens.After(now) && (next.IsZero() || opens.Before(next)) {
			next = opens
		}
	})
	return next
}

// Closes returns when what is open now closes. Zero: it is closed, or open for
// more than two weeks.
func (h Hours) Closes(now time.Time) time.Time {
	if h.Always() {
		return time.Time{}
	}
	end := h.until(now)
	for !end.IsZero() {
		next := h.until(end)
		if next.IsZero() {
			return end
		}
		if end = next; end.Sub(now) > lookAhead*24*time.Hour {
			break
		}
	}
	return time.Time{}
}

// maxOpenings bounds what After counts: more than a year of nights.
const maxOpenings = 1000

// After returns when it has been open for so long, from now on. What takes more
// openings than can be counted is done by the last of them, or later.
func (h Hours) After(now time.Time, work time.Duration) time.Time {
	t := h.Next(now)
	for range maxOpenings {
		closes := h.Closes(t)
		if closes.IsZero() || work <= closes.Sub(t) {
			return t.Add(work)
		}
		work -= closes.Sub(t)
		t = h.Next(closes)
	}
	return t.Add(work)
}

// Within returns how long it is open between two times; 0 where they are in the
// wrong order.
func (h Hours) Within(from, to time.Time) (open time.Duration) {
	for range maxOpenings {
		from = h.Next(from)
		closes := h.Closes(from)
		if closes.IsZero() || closes.After(to) {
			closes = to
		}
		if !closes.After(from) {
			break
		}
		open += closes.Sub(from)
		from = closes
	}
	return open
}

// String writes the hours out, each part with its days, as Parse reads it; ""
// is always.
func (h Hours) String() string {
	var parts []string
	for _, s := range h.spans {
		times := fmt.Sprintf("%02d:%02d-%02d:%02d", s.from/60, s.from%60, s.to/60, s.to%60)
		if days := s.dayNames(); days != "" {
			times = days + " " + times
		}
		parts = append(parts, times)
	}
	return strings.Join(parts, ", ")
}

// dayNames are the days of a span; "" is all of them. They stand in one range,
// as they were read.
func (s span) dayNames() string {
	first, last := -1, -1
	for d := range 7 {
		if s.days[d] && !s.days[(d+6)%7] {
			first = d
		}
		if s.days[d] && !s.days[(d+1)%7] {
			last = d
		}
	}
	switch {
	case first < 0:
		return ""
	case first == last:
		return weekdays[first]
	}
	return weekdays[first] + "-" + weekdays[last]
}
