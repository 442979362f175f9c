package main

import (
	"time"

	"nightshift/internal/cli"
	"nightshift/internal/hours"
)

// Help of the flags that name a time.
const (
	atHelp       = "when its first line may begin: a `TIME` of day (22:00, the next one in the configured time zone) or RFC 3339; default: at once"
	inHelp       = "--at, as a `SPAN` from now (2h)"
	deadlineHelp = "when it must be done: a `TIME` of day (06:30, the next one in the configured time zone, after --at where that is given), RFC 3339, or a span from submission on (8h); default: the queue's deadline, from submission or --at on"
)

// longestIn bounds --in: what is later is rather a mistake.
const longestIn = 366 * 24 * time.Hour

// startAt reads --at and --in; zero: neither is given.
func startAt(at, in string, now time.Time, zone *time.Location) (time.Time, error) {
	switch {
	case at != "" && in != "":
		return time.Time{}, cli.Usage("leave one of them out", "--at and --in name the same time")
	case in != "":
		d, err := time.ParseDuration(in)
		if err != nil || d <= 0 || d > longestIn {
			return time.Time{}, cli.Usage("write it as in 90m or 2h; --at names a time", "--in: %q is no span up to a year", in)
		}
		return now.Add(d), nil
	case at == "":
		return time.Time{}, nil
	}
	t, err := timeOf(at, now, zone)
	switch {
	case err != nil:
		return t, cli.Usage("write it as in 22:00 or 2026-12-01T22:00:00+01:00; --in takes a span", "--at: %q is no time", at)
	case !t.After(now):
		return t, cli.Usage("leave it out to begin at once", "--at: %s has passed", at)
	}
	return t, nil
}

// deadlineAt reads --deadline of a batch that begins at start; zero: now.
func deadlineAt(text string, now, start time.Time, zone *time.Location) (time.Time, error) {
	at, err := timeOf(text, later(now, start), zone)
	if d, e := time.ParseDuration(text); e == nil {
		at, err = now.Add(d), nil
	}
	switch {
	case err != nil:
		return at, cli.Usage("write it as in 06:30, 8h, or 2026-12-01T06:30:00+01:00", "--deadline: %q is no time", text)
	case !at.After(now):
		return at, cli.Usage("name a time that is still to come", "--deadline: %s has passed", text)
	}
	return at, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// timeOf reads RFC 3339 or a time of day: the next one after a time.
func timeOf(text string, after time.Time, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	minute, err := hours.Clock(text)
	if err != nil {
		return time.Time{}, err
	}
	return hours.Following(after, minute, zone), nil
}
