package ladder

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nightshift/breaker"
)

// AverageStore shares averages with the fleet.
type AverageStore interface {
	// Merge adds samples to the averages of models, in their order, and returns
	// what they are then. A model without samples is only read.
	Merge(ctx context.Context, keys []breaker.Key, samples []Averages) ([]Averages, error)
}

// Verdicts tells how many answers of a model were judged; a breaker's store does.
type Verdicts interface {
	List(ctx context.Context, keys []breaker.Key) ([]breaker.Status, error)
}

// Router knows what calls to the models came to lately, in the whole fleet: it
// takes the samples of this process at once and exchanges them once a second, so
// that no call waits for it. It is safe for concurrent use.
type Router struct {
	keys     []breaker.Key
	store    AverageStore
	verdicts Verdicts
	now      func() time.Time
	log      *slog.Logger

	mu     sync.RWMutex
	models map[breaker.Key]*known
	failed bool // the last exchange; only of the exchanging goroutine
}

// known is what the process knows of a model.
type known struct {
	fleet           Averages // as the last exchange told
	sent, since     Averages // samples that are on their way, and later ones
	judged, invalid int
}

// exchangeEvery is how often samples are exchanged, and exchangeLimit how long one
// exchange may take.
const (
	exchangeEvery = time.Second
	exchangeLimit = 2 * time.Second
)

// RouterOptions is what a router is made of.
type RouterOptions struct {
	Keys []breaker.Key // the models that are looked up
	// Store and Verdicts may be nil: then only this process's samples count, and
	// no answer is judged.
	Store    AverageStore
	Verdicts Verdicts
	Now      func() time.Time // defaults to time.Now
	Logger   *slog.Logger     // defaults to discarding
}

// NewRouter returns a router; Run exchanges its samples.
func NewRouter(o RouterOptions) *Router {
	r := &Router{keys: slices.Clone(o.Keys), store: o.Store, verdicts: o.Verdicts, now: o.Now, log: o.Logger, models: map[breaker.Key]*known{}}
	if r.now == nil {
		r.now = time.Now
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	for _, k := range o.Keys {
		r.models[k] = &known{}
	}
	return r
}

// Run exchanges samples until ctx is done, and those that are left then.
func (r *Router) Run(ctx context.Context) {
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	for {
		r.exchange(ctx)
		select {
		case <-ctx.Done():
			r.exchange(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
	}
}

// exchange gives this process's samples to the store and takes the fleet's.
// While the store does not answer, samples wait and decide here alone.
func (r *Router) exchange(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, exchangeLimit)
	defer cancel()
	var err error
	if r.store != nil {
		err = r.exchangeAverages(ctx)
	}
	if r.verdicts != nil && err == nil {
		err = r.readVerdicts(ctx)
	}
	if failed := err != nil; failed != r.failed && ctx.Err() == nil {
		r.failed = failed
		if failed {
			r.log.WarnContext(ctx, "cannot exchange the figures of models, routing goes by this worker's own", "error", err)
		} else {
			r.log.InfoContext(ctx, "exchanging the figures of models again")
		}
	}
}

func (r *Router) exchangeAverages(ctx context.Context) error {
	samples := make([]Averages, len(r.keys))
	r.mu.Lock()
	for i, k := range r.keys {
		m := r.models[k]
		m.sent, m.since = m.sent.then(m.since), Averages{}
		samples[i] = m.sent
	}
	r.mu.Unlock()
	fleet, err := r.store.Merge(ctx, r.keys, samples)
	if err != nil {
		return err // what was sent stays: at worst it counts twice in an average
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range r.keys {
		r.models[k].fleet, r.models[k].sent = fleet[i], Averages{}
	}
	return nil
}

func (r *Router) readVerdicts(ctx context.Context) error {
	all, err := r.verdicts.List(ctx, r.keys)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range r.keys {
		r.models[k].judged, r.models[k].invalid = all[i].Judged, all[i].Invalid
	}
	return nil
}

// observe takes the outcome of a call: an answer after so long, a failure, or
// what says nothing about the model.
func (r *Router) observe(k breaker.Key, rep breaker.Report) {
	if rep.Outcome != breaker.Success && rep.Outcome != breaker.Failure {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.models[k]; m != nil {
		m.since.add(rep.Outcome == breaker.Success, rep.Latency, r.now())
	}
}

// figures are what is known of a model.
func (r *Router) figures(k breaker.Key) figures {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.models[k]
	if m == nil {
		return figures{}
	}
	return figures{Averages: m.fleet.then(m.sent).then(m.since), Judged: m.judged, Invalid: m.invalid}
}

// quality is how many of a model's last answers were judged, and found invalid.
func (r *Router) quality(k breaker.Key) (judged, invalid int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.models[k]; m != nil {
		judged, invalid = m.judged, m.invalid
	}
	return judged, invalid
}

// figures are what is known of a model.
type figures struct {
	Averages
	Judged, Invalid int // of its last answers; see breaker.Status
}

// tooManyInvalid says that more than so many per cent of the judged answers
// were invalid.
func (f figures) tooManyInvalid(percent int) bool {
	return f.Judged >= minJudged && 100*f.Invalid > percent*f.Judged
}
