package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"nightshift/internal/cli"
	"nightshift/provider"
)

// deadlineHelp is the help of --deadline.
const deadlineHelp = "when it must be done: a `TIME` of day (06:30, the next one in the configured time zone), RFC 3339, or a span from submission on (8h); default: the queue's deadline"

// deadlineAt reads --deadline.
func deadlineAt(text string, now time.Time, zone *time.Location) (time.Time, error) {
	at, err := timeOf(text, now, zone)
	switch {
	case err != nil:
		return at, err
	case !at.After(now):
		return at, cli.Usage("name a time that is still to come", "--deadline: %s has passed", text)
	}
	return at, nil
}

func timeOf(text string, now time.Time, zone *time.Location) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	clock, err := time.Parse("15:04", text)
	if err != nil {
		return clock, cli.Usage("write it as in 06:30, 8h, or 2026-12-01T06:30:00+01:00", "--deadline: %q is no time", text)
	}
	today := now.In(zone)
	at := func(day int) time.Time {
		return time.Date(today.Year(), today.Month(), day, clock.Hour(), clock.Minute(), 0, 0, zone)
	}
	if t := at(today.Day()); t.After(now) {
		return t, nil
	}
	return at(today.Day() + 1), nil
}

// maxBudget is the largest --budget: what the guard can count.
const maxBudget = 1_000_000

// budgetOf reads --budget; "" is none.
func budgetOf(text string) (provider.USD, error) {
	if text == "" {
		return 0, nil
	}
	usd, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil || math.IsNaN(usd) || provider.Dollars(min(usd, maxBudget)) <= 0 || usd > maxBudget {
		return 0, cli.Usage(fmt.Sprintf("write it as in 12.50; it may be up to %d", maxBudget), "--budget: %q is no sum of USD", text)
	}
	return provider.Dollars(usd), nil
}
