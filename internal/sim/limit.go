package sim

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Limit is what a model refuses with a 429: more than Burst calls at once and
// then RPM a minute, and more than InFlight calls at a time. Clients are told of
// it by Headers alone. 0: no such limit.
type Limit struct {
	RPM        int        `yaml:"rpm"`
	Burst      int        `yaml:"burst"` // defaults to 1
	InFlight   int        `yaml:"in_flight"`
	RetryAfter RetryAfter `yaml:"retry_after"` // how a refusal tells the wait; defaults to none
	Headers    Headers    `yaml:"headers"`     // how every response tells RPM and what is left; defaults to none
	Steps      []Step     `yaml:"steps"`       // sorted by From
}

// Step changes a limit from a time since the start on. What it leaves out stays.
type Step struct {
	From     time.Duration `yaml:"from"`
	RPM      int           `yaml:"rpm"`
	Burst    int           `yaml:"burst"`
	InFlight int           `yaml:"in_flight"`
}

// Headers is a form of telling a limit.
type Headers string

// The forms.
const (
	HeadersNone      Headers = "none"
	HeadersOpenAI    Headers = "openai"    // x-ratelimit-remaining-requests: 9
	HeadersAnthropic Headers = "anthropic" // anthropic-ratelimit-requests-remaining: 9
	HeadersIETF      Headers = "ietf"      // RateLimit: "default";r=9;t=1
)

func (l Limit) none() bool {
	return l.RPM == 0 && l.Burst == 0 && l.InFlight == 0 && l.RetryAfter == "" && l.Headers == "" && len(l.Steps) == 0
}

func (l Limit) validate(at string) error {
	for _, n := range append([]Step{{0, l.RPM, l.Burst, l.InFlight}}, l.Steps...) {
		if min(n.RPM, n.Burst, n.InFlight) < 0 || max(n.RPM, n.Burst, n.InFlight) > maxNumber {
			return fmt.Errorf("%s: want 0 to %d", at, maxNumber)
		}
	}
	if !slices.IsSortedFunc(l.Steps, func(a, b Step) int { return int(a.From - b.From) }) || len(l.Steps) > 0 && l.Steps[0].From < 0 {
		return fmt.Errorf("%s.steps: want from 0 on, the earlier first", at)
	}
	if !slices.Contains([]Headers{"", HeadersNone, HeadersOpenAI, HeadersAnthropic, HeadersIETF}, l.Headers) {
		return fmt.Errorf("%s.headers: %q is none of none, openai, anthropic, ietf", at, l.Headers)
	}
	return l.RetryAfter.validate(at)
}

// at returns the limit as it is so long after the start.
func (l Limit) at(elapsed time.Duration) Limit {
	for _, s := range l.Steps {
		if s.From > elapsed {
			break
		}
		for _, f := range []struct{ to, from *int }{{&l.RPM, &s.RPM}, {&l.Burst, &s.Burst}, {&l.InFlight, &s.InFlight}} {
			if *f.from != 0 {
				*f.to = *f.from
			}
		}
	}
	return l
}

func (l Limit) burst() float64 { return float64(max(l.Burst, 1)) }

// refill is the time in which one more call is allowed.
func (l Limit) refill() time.Duration { return time.Minute / time.Duration(l.RPM) }

// limited takes a call's place within the limit. It returns the refusal, if
// there is one, and how the limit stands, if that is to be told.
func (st *state) limited(l Limit, elapsed time.Duration) (*Fault, *standing) {
	var wait time.Duration
	now := l.at(elapsed)
	refused := now.InFlight > 0 && st.inFlight >= now.InFlight
	if now.RPM > 0 {
		st.bucket.fill(l, elapsed)
		if !refused {
			wait = st.bucket.take(now)
		}
	}
	var told *standing
	if now.RPM > 0 && l.Headers != "" {
		told = st.bucket.standing(now)
	}
	if refused || wait > 0 {
		return &Fault{Kind: RateLimited, RetryAfter: l.RetryAfter, RetryIn: wait}, told
	}
	return nil, told
}

// bucket is a rate limit's: the calls that it allows at a moment.
type bucket struct {
	left  float64
	at    time.Duration
	begun bool
}

// fill brings the bucket to a moment, by the limits that held until then.
func (b *bucket) fill(l Limit, now time.Duration) {
	if !b.begun {
		b.begun, b.at, b.left = true, now, l.at(now).burst()
	}
	for _, s := range append(slices.Clip(l.Steps), Step{From: now}) {
		if s.From <= b.at || s.From > now {
			continue
		}
		if before := l.at(b.at); before.RPM > 0 {
			b.left += float64(s.From-b.at) / float64(before.refill())
		}
		b.at = s.From
		b.left = min(b.left, l.at(b.at).burst())
	}
}

// take takes a call, or returns how long it is until there is one.
func (b *bucket) take(l Limit) (wait time.Duration) {
	if b.left >= 1 {
		b.left--
		return 0
	}
	return max(1, time.Duration((1-b.left)*float64(l.refill())))
}

// standing is how a limit stands.
type standing struct {
	form             Headers
	limit, remaining int
	reset            time.Duration // until all of it is left again
}

func (b *bucket) standing(l Limit) *standing {
	return &standing{
		form: l.Headers, limit: l.RPM, remaining: int(b.left),
		reset: time.Duration(math.Ceil((l.burst() - b.left) * float64(l.refill()))),
	}
}

// set tells the standing; nil: nothing is told. Every form rounds the time up.
func (t *standing) set(h http.Header, now time.Time) {
	if t == nil {
		return
	}
	limit, remaining := strconv.Itoa(t.limit), strconv.Itoa(t.remaining)
	switch t.form {
	case HeadersOpenAI:
		h.Set("X-Ratelimit-Limit-Requests", limit)
		h.Set("X-Ratelimit-Remaining-Requests", remaining)
		h.Set("X-Ratelimit-Reset-Requests", (time.Duration(ceil(t.reset, time.Millisecond)) * time.Millisecond).String())
	case HeadersAnthropic:
		h.Set("Anthropic-Ratelimit-Requests-Limit", limit)
		h.Set("Anthropic-Ratelimit-Requests-Remaining", remaining)
		h.Set("Anthropic-Ratelimit-Requests-Reset", now.Add(t.reset+time.Second-1).UTC().Format(time.RFC3339))
	case HeadersIETF:
		h.Set("Ratelimit-Policy", fmt.Sprintf(`"default";q=%s;w=60`, limit))
		h.Set("Ratelimit", fmt.Sprintf(`"default";r=%s;t=%d`, remaining, ceil(t.reset, time.Second)))
	}
}
