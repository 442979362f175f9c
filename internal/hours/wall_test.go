package hours

import (
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// The nights of 2026 in which clocks change; those of Lord Howe by half an hour.
func TestAt_WhereClocksChange(t *testing.T) {
	for _, c := range []struct {
		zone       string
		month, day int
		clock      string
		want       string // RFC 3339
	}{
		{"Europe/Berlin", 3, 29, "01:59", "2026-03-29T01:59:00+01:00"},
		{"Europe/Berlin", 3, 29, "02:00", "2026-03-29T03:00:00+02:00"}, // the day has no 2 to 3
		{"Europe/Berlin", 3, 29, "02:30", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", 3, 29, "03:00", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", 3, 29, "22:00", "2026-03-29T22:00:00+02:00"},
		{"Europe/Berlin", 10, 25, "02:00", "2026-10-25T02:00:00+02:00"}, // twice
		{"Europe/Berlin", 10, 25, "02:30", "2026-10-25T02:30:00+02:00"},
		{"Europe/Berlin", 10, 25, "03:00", "2026-10-25T03:00:00+01:00"},
		{"America/New_York", 3, 8, "02:15", "2026-03-08T03:00:00-04:00"},
		{"America/New_York", 3, 8, "03:00", "2026-03-08T03:00:00-04:00"},
		{"America/New_York", 11, 1, "01:30", "2026-11-01T01:30:00-04:00"},
		{"America/New_York", 11, 1, "02:00", "2026-11-01T02:00:00-05:00"},
		{"Australia/Lord_Howe", 10, 4, "02:00", "2026-10-04T02:30:00+11:00"}, // no 2:00 to 2:30
		{"Australia/Lord_Howe", 10, 4, "02:29", "2026-10-04T02:30:00+11:00"},
		{"Australia/Lord_Howe", 10, 4, "02:30", "2026-10-04T02:30:00+11:00"},
		{"Australia/Lord_Howe", 4, 5, "01:29", "2026-04-05T01:29:00+11:00"},
		{"Australia/Lord_Howe", 4, 5, "01:45", "2026-04-05T01:45:00+11:00"}, // twice
		{"Australia/Lord_Howe", 4, 5, "02:00", "2026-04-05T02:00:00+10:30"},
		{"UTC", 3, 29, "02:30", "2026-03-29T02:30:00Z"},
	} {
		minute, err := Clock(c.clock)
		if err != nil {
			t.Fatal(err)
		}
		got := At(2026, time.Month(c.month), c.day, minute, zone(t, c.zone)).Format(time.RFC3339)
		if got != c.want {
			t.Errorf("%s on %02d-%02d in %s is %s, want %s", c.clock, c.month, c.day, c.zone, got, c.want)
		}
	}
}

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca"}

// TestAt_IsTheFirst: no earlier moment of the day shows the time, and it shows it,
// or it is the first after a gap that holds it.
func TestAt_IsTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		day, minute := rapid.IntRange(0, 3*366).Draw(t, "day"), rapid.IntRange(0, dayMinutes-1).Draw(t, "minute")
		wanted := time.Date(2025, 1, 1+day, 0, minute, 0, 0, time.UTC)
		got := At(2025, 1, 1+day, minute, z)
		first := time.Time{} // that shows the time or a later one
		for at := wanted.Add(-15 * time.Hour); first.IsZero(); at = at.Add(time.Minute) {
			if !shown(at.In(z)).Before(wanted) {
				first = at
			}
		}
		if !got.Equal(first) {
			t.Fatalf("%v in %v is %v, want %v", wanted, z, got, first.In(z))
		}
	})
}

func TestFollowing(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	for now, want := range map[string]string{
		"2026-03-28T01:00:00+01:00": "2026-03-28T02:30:00+01:00",
		"2026-03-28T02:30:00+01:00": "2026-03-29T03:00:00+02:00", // the day after has no half past two
		"2026-03-29T03:00:00+02:00": "2026-03-30T02:30:00+02:00",
		"2026-10-25T02:29:00+02:00": "2026-10-25T02:30:00+02:00",
		"2026-10-25T02:30:00+02:00": "2026-10-26T02:30:00+01:00", // not the second one
		"2026-12-31T23:00:00+01:00": "2027-01-01T02:30:00+01:00",
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := Following(at, 2*60+30, berlin).Format(time.RFC3339); got != want {
			t.Errorf("02:30 after %s is %s, want %s", now, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	for text, want := range map[string]int{"00:00": 0, "6:30": 390, "06:30": 390, "23:59": 1439} {
		if got, err := Clock(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "24:00", "12:60", "12", "12:3", "12:030", "1:2:3", "-1:00", "+1:00", "123:00", " 12:00", "12:00 ", "٣:00"} {
		if got, err := Clock(text); err == nil {
			t.Errorf("%q was taken for minute %d", text, got)
		}
	}
}
