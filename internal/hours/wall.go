package hours

import (
	"fmt"
	"time"
)

// dayMinutes are the minutes of a day as clocks write them, whatever its length.
const dayMinutes = 24 * 60

// At returns when the clock of a zone shows a time of day, in minutes from
// midnight; days, months and minutes beyond their range go on as in time.Date.
func At(year int, month time.Month, day, minute int, zone *time.Location) time.Time {
	wanted := time.Date(year, month, day, 0, minute, 0, 0, time.UTC)
	near := time.Date(wanted.Year(), wanted.Month(), wanted.Day(), wanted.Hour(), wanted.Minute(), 0, 0, zone)
	from, to := near.ZoneBounds()
	// What the clock shows at the moment is told by its distance from UTC: before,
	// in, and after the stretch that near is in.
	offsets := []int{offset(near)}
	if !from.IsZero() {
		offsets = append(offsets, offset(from.Add(-1)))
	}
	if !to.IsZero() {
		offsets = append(offsets, offset(to))
	}
	var first time.Time
	for _, o := range offsets {
		t := wanted.Add(-time.Duration(o) * time.Second).In(zone)
		if offset(t) == o && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !first.IsZero() {
		return first
	}
	// A gap: near is beside it, and the gap is a moment.
	if shown(near).After(wanted) {
		return from
	}
	return to
}

func offset(t time.Time) int {
	_, seconds := t.Zone()
	return seconds
}

// shown is what the clock shows, as a time of UTC.
func shown(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// Following returns when the clock of a zone shows a time of day next, after now.
func Following(now time.Time, minute int, zone *time.Location) time.Time {
	y, m, d := now.In(zone).Date()
	for ; ; d++ {
		if t := At(y, m, d, minute, zone); t.After(now) {
			return t
		}
	}
}

// Clock reads a time of day, as in 22:00 or 6:30, as minutes from midnight.
func Clock(text string) (minute int, err error) {
	h, rest, ok := digits(text, 2)
	if ok && len(rest) == 3 && rest[0] == ':' {
		if m, end, two := digits(rest[1:], 2); two && end == "" && h < 24 && m < 60 {
			return h*60 + m, nil
		}
	}
	return 0, fmt.Errorf("%q is no time of day", text)
}

// digits reads up to n digits, one at least.
func digits(text string, n int) (value int, rest string, ok bool) {
	for i := 0; i < n && len(text) > 0 && text[0] >= '0' && text[0] <= '9'; i++ {
		value, text, ok = value*10+int(text[0]-'0'), text[1:], true
	}
	return value, text, ok
}
