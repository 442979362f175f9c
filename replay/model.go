package replay

import (
	"cmp"
	"math"
	"slices"
	"time"

	"nightshift/breaker"
	"nightshift/provider"
)

// Model is what is known of how providers answer: by a description, or as a log
// tells it.
type Model struct {
	described map[string]*Behaviour
	faults    []boundFault
	logged    *history
}

// Outage is a time in which most calls to a model failed.
type Outage struct {
	Model string
	From  time.Time
	To    time.Time
}

// Outages are those that the model knows of, by time: what a breaker should find.
func (m *Model) Outages() []Outage {
	var all []Outage
	if m.logged != nil {
		all = slices.Clone(m.logged.outages)
	}
	for _, f := range m.faults {
		all = append(all, f.outages()...)
	}
	slices.SortFunc(all, func(a, b Outage) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Model, b.Model)) })
	return all
}

// world returns the providers of one simulation.
func (m *Model) world(_ uint64, perfect bool) world {
	if m.logged != nil {
		return &loggedWorld{history: m.logged, perfect: perfect, taken: map[limitKey]int{}}
	}
	return &describedWorld{Model: m, perfect: perfect, buckets: map[string]*bucket{}}
}

// Behaviour is how a described model answers.
type Behaviour struct {
	P50, P95 time.Duration // of an answer
	Output   int           // tokens of an answer, on average
	Errors   float64       // share of calls that fail in quiet times
	RPM      int           // calls a minute that the provider takes, which the configuration does not know; 0: any
}

// boundFault is a fault of one model.
type boundFault struct {
	model      string
	from, to   time.Time
	share      float64
	kind       provider.Kind
	latency    time.Duration
	retryAfter time.Duration
	billed     bool
	every, on  time.Duration // flapping: on for so long of every
}

// at says whether the fault is on.
func (f *boundFault) at(t time.Time) bool {
	if t.Before(f.from) || !t.Before(f.to) {
		return false
	}
	return f.every == 0 || t.Sub(f.from)%f.every < f.on
}

// outages are the times in which most calls fail; a brown-out is none.
func (f *boundFault) outages() (all []Outage) {
	if f.share < .5 || f.kind == provider.RateLimited {
		return nil
	}
	if f.every == 0 {
		return []Outage{{f.model, f.from, f.to}}
	}
	for t := f.from; t.Before(f.to); t = t.Add(f.every) {
		end := t.Add(f.on)
		if end.After(f.to) {
			end = f.to
		}
		all = append(all, Outage{f.model, t, end})
	}
	return all
}

// describedWorld answers by a description.
type describedWorld struct {
	*Model
	perfect bool
	buckets map[string]*bucket
}

// bucket is a provider's own limit: calls a minute, up to 10 s of them at once.
type bucket struct {
	tokens float64
	at     time.Time
}

func (b *bucket) take(rpm int, now time.Time) (ok bool, wait time.Duration) {
	most := math.Max(1, float64(rpm)/6)
	if b.at.IsZero() {
		b.tokens = most
	} else {
		b.tokens = math.Min(most, b.tokens+now.Sub(b.at).Minutes()*float64(rpm))
	}
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
		return true, 0
	}
	return false, time.Duration((1 - b.tokens) / float64(rpm) * float64(time.Minute))
}

func (w *describedWorld) outcome(model string, at time.Time, d draw, c callSize) outcome {
	b := w.described[model]
	if b == nil {
		b = &Behaviour{P50: 2 * time.Second, P95: 8 * time.Second}
	}
	o := outcome{kind: provider.OK, size: c, guessed: w.described[model] == nil}
	if o.size.output == 0 {
		o.size.output = int64(cmp.Or(b.Output, 300))
	}
	luck, z := d.next(), d.normal()
	o.latency = lognormal(b.P50, b.P95, z)
	if !w.perfect {
		if f := w.fault(model, at, luck); f != nil {
			return f.outcome(o)
		}
	}
	if b.RPM > 0 {
		bu := w.buckets[model]
		if bu == nil {
			bu = &bucket{}
			w.buckets[model] = bu
		}
		if ok, wait := bu.take(b.RPM, at); !ok {
			o.kind, o.latency, o.retryAfter, o.size = provider.RateLimited, 100*time.Millisecond, wait.Truncate(time.Second)+time.Second, callSize{}
			return o
		}
	}
	if !w.perfect && luck < b.Errors {
		o.kind, o.latency, o.size = provider.Unavailable, o.latency/4, callSize{}
	}
	return o
}

func (w *describedWorld) fault(model string, at time.Time, luck float64) *boundFault {
	for i := range w.faults {
		f := &w.faults[i]
		if f.model == model && f.at(at) && luck < f.share {
			return f
		}
	}
	return nil
}

func (f *boundFault) outcome(o outcome) outcome {
	o.kind, o.retryAfter, o.billed = f.kind, f.retryAfter, f.billed
	o.hangs = f.kind == provider.Timeout && f.latency == 0
	if o.latency = f.latency; o.latency == 0 {
		o.latency = 300 * time.Millisecond
	}
	o.size.output = 0
	if !f.billed {
		o.size = callSize{}
	}
	return o
}

// lognormal has the given median and 95th percentile (1.645 standard deviations).
func lognormal(p50, p95 time.Duration, z float64) time.Duration {
	if p95 <= p50 {
		return p50
	}
	sigma := math.Log(float64(p95)/float64(p50)) / 1.6449
	return time.Duration(float64(p50) * math.Exp(sigma*z))
}

// bind gives a fault to the models that it is about.
func bind(keys []breaker.Key, about func(breaker.Key) bool, f boundFault) (all []boundFault) {
	for _, k := range keys {
		if about(k) {
			f.model = k.Model
			all = append(all, f)
		}
	}
	return all
}
