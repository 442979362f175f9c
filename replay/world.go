package replay

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"nightshift/provider"
)

// world says how providers answer: what a call that the simulation makes comes to.
type world interface {
	// outcome of a call to a model at a time. It must depend on what it is given
	// alone, but for limits of rate, which count the calls.
	outcome(model string, at time.Time, d draw, c callSize) outcome
}

// callSize is what is known of a request: tokens in, and of its answer.
type callSize struct{ input, output int64 }

// outcome is what becomes of a call.
type outcome struct {
	kind       provider.Kind
	latency    time.Duration // ends the call, unless a limit of the caller does first
	firstToken time.Duration // of an answer; 0: with the whole of it
	hangs      bool          // silent until the caller gives up
	retryAfter time.Duration
	billed     bool // a failure that costs its input
	size       callSize
	guessed    bool // nothing is known of this model at this time
}

// draw is where the chances of one call come from: the same call of the same line
// meets the same luck under every policy and configuration, which makes their
// figures comparable.
type draw struct{ state uint64 }

// newDraw mixes whatever names a call.
func newDraw(seed uint64, parts ...uint64) draw {
	d := draw{seed}
	for _, p := range parts {
		d.state = mix(d.state ^ mix(p+0x9e3779b97f4a7c15))
	}
	return d
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable
// pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// next is uniform in [0, 1).
func (d *draw) next() float64 {
	d.state += 0x9e3779b97f4a7c15
	return float64(mix(d.state)>>11) / (1 << 53)
}

// normal is a standard normal number (Box and Muller).
func (d *draw) normal() float64 {
	u, v := 1-d.next(), d.next()
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// textHash is FNV-1a, for names.
func textHash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// answerBody is the answer of every simulated call.
var answerBody = json.RawMessage(`{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)

// caller is the ladder.Caller of one model.
type caller struct {
	m    *machine
	key  string
	hash uint64
	seen uint64 // probes
}

// Call waits in the fiber for as long as the call takes.
func (c *caller) Call(_ context.Context, r provider.Request) (provider.Answer, error) {
	m, f := c.m, c.m.running
	size, d := callSize{9, 1}, draw{}
	if f.line != nil {
		size = f.line.size()
		d = newDraw(m.seed, uint64(f.line.batch.index), uint64(f.line.number), uint64(f.line.calls), c.hash)
		f.line.calls++
	} else {
		c.seen++
		d = newDraw(m.seed, c.hash, c.seen)
	}
	o := m.world.outcome(c.key, m.clock.now, d, size)
	if o.guessed {
		m.tally.guessed++
	}
	wait, e := c.limit(r, &o)
	m.tally.begin(f, c.key)
	if !f.sleep(wait) {
		return provider.Answer{}, context.Canceled
	}
	if e != nil {
		return provider.Answer{}, e
	}
	usage := provider.Usage{InputTokens: o.size.input, OutputTokens: o.size.output}
	return provider.Answer{StatusCode: 200, Body: answerBody, Usage: usage, FirstToken: o.firstToken}, nil
}

// limit holds an outcome to the limits of the call: how long it takes, and its
// error where it fails or would come too late.
func (c *caller) limit(r provider.Request, o *outcome) (time.Duration, *provider.Error) {
	silent := r.FirstToken
	if silent <= 0 || silent > r.Timeout {
		silent = r.Timeout
	}
	first := o.firstToken
	if first <= 0 {
		first = o.latency
	}
	switch {
	case o.hangs || first > silent:
		return silent, c.failure(provider.Timeout, o)
	case o.latency > r.Timeout:
		return r.Timeout, c.failure(provider.Timeout, o)
	case o.kind == provider.OK:
		return o.latency, nil
	}
	return o.latency, c.failure(o.kind, o)
}

// statuses are those that providers answer with, by kind.
var statuses = map[provider.Kind]int{
	provider.Unavailable: 503, provider.RateLimited: 429, provider.QuotaExhausted: 402, provider.Misconfigured: 404,
	provider.InvalidRequest: 400, provider.ContextExceeded: 400, provider.ContentFiltered: 400,
}

func (c *caller) failure(k provider.Kind, o *outcome) *provider.Error {
	e := &provider.Error{Kind: k, StatusCode: statuses[k], RetryAfter: o.retryAfter, Message: string(k)}
	if k == provider.QuotaExhausted {
		e.Scope = provider.ScopeParent
	}
	if o.billed || k == provider.InvalidOutput {
		e.Usage = provider.Usage{InputTokens: o.size.input, OutputTokens: o.size.output}
	}
	return e
}
