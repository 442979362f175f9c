package provider

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestParseRetryAfter(t *testing.T) {
	date := func(d time.Duration) string { return noon.Add(d).Format(http.TimeFormat) }
	tests := []struct {
		name string
		h    fields
		want time.Duration
	}{
		{"nothing", fields{}, 0},
		{"seconds", fields{"Retry-After": "30"}, 30 * time.Second},
		{"white space", fields{"Retry-After": " 30 "}, 30 * time.Second},
		{"fraction", fields{"Retry-After": "1.5"}, 1500 * time.Millisecond},
		{"a small fraction", fields{"Retry-After": "0.02"}, 20 * time.Millisecond},
		{"duration", fields{"Retry-After": "2s"}, 2 * time.Second},
		{"date", fields{"Retry-After": date(90 * time.Second)}, 90 * time.Second},
		{"RFC 3339", fields{"Retry-After": "2026-03-01T12:01:00Z"}, time.Minute},
		{"date against the response's own clock", fields{"Retry-After": date(time.Hour + time.Minute), "Date": date(time.Hour)}, time.Minute},
		{"date behind us, ahead of the response", fields{"Retry-After": date(-time.Hour), "Date": date(-time.Hour - 5*time.Second)}, 5 * time.Second},
		{"milliseconds", fields{"retry-after-ms": "1250"}, 1250 * time.Millisecond},
		{"Azure's milliseconds", fields{"x-ms-retry-after-ms": "7000"}, 7 * time.Second},
		{"the later wins", fields{"Retry-After": "2", "retry-after-ms": "5500", "x-ms-retry-after-ms": "10"}, 5500 * time.Millisecond},

		{"zero", fields{"Retry-After": "0"}, 0},
		{"negative", fields{"Retry-After": "-5"}, 0},
		{"negative duration", fields{"Retry-After": "-5s"}, 0},
		{"past date", fields{"Retry-After": date(-time.Minute)}, 0},
		{"NaN", fields{"Retry-After": "NaN"}, 0},
		{"infinite", fields{"Retry-After": "Inf"}, 0},
		{"words", fields{"Retry-After": "soon"}, 0},
		{"hexadecimal", fields{"Retry-After": "0x10"}, 0},
		{"empty", fields{"Retry-After": ""}, 0},
		{"nonsense beside sense", fields{"Retry-After": "-1", "retry-after-ms": "300"}, 300 * time.Millisecond},
		{"days", fields{"Retry-After": "864000"}, maxRetryAfter},
		{"huge", fields{"Retry-After": "99999999999999999999"}, maxRetryAfter},
		{"beyond any number", fields{"Retry-After": "1e999"}, maxRetryAfter},
		{"a far date", fields{"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, maxRetryAfter},

		{"reset as a duration", fields{"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}, 6 * time.Minute},
		{"reset in milliseconds", fields{"x-ratelimit-reset-tokens": "120ms"}, 120 * time.Millisecond},
		{"reset as RFC 3339", fields{"anthropic-ratelimit-tokens-reset": "2026-03-01T12:00:20Z", "anthropic-ratelimit-tokens-remaining": "0"}, 20 * time.Second},
		{"reset in seconds", fields{"ratelimit-reset": "45"}, 45 * time.Second},
		{"reset at a Unix time", fields{"x-ratelimit-reset": fmt.Sprint(noon.Unix() + 15)}, 15 * time.Second},
		{"reset at a Unix time in ms", fields{"x-ratelimit-reset": fmt.Sprint(noon.UnixMilli() + 1500)}, 1500 * time.Millisecond},
		{"reset in the past", fields{"x-ratelimit-reset": fmt.Sprint(noon.Unix() - 15)}, 0},
		{"reset in whole seconds beside one of -1, for no limit", fields{
			"x-ratelimit-reset-tokens": "13", "x-ratelimit-remaining-tokens": "0",
			"x-ratelimit-reset-requests": "-1", "x-ratelimit-remaining-requests": "-1", "x-ratelimit-limit-requests": "-1",
		}, 13 * time.Second},
		{"-1 alone", fields{"x-ratelimit-reset-requests": "-1", "x-ratelimit-remaining-requests": "-1"}, 0},
		{"an overdrawn bucket is empty", fields{"x-ratelimit-reset": "9", "x-ratelimit-remaining": "-1"}, 9 * time.Second},
		{"the empty bucket counts", fields{
			"x-ratelimit-reset-requests": "8s", "x-ratelimit-remaining-requests": "0",
			"x-ratelimit-reset-tokens": "5m0s", "x-ratelimit-remaining-tokens": "149000",
		}, 8 * time.Second},
		{"a bucket with something left counts for want of better", fields{"x-ratelimit-reset-tokens": "3s", "x-ratelimit-remaining-tokens": "200"}, 3 * time.Second},
		{"but not against Retry-After", fields{"Retry-After": "1", "x-ratelimit-reset-tokens": "9s", "x-ratelimit-remaining-tokens": "200"}, time.Second},
		{"an empty bucket outlasts Retry-After", fields{"Retry-After": "1", "x-ratelimit-reset-tokens": "9s", "x-ratelimit-remaining-tokens": "0"}, 9 * time.Second},
		{"Retry-After outlasts an empty bucket", fields{"Retry-After": "20", "x-ratelimit-reset-tokens": "9s", "x-ratelimit-remaining-tokens": "0"}, 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ParseRetryAfter(tt.h.header(), noon); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestParseRetryAfterReadsEveryValue(t *testing.T) {
	h := http.Header{"Retry-After": {"1", "nonsense", "4"}}
	if got := ParseRetryAfter(h, noon); got != 4*time.Second {
		t.Errorf("got %v, want the later of the two", got)
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "-1", "1.5", "NaN", "6m0s", "2026-03-01T12:01:00Z", "Fri, 31 Dec 9999 23:59:59 GMT", "1700000000000", "1e308", "9223372036854775807"} {
		f.Add(s, s, s, s)
	}
	f.Fuzz(func(t *testing.T, after, ms, reset, date string) {
		h := http.Header{}
		h.Set("Retry-After", after)
		h.Set("Retry-After-Ms", ms)
		h.Set("X-Ratelimit-Reset-Requests", reset)
		h.Set("Date", date)
		got := ParseRetryAfter(h, noon)
		if got < 0 || got > maxRetryAfter {
			t.Fatalf("%v for %q", got, h)
		}
		h.Del("Retry-After")
		if less := ParseRetryAfter(h, noon); less > got {
			t.Fatalf("%v without Retry-After, %v with it: %q", less, got, h)
		}
	})
}
