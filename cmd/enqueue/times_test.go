package main

import (
	"testing"
	"time"

	"nightshift/batch"
)

func TestDeadlineAt(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 28, 23, 0, 0, 0, berlin) // the night in which the clock goes from 2:00 to 3:00
	tests := map[string]time.Time{
		"8h":                        now.Add(8 * time.Hour),
		"90m":                       now.Add(90 * time.Minute),
		"23:30":                     now.Add(30 * time.Minute),
		"06:30":                     time.Date(2026, 3, 29, 6, 30, 0, 0, berlin),
		"6:30":                      time.Date(2026, 3, 29, 6, 30, 0, 0, berlin),
		"23:00":                     time.Date(2026, 3, 29, 23, 0, 0, 0, berlin), // the next one
		"2026-03-29T06:30:00Z":      time.Date(2026, 3, 29, 6, 30, 0, 0, time.UTC),
		"2026-03-29T06:30:00+02:00": time.Date(2026, 3, 29, 6, 30, 0, 0, berlin),
	}
	for text, want := range tests {
		if got, err := deadlineAt(text, now, time.Time{}, berlin); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	if got, _ := deadlineAt("06:30", now, time.Time{}, berlin); got.Sub(now) != 6*time.Hour+30*time.Minute {
		t.Errorf("06:30 is %v away, in a night that is an hour short", got.Sub(now))
	}
	for _, text := range []string{"", "soon", "24:00", "-1h", "0s", "2026-03-28T00:00:00Z", "2026-03-29", "06:30:00"} {
		if got, err := deadlineAt(text, now, time.Time{}, berlin); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
}

// A deadline without a day is the next one after the start.
func TestDeadlineAt_AfterTheStart(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	start := now.Add(40 * time.Hour)
	for text, want := range map[string]time.Time{
		"06:30": time.Date(2026, 12, 2, 6, 30, 0, 0, time.UTC),
		"8h":    now.Add(8 * time.Hour),
	} {
		if got, err := deadlineAt(text, now, start, time.UTC); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

// The nights in which the clocks of each zone change.
func TestStartAt(t *testing.T) {
	for _, c := range []struct{ zone, now, at, in, want string }{
		{"Europe/Berlin", "2026-11-30T12:00:00+01:00", "22:00", "", "2026-11-30T22:00:00+01:00"},
		{"Europe/Berlin", "2026-11-30T22:00:00+01:00", "22:00", "", "2026-12-01T22:00:00+01:00"},
		{"Europe/Berlin", "2026-11-30T12:00:00+01:00", "2026-12-24T18:00:00Z", "", "2026-12-24T19:00:00+01:00"},
		{"Europe/Berlin", "2026-11-30T12:00:00+01:00", "", "90m", "2026-11-30T13:30:00+01:00"},
		{"Europe/Berlin", "2026-03-28T23:00:00+01:00", "02:30", "", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", "2026-03-28T23:00:00+01:00", "", "4h", "2026-03-29T04:00:00+02:00"},
		{"Europe/Berlin", "2026-10-24T23:00:00+02:00", "02:30", "", "2026-10-25T02:30:00+02:00"},
		{"America/New_York", "2026-03-07T23:00:00-05:00", "02:30", "", "2026-03-08T03:00:00-04:00"},
		{"America/New_York", "2026-10-31T23:00:00-04:00", "01:30", "", "2026-11-01T01:30:00-04:00"},
		{"Australia/Lord_Howe", "2026-10-03T23:00:00+10:30", "02:15", "", "2026-10-04T02:30:00+11:00"},
		{"Australia/Lord_Howe", "2026-04-04T23:00:00+11:00", "01:45", "", "2026-04-05T01:45:00+11:00"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, _ := time.Parse(time.RFC3339, c.now)
		got, err := startAt(c.at, c.in, now, zone)
		if err != nil || got.In(zone).Format(time.RFC3339) != c.want {
			t.Errorf("--at %q --in %q at %s in %s: %v, %v; want %s", c.at, c.in, c.now, c.zone, got.In(zone), err, c.want)
		}
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if at, err := startAt("", "", now, time.UTC); err != nil || !at.IsZero() {
		t.Errorf("a batch without either begins at %v, %v", at, err)
	}
	for _, bad := range []struct{ at, in string }{
		{"22:00", "2h"},
		{"2h", ""},
		{"24:00", ""},
		{"2026-11-30T11:59:59Z", ""},
		{"2026-11-30", ""},
		{"", "22:00"},
		{"", "0s"},
		{"", "-1h"},
		{"", "9000h"},
	} {
		if at, err := startAt(bad.at, bad.in, now, time.UTC); err == nil {
			t.Errorf("--at %q --in %q was taken for %v", bad.at, bad.in, at)
		}
	}
}

func TestTerms(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		terms terms
		want  time.Duration // of the deadline, from now on
	}{
		"the queue's":                  {terms{}, 24 * time.Hour},
		"the queue's, from --at on":    {terms{at: "22:00"}, 34 * time.Hour},
		"the queue's, from --in on":    {terms{in: "3h"}, 27 * time.Hour},
		"a span, from submission on":   {terms{at: "22:00", deadline: "20h"}, 20 * time.Hour},
		"a time":                       {terms{at: "22:00", deadline: "07:00"}, 19 * time.Hour},
		"a time of the day after next": {terms{in: "20h", deadline: "07:00"}, 43 * time.Hour},
	} {
		d := batch.Description{CreatedAt: now, Deadline: now.Add(24 * time.Hour)}
		if err := c.terms.check(now, time.UTC); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.terms.apply(&d, "me"); d.Deadline.Sub(now) != c.want {
			t.Errorf("%s: the deadline is %v away, want %v", name, d.Deadline.Sub(now), c.want)
		}
	}
	for name, bad := range map[string]terms{
		"deadline before the start": {at: "22:00", deadline: "8h"}, "at the start": {in: "8h", deadline: "8h"},
		"priority": {priority: 101}, "low priority": {priority: -101},
	} {
		if err := bad.check(now, time.UTC); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
