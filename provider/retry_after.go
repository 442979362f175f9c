package provider

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the longest wait that a header can ask for. Nothing that a
// batch waits for is later than the next day's quota.
const maxRetryAfter = 24 * time.Hour

// ParseRetryAfter returns how long a provider asks to be left alone in the
// headers of a refusal; 0 where it does not say, and never more than 24 hours.
// The later of several times wins, and nonsense (negative, NaN, the past) is
// ignored.
//
// It reads Retry-After (seconds, fractions, durations such as "2s", dates),
// retry-after-ms and x-ms-retry-after-ms, and the reset headers of rate limits:
// durations ("6m0s"), RFC 3339 times, seconds, and Unix times in seconds or
// milliseconds. A reset of a bucket that has something left says nothing about
// a refusal and counts only where there is no other word; so do not pass the
// headers of a response that is no rate limit.
//
// Dates are taken against the response's own Date header where there is one,
// else against now, so that a clock that is off does not matter.
func ParseRetryAfter(h http.Header, now time.Time) time.Duration {
	clock := responseTime(h, now)
	asked, reset, roomy := explicitRetryAfter(h, now), time.Duration(0), time.Duration(0)
	for name, values := range h {
		remaining, isReset := remainingHeader(strings.ToLower(name))
		if !isReset {
			continue
		}
		left, known := remainingOf(h, remaining)
		for _, v := range values {
			d := parseReset(v, clock)
			if known && left > 0 {
				roomy = max(roomy, d)
			} else {
				reset = max(reset, d)
			}
		}
	}
	if d := max(asked, reset); d > 0 {
		return d
	}
	return roomy
}

// explicitRetryAfter reads the headers that mean a wait whatever the status.
func explicitRetryAfter(h http.Header, now time.Time) time.Duration {
	clock := responseTime(h, now)
	var d time.Duration
	for _, v := range h.Values("Retry-After") {
		d = max(d, parseWait(v, time.Second, clock))
	}
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		for _, v := range h.Values(name) {
			d = max(d, parseWait(v, time.Millisecond, clock))
		}
	}
	return d
}

// responseTime is the provider's clock when it answered.
func responseTime(h http.Header, now time.Time) time.Time {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return t
	}
	return now
}

// remainingHeader returns, for the name of a reset header in lower case, the
// name of the header that says what is left.
func remainingHeader(name string) (string, bool) {
	switch {
	case strings.HasPrefix(name, "x-ratelimit-reset"), strings.HasPrefix(name, "ratelimit-reset"):
		return strings.TrimSuffix(strings.Replace(name, "reset", "remaining", 1), "-after"), true
	case strings.HasPrefix(name, "anthropic-ratelimit-") && strings.HasSuffix(name, "-reset"):
		return strings.TrimSuffix(name, "reset") + "remaining", true
	}
	return "", false
}

func remainingOf(h http.Header, name string) (float64, bool) {
	left, err := strconv.ParseFloat(strings.TrimSpace(h.Get(name)), 64)
	return left, err == nil
}

// Numbers at or above these are moments, not waits: seconds since 1970 passed
// 1e9 in 2001, and no reset is 31 years away.
const (
	unixSeconds = 1e9
	unixMillis  = 1e11
)

// parseReset reads a reset header: a wait or a moment, as a number or a text.
func parseReset(v string, now time.Time) time.Duration {
	n, ok := parseNumber(v)
	if ok && n >= unixMillis {
		return until(n/1e3, now)
	}
	if ok && n >= unixSeconds {
		return until(n, now)
	}
	return parseWait(v, time.Second, now)
}

// until is the wait to a moment in seconds since 1970.
func until(seconds float64, now time.Time) time.Duration {
	return scaled(seconds-float64(now.UnixMilli())/1e3, time.Second)
}

// parseWait reads a number of units, a duration or a date; 0 for nonsense.
func parseWait(v string, unit time.Duration, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if n, ok := parseNumber(v); ok {
		return scaled(n, unit)
	}
	if d, err := time.ParseDuration(v); err == nil {
		return clampWait(d)
	}
	if t, err := http.ParseTime(v); err == nil {
		return clampWait(t.Sub(now))
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return clampWait(t.Sub(now))
	}
	return 0
}

// parseNumber reads a plain decimal number; strconv alone also takes "inf",
// hexadecimal and underscores.
func parseNumber(v string) (float64, bool) {
	v = strings.TrimSpace(v)
	if strings.Trim(v, "0123456789.eE+-") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(v, 64)
	if math.IsInf(n, 0) {
		return n, true // out of range: still a number, and clamped
	}
	return n, err == nil
}

func scaled(n float64, unit time.Duration) time.Duration {
	if n >= float64(maxRetryAfter/unit) {
		return maxRetryAfter
	}
	if !(n > 0) {
		return 0
	}
	return time.Duration(n * float64(unit))
}

func clampWait(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }
