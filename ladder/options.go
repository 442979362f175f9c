package ladder

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
)

// defaultTries is how often a rung is called in one attempt when its
// configuration does not say (design section 7).
const defaultTries = 2

// Options is what a ladder is made of.
type Options struct {
	Ladder config.Ladder
	// Models holds at least the models that the ladder names, by their keys.
	Models map[string]config.Model
	// Providers are those of the models: their API says which endpoints they have,
	// and a cache keeps the answers of another API, or to other headers, apart.
	Providers map[string]config.Provider
	// Callers holds the adapter of each of these models, by the model's key: a
	// model may have an endpoint and an API key of its own, so the provider's
	// name would not do. Models of one endpoint can share an adapter.
	Callers map[string]Caller
	// Gate is asked before every call.
	Gate Gate
	// Share keeps a model from taking all slots of a worker; nil: it may.
	Share *limit.Share
	// Degrade has rungs that cost nothing go on while the hourly guard is open.
	Degrade bool
	// Prober sends the probes that lines may not be themselves (Request.NoProbe).
	// nil: as a last resort, such a line is the probe after all.
	Prober *Prober
	// Router knows the figures that a goal or the quality of answers go by; nil:
	// this ladder keeps its own, which nobody shares.
	Router *Router
	// Cache keeps the answers of a ladder that has a time for it; nil: none are kept.
	Cache AnswerStore
	// Sleeper waits inside an attempt. Defaults to timers.
	Sleeper Sleeper
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Rand returns a number in [0, 1) for jitter and is safe for concurrent
	// use. Defaults to math/rand/v2's Float64.
	Rand func() float64
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Observer is told of every call; nil: nobody is.
	Observer Observer
}

// Ladder runs attempts. It is safe for concurrent use.
type Ladder struct {
	name         string
	patience     time.Duration
	maxCalls     int  // 0: one full pass × (retries + 1)
	pass         int  // calls of one full pass: the sum of all tries
	nextOnFilter bool // on_filter: next
	truncates    bool // on_context: truncate
	rungs        []rung
	gate         Gate
	share        *limit.Share
	degrades     bool
	prober       *Prober
	router       *Router
	goal, own    config.Weights // zero: as written
	demotes      bool           // quality.action: demote
	maxInvalid   int            // per cent
	sleeper      Sleeper
	now          func() time.Time
	rand         func() float64
	log          *slog.Logger
	observer     Observer
	output       output
	cache        *cache // nil: it keeps no answers
}

// rung is a rung with everything that an attempt looks up.
type rung struct {
	config.Rung
	index   int
	presets []preset // of a rung without a model
	model   config.Model
	key     breaker.Key
	api     string // that its provider speaks
	lane    string // the service tier that it asks for, which is parked where it alone has no capacity
	caller  Caller
	price   *config.Price
	cost    float64      // of a typical call, see typical
	invalid *atomic.Bool // too many of its answers are; so that each change is told once
}

// name is the rung's in results: the model's key.
func (r *rung) name() string {
	if r.Model == "" {
		return TextModel
	}
	return r.key.Model
}

// New checks a ladder, compiles its texts and returns it, or all problems at once.
func New(o Options) (*Ladder, error) {
	l := &Ladder{
		name:         o.Ladder.Name,
		patience:     o.Ladder.Patience,
		maxCalls:     o.Ladder.MaxCalls,
		nextOnFilter: o.Ladder.OnFilter == "next",
		truncates:    o.Ladder.OnContext == "truncate",
		gate:         o.Gate, share: o.Share, degrades: o.Degrade, prober: o.Prober, router: o.Router, sleeper: o.Sleeper,
		own: o.Ladder.Weights, demotes: o.Ladder.Quality.Action == "demote", maxInvalid: o.Ladder.Quality.Invalid,
		now: o.Now, rand: o.Rand, log: o.Logger, observer: o.Observer,
	}
	l.setDefaults()
	if l.goal = goals[o.Ladder.Goal]; o.Ladder.Goal == config.GoalOwn {
		l.goal = l.own
	}
	var noOutput, noCache error
	l.output, noOutput = newOutput(o.Ladder.Output)
	l.cache, noCache = newCache(o, l.now, l.log)
	problems := []error{l.checkParts(), noOutput, noCache}
	for i, c := range o.Ladder.Rungs {
		r, err := newRung(i, c, o)
		if err != nil {
			problems = append(problems, fmt.Errorf("rung %d: %w", i+1, err))
			continue
		}
		l.rungs = append(l.rungs, r)
		if r.Model != "" {
			l.pass += r.Tries
		}
	}
	if len(o.Ladder.Rungs) == 0 {
		problems = append(problems, errors.New("it has no rungs"))
	}
	if l.router == nil {
		l.router = NewRouter(RouterOptions{Keys: l.keys(), Now: l.now})
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("build ladder %q: %w", o.Ladder.Name, err)
	}
	return l, nil
}

func (l *Ladder) setDefaults() {
	if l.sleeper == nil {
		l.sleeper = timers{}
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.rand == nil {
		l.rand = rand.Float64
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.observer == nil {
		l.observer = nobody{}
	}
}

// keys are the models of the ladder.
func (l *Ladder) keys() []breaker.Key {
	var keys []breaker.Key
	for i := range l.rungs {
		if r := &l.rungs[i]; r.Model != "" && !slices.Contains(keys, r.key) {
			keys = append(keys, r.key)
		}
	}
	return keys
}

func (l *Ladder) checkParts() error {
	if l.gate == nil {
		return errors.New("a gate is needed")
	}
	return nil
}

func newRung(i int, c config.Rung, o Options) (rung, error) {
	r := rung{Rung: c, index: i}
	if c.Model == "" {
		presets, err := compilePresets(i, c)
		r.presets = presets
		return r, err
	}
	m, ok := o.Models[c.Model]
	if !ok {
		return rung{}, fmt.Errorf("model %q is not configured", c.Model)
	}
	r.caller = o.Callers[c.Model]
	if r.caller == nil {
		return rung{}, fmt.Errorf("model %q has no adapter", c.Model)
	}
	if r.Tries <= 0 {
		r.Tries = defaultTries
	}
	r.model = m
	r.key = breakerKey(c.Model, m)
	r.api = o.Providers[m.Provider].API
	r.lane, _ = c.Set["service_tier"].(string)
	r.price = m.Price
	if c.Price != nil {
		r.price = c.Price
	}
	r.cost = typical(r.price)
	r.invalid = new(atomic.Bool)
	return r, nil
}

func breakerKey(key string, m config.Model) breaker.Key {
	return breaker.Key{Provider: m.Provider, Model: key, Region: m.Region}
}
