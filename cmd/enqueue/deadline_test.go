package main

import (
	"testing"
	"time"
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
		if got, err := deadlineAt(text, now, berlin); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	if got, _ := deadlineAt("06:30", now, berlin); got.Sub(now) != 6*time.Hour+30*time.Minute {
		t.Errorf("06:30 is %v away, in a night that is an hour short", got.Sub(now))
	}
	for _, text := range []string{"", "soon", "24:00", "-1h", "0s", "2026-03-28T00:00:00Z", "2026-03-29", "06:30:00"} {
		if got, err := deadlineAt(text, now, berlin); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
}
