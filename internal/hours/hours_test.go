package hours

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, text string, z *time.Location) Hours {
	t.Helper()
	h, err := Parse(text, z)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHours_States: at each time, open or when next, and until when.
func TestHours_States(t *testing.T) {
	for _, c := range []struct{ text, zone, now, next, closes string }{
		{"", "UTC", "2026-11-30T12:00:00Z", "", ""},
		{"22:00-07:00", "UTC", "2026-11-30T12:00:00Z", "2026-11-30T22:00:00Z", ""},
		{"22:00-07:00", "UTC", "2026-11-30T22:00:00Z", "", "2026-12-01T07:00:00Z"},
		{"22:00-07:00", "UTC", "2026-11-30T06:59:59Z", "", "2026-11-30T07:00:00Z"},
		{"22:00-07:00", "UTC", "2026-11-30T07:00:00Z", "2026-11-30T22:00:00Z", ""},
		{"09:00-12:00, 13:00-17:00", "UTC", "2026-11-30T12:30:00Z", "2026-11-30T13:00:00Z", ""},
		{"09:00-12:00, 12:00-17:00", "UTC", "2026-11-30T10:00:00Z", "", "2026-11-30T17:00:00Z"},
		// A Friday night's times end on Saturday; Monday's begin on Monday.
		{"mon-fri 22:00-07:00", "UTC", "2026-12-05T03:00:00Z", "", "2026-12-05T07:00:00Z"},
		{"mon-fri 22:00-07:00", "UTC", "2026-12-05T08:00:00Z", "2026-12-07T22:00:00Z", ""},
		{"mon-fri 22:00-07:00", "UTC", "2026-11-30T03:00:00Z", "2026-11-30T22:00:00Z", ""},
		{"mon-fri 22:00-07:00, sat-sun", "UTC", "2026-12-05T03:00:00Z", "", "2026-12-07T00:00:00Z"},
		{"fri-mon", "UTC", "2026-12-01T00:00:00Z", "2026-12-04T00:00:00Z", ""},
		{"00:00-24:00", "UTC", "2026-12-01T00:00:00Z", "", ""},
		{"mon-sun", "UTC", "2026-12-01T00:00:00Z", "", ""},
		{"wed 10:00-11:00", "UTC", "2026-12-02T11:00:00Z", "2026-12-09T10:00:00Z", ""},
		// The clock goes from 2:00 to 3:00: a night is an hour short, what lies in
		// the gap does not open, and what begins in it begins at 3:00.
		{"22:00-07:00", "Europe/Berlin", "2026-03-28T23:00:00+01:00", "", "2026-03-29T07:00:00+02:00"},
		{"02:00-03:00", "Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-03-30T02:00:00+02:00", ""},
		{"sun 02:15-02:45", "Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-04-05T02:15:00+02:00", ""},
		{"02:30-05:00", "Europe/Berlin", "2026-03-29T01:59:59+01:00", "2026-03-29T03:00:00+02:00", ""},
		// 2:00 to 3:00 comes twice: it opens at the first 2:00, and the end is the only 3:00.
		{"02:00-03:00", "Europe/Berlin", "2026-10-25T02:30:00+01:00", "", "2026-10-25T03:00:00+01:00"},
		{"22:00-02:30", "Europe/Berlin", "2026-10-25T02:10:00+01:00", "2026-10-25T22:00:00+01:00", ""},
		{"01:45-06:00", "Australia/Lord_Howe", "2026-04-05T01:50:00+10:30", "", "2026-04-05T06:00:00+10:30"},
	} {
		h := mustParse(t, c.text, zone(t, c.zone))
		now, _ := time.Parse(time.RFC3339, c.now)
		next, closes := "", ""
		if !h.Open(now) {
			next = h.Next(now).In(zone(t, c.zone)).Format(time.RFC3339)
		}
		if t := h.Closes(now); !t.IsZero() {
			closes = t.Format(time.RFC3339)
		}
		if next != c.next || closes != c.closes {
			t.Errorf("%q in %s at %s: opens %q, closes %q; want %q and %q", c.text, c.zone, c.now, next, closes, c.next, c.closes)
		}
	}
}

func TestHours_After(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	now := time.Date(2026, 3, 28, 12, 0, 0, 0, berlin)
	for _, c := range []struct {
		text string
		work time.Duration
		want time.Time
	}{
		{"", 5 * time.Hour, now.Add(5 * time.Hour)},
		{"22:00-06:00", 0, time.Date(2026, 3, 28, 22, 0, 0, 0, berlin)},
		{"22:00-06:00", 7 * time.Hour, time.Date(2026, 3, 29, 6, 0, 0, 0, berlin)}, // a night that is an hour short
		{"22:00-06:00", 8 * time.Hour, time.Date(2026, 3, 29, 23, 0, 0, 0, berlin)},
		{"10:00-13:00", 4 * time.Hour, time.Date(2026, 3, 29, 13, 0, 0, 0, berlin)},
	} {
		if got := mustParse(t, c.text, berlin).After(now, c.work); !got.Equal(c.want) {
			t.Errorf("%v in %q: %v, want %v", c.work, c.text, got, c.want)
		}
	}
}

func drawHours(t *rapid.T) Hours {
	z, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	clock := rapid.Custom(func(t *rapid.T) string {
		m := rapid.IntRange(0, dayMinutes/5-1).Draw(t, "minute") * 5
		return time.Date(2000, 1, 1, 0, m, 0, 0, time.UTC).Format("15:04")
	})
	part := rapid.Custom(func(t *rapid.T) string {
		day := rapid.SampledFrom(weekdays)
		days := rapid.SampledFrom([]string{"", day.Draw(t, "day"), day.Draw(t, "from") + "-" + day.Draw(t, "to")}).Draw(t, "days")
		from, to := clock.Draw(t, "opens"), clock.Draw(t, "closes")
		if from == to {
			to = "24:00"
		}
		return strings.TrimSpace(days + " " + from + "-" + to)
	})
	h, err := Parse(strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), ","), z)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHours_Properties: Open, Next, Closes, After and String agree with each other.
func TestHours_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHours(t)
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		now := start.Add(time.Duration(rapid.IntRange(0, 366*24*60).Draw(t, "now")) * time.Minute)
		next := h.Next(now)
		if h.Open(now) != next.Equal(now) || !h.Open(next) {
			t.Fatalf("%q at %v: open %v, next %v", h, now, h.Open(now), next)
		}
		if next.After(now) {
			between := now.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(now))-1).Draw(t, "between")))
			if h.Open(between) || h.Open(next.Add(-1)) || !h.Closes(now).IsZero() {
				t.Fatalf("%q is open before %v, at %v", h, next, between)
			}
		}
		if closes := h.Closes(next); !closes.IsZero() {
			between := next.Add(time.Duration(rapid.Int64Range(0, int64(closes.Sub(next))-1).Draw(t, "until")))
			if !h.Open(between) || h.Open(closes) {
				t.Fatalf("%q: %v is not the end of what is open at %v", h, closes, next)
			}
			after, left := h.After(now, closes.Sub(next)+time.Minute), h.Next(closes).Add(time.Minute)
			if !after.Equal(left) {
				t.Fatalf("%q: a minute more than until %v ends %v, want %v", h, closes, after, left)
			}
		}
		work := time.Duration(rapid.IntRange(1, 100*60).Draw(t, "work")) * time.Minute
		if got := h.Within(now, h.After(now, work)); got != work {
			t.Fatalf("%q: of %v, %v are open", h, work, got)
		}
		again, err := Parse(h.String(), h.zone)
		if err != nil || again.String() != h.String() || again.Open(now) != h.Open(now) {
			t.Fatalf("%q reads as %q: %v", h, again, err)
		}
	})
}

func TestParse_Errors(t *testing.T) {
	for text, want := range map[string]string{
		"22:00":                       `"22:00" has no end`,
		"22:00-":                      `"" is no time of day`,
		"22:00-25:00":                 `"25:00" is no time of day`,
		"24:00-07:00":                 `"24:00" is no time of day`,
		"22:00-22:00":                 `"22:00-22:00" is no time at all, or the whole day: 00:00-24:00 is the day`,
		"22:00-07:00,":                `a part is empty`,
		"22:00-07:00, tuesday":        `"tuesday" is no day: they are sun, mon, tue, wed, thu, fri, sat`,
		"Mon 22:00-07:00":             `"Mon" is no day: they are sun, mon, tue, wed, thu, fri, sat`,
		"mon-":                        `"mon-" is no day: they are sun, mon, tue, wed, thu, fri, sat`,
		"mon 22:00-07:00 23:00-23:30": `"mon 22:00-07:00 23:00-23:30" are not days and times`,
		"22:00-07:00 mon":             `"22:00-07:00 mon" are not days and times`,
		"mon tue":                     `"mon tue" are not days and times`,
		"22:00 - 07:00":               `"22:00 - 07:00" are not days and times`,
		"09:00-10:00, 12:00-13:00x":   `"13:00x" is no time of day`,
	} {
		if _, err := Parse(text, time.UTC); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := Parse(strings.Repeat("mon,", maxSpans)+"mon", time.UTC); err == nil {
		t.Error("any number of parts was taken")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "22:00-07:00", "mon-fri 22:00-07:00, sat-sun", "sun", "00:00-24:00", ",", "mon-", "1:00-0:59"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Parse(text, time.UTC)
		switch {
		case err != nil:
			if err.Error() == "" {
				t.Fatalf("%q is refused without a word", text)
			}
		case !h.Open(h.Next(now)):
			t.Fatalf("%q is not open when it opens, at %v", text, h.Next(now))
		default:
			if again, err := Parse(h.String(), time.UTC); err != nil || again.String() != h.String() {
				t.Fatalf("%q reads as %q: %v", h, again, err)
			}
		}
	})
}
