package provider

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// bucketOf is a bucket that headers told of.
func bucketOf(limit, remaining int64, reset time.Duration) Bucket {
	return Bucket{Limit: limit, Remaining: remaining, Reset: reset, Known: true}
}

// toldCase is what a response told, and what that says of limits.
type toldCase struct {
	name string
	h    fields
	want RateLimit
}

// ofOpenAI are the fields of OpenAI; each text is a limit, what remains and a reset.
func ofOpenAI(requests, tokens string) fields {
	all := fields{}
	for of, text := range map[string]string{"requests": requests, "tokens": tokens} {
		for i, value := range strings.Fields(text) {
			all["x-ratelimit-"+[]string{"limit", "remaining", "reset"}[i]+"-"+of] = value
		}
	}
	return all
}

func parseRateLimits(t *testing.T, tests []toldCase) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ParseRateLimit(tt.h.header(), noon); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestParseRateLimitOfOpenAI(t *testing.T) {
	parseRateLimits(t, []toldCase{
		{"nothing", fields{"Retry-After": "3"}, RateLimit{}},
		{
			"OpenAI",
			ofOpenAI("500 499 120ms", "200000 199000 300ms"),
			RateLimit{bucketOf(500, 499, 120*time.Millisecond), bucketOf(200000, 199000, 300*time.Millisecond)},
		},
		{
			"OpenAI, used up: the next slot is a 500th of the minute away, and a twentieth of the tokens",
			ofOpenAI("500 0 1m0s", "200000 0 1m0s"),
			RateLimit{bucketOf(500, 0, 120*time.Millisecond), bucketOf(200000, 0, 3*time.Second)},
		},
		{
			"OpenAI with a small burst",
			ofOpenAI("600 0 1s", ""),
			RateLimit{Requests: bucketOf(600, 0, 100*time.Millisecond)},
		},
		{
			"Groq: the requests are a day's",
			ofOpenAI("14400 0 24h0m0s", "18000 17997 7.66ms"),
			RateLimit{bucketOf(14400, 0, 6*time.Second), bucketOf(18000, 17997, 7660*time.Microsecond)},
		},
		{
			"Azure tells what remains alone",
			fields{"x-ratelimit-remaining-requests": "9", "x-ratelimit-remaining-tokens": "9000"},
			RateLimit{bucketOf(0, 9, 0), bucketOf(0, 9000, 0)},
		},
	})
}

func TestParseRateLimitOfOthersWithTheNamesOfOpenAI(t *testing.T) {
	parseRateLimits(t, []toldCase{
		{
			"Mistral: a minute's and a month's",
			fields{
				"x-ratelimit-limit-req-minute": "60", "x-ratelimit-remaining-req-minute": "59",
				"x-ratelimit-limit-tokens-minute": "500000", "x-ratelimit-remaining-tokens-minute": "499000",
				"x-ratelimit-limit-tokens-month": "1000000000", "x-ratelimit-remaining-tokens-month": "999999000",
			},
			RateLimit{bucketOf(60, 59, 0), bucketOf(500000, 499000, 0)},
		},
		{
			"Cerebras: a day's requests are used up",
			fields{
				"x-ratelimit-limit-requests-day": "14400", "x-ratelimit-remaining-requests-day": "0", "x-ratelimit-reset-requests-day": "33011.4",
				"x-ratelimit-limit-tokens-minute": "60000", "x-ratelimit-remaining-tokens-minute": "59000", "x-ratelimit-reset-tokens-minute": "11.4",
			},
			RateLimit{bucketOf(0, 0, 6*time.Second), bucketOf(60000, 59000, 11400*time.Millisecond)},
		},
		{
			"a limit alone has all of it left",
			fields{"x-ratelimit-limit-requests": "60"},
			RateLimit{Requests: bucketOf(60, 60, 0)},
		},
		{"a reset alone says nothing", fields{"x-ratelimit-reset-requests": "60s"}, RateLimit{}},
		{
			"a limit a second",
			fields{"x-ratelimit-limit-requests-second": "5", "x-ratelimit-remaining-requests-second": "4"},
			RateLimit{Requests: bucketOf(300, 4, 0)},
		},
	})
}

func TestParseRateLimitOfAnthropic(t *testing.T) {
	parseRateLimits(t, []toldCase{
		{
			"Anthropic",
			fields{
				"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "49",
				"anthropic-ratelimit-requests-reset":     "2026-03-01T12:00:02Z",
				"anthropic-ratelimit-input-tokens-limit": "30000", "anthropic-ratelimit-input-tokens-remaining": "29000",
				"anthropic-ratelimit-input-tokens-reset":  "2026-03-01T12:00:02Z",
				"anthropic-ratelimit-output-tokens-limit": "8000", "anthropic-ratelimit-output-tokens-remaining": "8000",
				"anthropic-ratelimit-output-tokens-reset": "2026-03-01T12:00:00Z",
				"anthropic-ratelimit-tokens-limit":        "38000", "anthropic-ratelimit-tokens-remaining": "37000",
				"anthropic-ratelimit-tokens-reset": "2026-03-01T12:00:02Z",
			},
			RateLimit{bucketOf(50, 49, 2*time.Second), bucketOf(38000, 37000, 2*time.Second)},
		},
		{
			"Anthropic, its output used up",
			fields{
				"anthropic-ratelimit-output-tokens-limit": "8000", "anthropic-ratelimit-output-tokens-remaining": "0",
				"anthropic-ratelimit-output-tokens-reset": "2026-03-01T12:01:00Z",
				"anthropic-ratelimit-tokens-limit":        "38000", "anthropic-ratelimit-tokens-remaining": "30000",
				"anthropic-ratelimit-tokens-reset": "2026-03-01T12:00:12Z",
			},
			RateLimit{Tokens: bucketOf(38000, 0, 3*time.Second)},
		},
	})
}

func TestParseRateLimitOfTheDraftsOfAStandard(t *testing.T) {
	parseRateLimits(t, []toldCase{
		{
			"the first drafts, of an unknown window",
			fields{"ratelimit-limit": "10", "ratelimit-remaining": "0", "ratelimit-reset": "7"},
			RateLimit{Requests: bucketOf(0, 0, 7*time.Second)},
		},
		{
			"with the window in the limit",
			fields{"ratelimit-limit": "10, 10;w=1, 1000;w=3600", "ratelimit-remaining": "9", "ratelimit-reset": "1"},
			RateLimit{Requests: bucketOf(600, 9, time.Second)},
		},
		{
			"one field",
			fields{"ratelimit": "limit=100, remaining=0, reset=5", "ratelimit-policy": "100;w=60"},
			RateLimit{Requests: bucketOf(100, 0, 5*time.Second)},
		},
		{
			"structured fields",
			fields{"ratelimit": `"default";r=50;t=30`, "ratelimit-policy": `"default";q=100;w=60, "day";q=9000;w=86400`},
			RateLimit{Requests: bucketOf(100, 50, 30*time.Second)},
		},
		{
			"a policy for bytes",
			fields{"ratelimit-policy": `"size";q=100;w=60;qu="content-bytes"`},
			RateLimit{},
		},
		{
			"a gateway's plain names",
			fields{"x-ratelimit-limit": "20", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1772366415000"},
			RateLimit{Requests: bucketOf(0, 0, 15*time.Second)},
		},
	})
}

func TestParseRateLimitIgnoresNonsense(t *testing.T) {
	parseRateLimits(t, []toldCase{
		{"-1 for no limit", ofOpenAI("-1 -1 -1", ""), RateLimit{}},
		{"0 for no limit", ofOpenAI("0 0 60s", ""), RateLimit{}},
		{"negative and unlimited", fields{"x-ratelimit-remaining-requests": "-5"}, RateLimit{}},
		{"overdrawn", fields{"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "-5", "x-ratelimit-reset-requests": "2s"}, RateLimit{Requests: bucketOf(60, 0, time.Second)}},
		{"NaN", fields{"x-ratelimit-limit-requests": "NaN", "x-ratelimit-remaining-requests": "NaN"}, RateLimit{}},
		{"empty", fields{"x-ratelimit-limit-requests": "", "x-ratelimit-remaining-requests": "", "ratelimit": ""}, RateLimit{}},
		{"words", fields{"x-ratelimit-limit-tokens": "unlimited", "x-ratelimit-remaining-tokens": "many"}, RateLimit{}},
		{"huge", fields{"x-ratelimit-limit-tokens": "99999999999999999999", "x-ratelimit-remaining-tokens": "1e999"}, RateLimit{Tokens: bucketOf(0, maxTold, 0)}},
		{"a tiny limit does not stop", fields{"x-ratelimit-limit-tokens": "1e-300"}, RateLimit{Tokens: bucketOf(1, 1, 0)}},
		{"more left than the limit", fields{"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "600"}, RateLimit{Requests: bucketOf(60, 60, 0)}},
		{"a reset of days", fields{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "864000"}, RateLimit{Requests: bucketOf(0, 0, maxReset)}},
		{"a reset in the past", fields{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1000000000"}, RateLimit{Requests: bucketOf(0, 0, 0)}},
	})
}

func TestParseRateLimitTakesTheTighterOfSeveralValues(t *testing.T) {
	h := http.Header{
		"X-Ratelimit-Limit-Requests":     {"600", "nonsense", "60"},
		"X-Ratelimit-Remaining-Requests": {"500", "3", "-"},
		"X-Ratelimit-Reset-Requests":     {"1s", "9s", ""},
	}
	if got, want := ParseRateLimit(h, noon).Requests, bucketOf(60, 3, 9*time.Second); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRateLimitOfAnAnswerThatBreaksOff(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Ratelimit-Limit-Requests", "60")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, okBody)
	})
	if e := refusal(t, a, t.Context(), request()); e.Kind != Unavailable || e.RateLimit.Requests != bucketOf(60, 60, 0) {
		t.Errorf("%+v, want what the headers told", e)
	}
}

func FuzzParseRateLimit(f *testing.F) {
	for _, s := range []string{
		"1", "-1", "0", "NaN", "1e308", "1e-308", "6m0s", "2026-03-01T12:01:00Z", `"a";r=1;t=2`, "limit=1, remaining=0, reset=1e9",
		"10;w=1, 10;w=0", "9223372036854775807", ";;;===,,,",
	} {
		f.Add("x-ratelimit-limit-requests", s, "x-ratelimit-remaining-requests", s, "x-ratelimit-reset-requests", s)
		f.Add("anthropic-ratelimit-tokens-limit", s, "anthropic-ratelimit-output-tokens-remaining", s, "anthropic-ratelimit-output-tokens-reset", s)
		f.Add("ratelimit", s, "ratelimit-policy", s, "x-ratelimit-reset-tokens-day", s)
	}
	f.Fuzz(func(t *testing.T, a, av, b, bv, c, cv string) {
		h := http.Header{}
		h.Add(a, av)
		h.Add(b, bv)
		h.Add(c, cv)
		got := ParseRateLimit(h, noon)
		for _, bucket := range []Bucket{got.Requests, got.Tokens} {
			if !bucket.Known && bucket != (Bucket{}) {
				t.Fatalf("something of a bucket that is not known: %+v of %q", bucket, h)
			}
			if bucket.Limit < 0 || bucket.Limit > maxTold || bucket.Remaining < 0 || bucket.Remaining > maxTold || bucket.Reset < 0 || bucket.Reset > maxReset {
				t.Fatalf("out of bounds: %+v of %q", bucket, h)
			}
		}
		if again := ParseRateLimit(h, noon); again != got {
			t.Fatalf("%+v, then %+v of %q", got, again, h)
		}
	})
}
