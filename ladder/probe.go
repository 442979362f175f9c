package ladder

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// ProberOptions is what a prober is made of; see [Options].
type ProberOptions struct {
	Models   map[string]config.Model
	Callers  map[string]Caller // by the model's key
	Gate     Gate              // counts the probes
	Now      func() time.Time
	Logger   *slog.Logger
	Observer Observer
}

// Prober sends probes of ours through the same adapters as the lines: a short
// prompt, or what the model's own configuration names. It is safe for
// concurrent use.
type Prober struct {
	o      ProberOptions
	ways   map[string]way // by the model's key
	mu     sync.Mutex
	warned map[string]bool // models that refuse the probe itself
}

// NewProber returns a prober, or everything that is wrong with the models' own probes.
func NewProber(o ProberOptions) (*Prober, error) {
	if o.Gate == nil {
		return nil, errors.New("build prober: a gate is needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	p := &Prober{o: o, ways: map[string]way{}, warned: map[string]bool{}}
	var problems []error
	for key, m := range o.Models {
		if o.Callers[key] == nil {
			continue
		}
		w, err := newWay(m, o.Callers[key])
		problems = append(problems, err)
		p.ways[key] = w
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return p, nil
}

// Probe sends the probe of a ticket to its model and returns what it says about it. A probe
// that says nothing (a request that the model refuses, our own stop, a model
// that the configuration no longer has) is no evidence; the caller reports that
// too, so that the probe's lease is freed. Where ctx has a deadline, as before
// the end of the lease, silence until then is the model's.
func (p *Prober) Probe(ctx context.Context, t breaker.Ticket) breaker.Report {
	key := t.Key
	w, known := p.ways[key.Model]
	if !known {
		return breaker.Report{Outcome: breaker.None, Reason: "the model is not configured"}
	}
	sent, err := p.o.Gate.Send(ctx, Sending{Key: key, Call: w.path == "", USD: w.most(), Lease: t.Lease})
	if err != nil {
		return breaker.Report{Outcome: breaker.None, Reason: "the probe was not sent: " + err.Error()}
	}
	started := p.o.Now()
	ans, err := w.send(ctx)
	took := p.o.Now().Sub(started)
	e := probeError(ctx, err)
	p.tell(ctx, key, sent, w.exit(took, ans, e))
	p.o.Observer.Called(CallEvent{
		Purpose: ForProbe, Scope: t.Scope, Key: key, Latency: took, StatusCode: statusOf(ans, e), RetryAfter: retryAfterOf(e),
		Call: newCall(key.Model, w.price, started, took, ans, e),
	})
	if isPanic(err) {
		p.o.Logger.ErrorContext(ctx, "adapter panicked on a probe", "model", key.Model, "error", err, "stack", stack(err))
		return breaker.Report{Outcome: breaker.None, Reason: err.Error()}
	}
	r := evidence(e, took)
	if r.Unfit = e != nil && refusesProbe(e); r.Unfit {
		p.warnOnce(ctx, key, e)
	}
	return r
}

// tell says what became of a probe, on a context that outlives its own.
func (p *Prober) tell(ctx context.Context, key breaker.Key, sent func(context.Context, Exit) error, x Exit) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	if err := sent(ctx, x); err != nil {
		p.o.Logger.WarnContext(ctx, "what became of a probe is not told to pace and guard", "model", key.Model, "error", err)
	}
}

// probeError is classified for a probe, whose context ends before its lease.
func probeError(ctx context.Context, err error) *provider.Error {
	e := classified(ctx, err)
	if e != nil && e.Kind == provider.Canceled && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		late := *e
		late.Kind, late.Message = provider.Timeout, "no answer before the end of the probe's lease"
		return &late
	}
	return e
}

// refusesProbe says that the model answered, but not to a request like this
// one: a task's own may show what it can do.
func refusesProbe(e *provider.Error) bool {
	return meanings[e.Kind].evidence == breaker.None && e.Kind != provider.Canceled
}

// refused says that the model refused a probe of ours before.
func (p *Prober) refused(key breaker.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.warned[key.Model]
}

func (p *Prober) warnOnce(ctx context.Context, key breaker.Key, e *provider.Error) {
	p.mu.Lock()
	first := !p.warned[key.Model]
	p.warned[key.Model] = true
	p.mu.Unlock()
	if first {
		p.o.Logger.WarnContext(ctx, "model refuses the probe, so that the next waiting line becomes the probe; give the model a probe of its own",
			"model", key.Model, "probe", p.ways[key.Model].String(), "error", e.Error())
	}
}
