package provider

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// RateLimit is what the headers of a response tell of the limits that it counted
// against. Zero: they told nothing.
type RateLimit struct{ Requests, Tokens Bucket }

// Bucket is one limit and how much of it is used up.
type Bucket struct {
	// Limit is how much passes in a minute; 0: it was not told.
	Limit int64
	// Remaining is how much of it is left. Where that was not told it is Limit,
	// so 0 in a bucket that is Known always means that nothing is left.
	Remaining int64
	// Reset is, where nothing remains, how long until something does; else how
	// long until the limit is whole again. 0: it was not told.
	Reset time.Duration
	// Known says that a header told of this limit at all.
	Known bool
}

const (
	// Larger numbers in headers mean that there is no limit.
	maxTold = 1_000_000_000_000
	// maxReset is the longest wait for a limit that a response told of: a longer
	// one is a quota of hours, and the refusal that comes then says so itself.
	maxReset = time.Minute
	// tokenShare is which part of a minute's tokens is waited for where none
	// remain: one token is back at once, and buys nothing.
	tokenShare = 20
)

// ParseRateLimit reads the rate limits that a response tells of. It knows the
// headers of OpenAI's family, x-ratelimit-{limit,remaining,reset}-{requests,tokens},
// also with a window behind them (-minute, -day); Anthropic's,
// anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}; and the drafts of
// the IETF: ratelimit-limit, -remaining, -reset and -policy, and RateLimit in both
// of its forms.
//
// A limit counts only where its window is known to be a minute or less: taking
// another for a minute's would slow a fleet down for nothing. Limits of longer
// windows, and of a part of the tokens alone, count while nothing is left of them.
// Of several values of one header the tighter one counts.
//
// Nonsense is ignored: what is negative, no number, or too large to be a limit.
// Resets are never longer than a minute, and dates in them are taken against the
// response's own clock, as by [ParseRetryAfter].
func ParseRateLimit(h http.Header, now time.Time) RateLimit {
	clock := responseTime(h, now)
	all := limits{}
	for name, values := range h {
		lower := strings.ToLower(name)
		for _, v := range values {
			all.read(lower, v, clock)
		}
	}
	return RateLimit{Requests: all.bucket(ofRequests), Tokens: all.bucket(ofTokens)}
}

// What a limit counts.
const (
	ofRequests = "requests"
	ofTokens   = "tokens"
)

// limitName tells the limits of one response apart.
type limitName struct {
	resource string
	rest     string // the other words of the header's name; "": none
}

// told is what headers say of one limit.
type told struct {
	limit   float64       // 0: not told
	window  time.Duration // that limit counts for; 0: not known
	refills bool          // all the time, and its reset is when it is full again

	remaining     float64 // of overdrawn ones below 0
	saysRemaining bool
	noLimit       bool // the limit itself is told to be nothing or less
	reset         time.Duration
}

type limits map[limitName]*told

func (l limits) at(n limitName) *told {
	if l[n] == nil {
		l[n] = &told{}
	}
	return l[n]
}

// read notes one header, if it is one of a rate limit.
func (l limits) read(name, value string, now time.Time) {
	words, ok := limitWords(name)
	switch {
	case !ok:
	case len(words) == 0:
		l.readDraft(value, now)
	case len(words) == 1 && words[0] == "policy":
		l.readPolicy(value)
	default:
		l.readField(words, value, now)
	}
}

// limitWords are the words behind the prefix of a header's name.
func limitWords(name string) (words []string, ok bool) {
	for _, prefix := range []string{"x-ratelimit-", "anthropic-ratelimit-", "ratelimit-"} {
		if rest, found := strings.CutPrefix(name, prefix); found {
			return strings.Split(rest, "-"), true
		}
	}
	return nil, name == "ratelimit"
}

// windows are the words for how long a limit counts.
var windows = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "month": 30 * 24 * time.Hour,
}

// resources are the words for what is counted.
var resources = map[string]string{
	"requests": ofRequests, "request": ofRequests, "req": ofRequests, "tokens": ofTokens, "token": ofTokens,
}

// readField reads a header that holds one figure of one limit.
func (l limits) readField(words []string, value string, now time.Time) {
	var figure string
	var rest []string
	n, window := limitName{}, time.Duration(0)
	for _, w := range words {
		switch {
		case w == "limit" || w == "remaining" || w == "reset":
			figure = w
		case resources[w] != "":
			n.resource = resources[w]
		case windows[w] > 0:
			window = windows[w]
		case w != "after": // x-ratelimit-reset-after
			rest = append(rest, w)
		}
	}
	refills := n.resource != ""
	switch {
	case !refills:
		n.resource = ofRequests
	case window == 0:
		window = time.Minute // OpenAI's and Anthropic's own
	}
	if window > time.Minute {
		rest = append(rest, window.String())
	}
	n.rest = strings.Join(rest, "-")
	l.set(n, figure, value, window, now)
	if t := l[n]; t != nil {
		t.refills = refills
	}
}

// set notes one figure.
func (l limits) set(n limitName, figure, value string, window time.Duration, now time.Time) {
	v, isNumber := firstNumber(value)
	switch {
	case figure == "limit" && isNumber:
		l.at(n).tighten(v, cmp.Or(windowOf(value, v), window))
	case figure == "remaining" && isNumber:
		t := l.at(n)
		if !t.saysRemaining || v < t.remaining {
			t.remaining, t.saysRemaining = v, true
		}
	case figure == "reset":
		t := l.at(n)
		t.reset = max(t.reset, parseReset(value, now))
	}
}

// tighten notes a limit; the lower rate of two counts.
func (t *told) tighten(limit float64, window time.Duration) {
	switch {
	case limit <= 0:
		t.noLimit = true
	case limit <= maxTold && (t.limit == 0 || perMinute(limit, window) < perMinute(t.limit, t.window)):
		t.limit, t.window = limit, window
	}
}

// perMinute is a limit as a minute's, infinite where its window does not tell.
func perMinute(limit float64, window time.Duration) float64 {
	if window <= 0 || window > time.Minute {
		return math.Inf(1)
	}
	return limit * float64(time.Minute) / float64(window)
}

// bucket is what is known of a resource: of its own limit, or of another one of
// it that has nothing left.
func (l limits) bucket(resource string) Bucket {
	b := l.at(limitName{resource: resource}).bucket(resource)
	for n, t := range l {
		if n.resource != resource || n.rest == "" {
			continue
		}
		other := t.bucket(resource)
		if !other.Known || other.Remaining > 0 || other.Reset == 0 {
			continue
		}
		if b.Remaining > 0 {
			b.Reset = 0
		}
		b.Known, b.Remaining, b.Reset = true, 0, max(b.Reset, other.Reset)
	}
	return b
}

// bucket is one limit. One without a limit has nothing that could remain: some
// servers tell 0 and 0, others -1 and -1.
func (t *told) bucket(resource string) Bucket {
	var b Bucket
	if rate := perMinute(t.limit, t.window); t.limit > 0 && rate <= maxTold {
		b.Limit = max(1, int64(rate))
	}
	if !t.saysRemaining || t.limit == 0 && (t.noLimit || t.remaining < 0) {
		b.Remaining, b.Known = b.Limit, b.Limit > 0
		return b
	}
	b.Known, b.Remaining, b.Reset = true, int64(max(0, min(t.remaining, maxTold))), t.reset
	if b.Limit > 0 {
		b.Remaining = min(b.Remaining, b.Limit)
	}
	if b.Remaining == 0 && t.refills && t.limit > 0 {
		b.Reset = t.nextSlot(resource)
	}
	b.Reset = min(b.Reset, maxReset)
	return b
}

// nextSlot is how long until a limit that refills all the time has something
// again. Its reset tells when it is full: to wait for that would idle for up to
// a minute after each burst.
func (t *told) nextSlot(resource string) time.Duration {
	parts := float64(tokenShare)
	if resource == ofRequests {
		parts = max(1, t.limit)
	}
	part := time.Duration(float64(max(t.reset, t.window)) / parts)
	return min(t.reset, max(part, time.Millisecond))
}

// readDraft reads RateLimit: "limit=100, remaining=50, reset=5", or
// `"default";r=50;t=30`.
func (l limits) readDraft(value string, now time.Time) {
	for _, i := range items(value) {
		if figure, v, ok := strings.Cut(i.name, "="); ok {
			l.set(limitName{resource: ofRequests}, strings.TrimSpace(figure), v, 0, now)
			continue
		}
		n := limitName{resource: ofRequests}
		if i.params["r"] != "" {
			l.set(n, "remaining", i.params["r"], 0, now)
			l.set(n, "reset", i.params["t"], 0, now)
		}
	}
}

// readPolicy reads RateLimit-Policy: `"default";q=100;w=60`, or "100;w=60".
// Policies that count anything but requests are left alone.
func (l limits) readPolicy(value string) {
	for _, i := range items(value) {
		quota := i.params["q"]
		if quota == "" {
			quota = i.name
		}
		unit, w := strings.Trim(i.params["qu"], `"`), seconds(i.params["w"])
		if v, ok := parseNumber(quota); ok && v > 0 && w > 0 && slices.Contains([]string{"", ofRequests}, unit) {
			l.at(limitName{resource: ofRequests}).tighten(v, w)
		}
	}
}

// item is a member of a structured header's list.
type item struct {
	name   string
	params map[string]string
}

func items(value string) []item {
	var all []item
	for member := range strings.SplitSeq(value, ",") {
		parts := strings.Split(member, ";")
		i := item{name: strings.TrimSpace(parts[0]), params: map[string]string{}}
		for _, p := range parts[1:] {
			key, v, _ := strings.Cut(p, "=")
			i.params[strings.TrimSpace(key)] = strings.TrimSpace(v)
		}
		all = append(all, i)
	}
	return all
}

// windowOf is the window of a limit in a list such as "100, 100;w=60, 1000;w=3600";
// 0: it has none.
func windowOf(list string, limit float64) time.Duration {
	for _, i := range items(list) {
		if w := seconds(i.params["w"]); w > 0 && i.number() == limit {
			return w
		}
	}
	return 0
}

// number is the item's name where it is one, else NaN.
func (i item) number() float64 {
	if v, ok := parseNumber(i.name); ok {
		return v
	}
	return math.NaN()
}

// firstNumber is the number that a list begins with.
func firstNumber(value string) (float64, bool) {
	first, _, _ := strings.Cut(value, ",")
	first, _, _ = strings.Cut(first, ";")
	v, ok := parseNumber(first)
	return v, ok && !math.IsNaN(v)
}

// seconds is a duration in seconds; 0 for nonsense.
func seconds(v string) time.Duration {
	n, ok := parseNumber(v)
	if !ok {
		return 0
	}
	return scaled(n, time.Second)
}
