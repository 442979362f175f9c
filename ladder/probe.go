package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// probeBody is the synthetic probe: a purchase, and so the smallest one.
var probeBody = json.RawMessage(`{"messages":[{"role":"user","content":"ping"}],"max_tokens":1}`)

const probeEndpoint = "/v1/chat/completions"

// ProberOptions is what a prober is made of; see [Options].
type ProberOptions struct {
	Models   map[string]config.Model
	Callers  map[string]Caller // by the model's key
	Parks    Parks
	Now      func() time.Time
	Logger   *slog.Logger
	Observer Observer
}

// Prober sends synthetic probes through the same adapters as the lines. It is
// safe for concurrent use.
type Prober struct {
	o      ProberOptions
	mu     sync.Mutex
	warned map[string]bool // models that refuse the probe itself
}

// NewProber returns a prober.
func NewProber(o ProberOptions) (*Prober, error) {
	if o.Parks == nil {
		return nil, errors.New("build prober: parks are needed")
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
	return &Prober{o: o, warned: map[string]bool{}}, nil
}

// Probe sends the probe of a ticket to its model and returns what it says about it. A probe
// that says nothing (a request that the model refuses, our own stop, a model
// that the configuration no longer has) is no evidence; the caller reports that
// too, so that the probe's lease is freed.
func (p *Prober) Probe(ctx context.Context, t breaker.Ticket) breaker.Report {
	key := t.Key
	m, known := p.o.Models[key.Model]
	caller := p.o.Callers[key.Model]
	if !known || caller == nil {
		return breaker.Report{Outcome: breaker.None, Reason: "the model is not configured"}
	}
	started := p.o.Now()
	ans, err := invoke(ctx, caller, provider.Request{
		Endpoint: probeEndpoint, Model: m.Name, Body: probeBody, Timeout: silence(m),
	})
	took := p.o.Now().Sub(started)
	e := classified(ctx, err)
	p.o.Observer.Called(CallEvent{
		Purpose: ForProbe, Scope: t.Scope, Key: key, Latency: took, StatusCode: statusOf(ans, e),
		Call: newCall(key.Model, m.Price, started, took, ans, e),
	})
	if isPanic(err) {
		p.o.Logger.ErrorContext(ctx, "adapter panicked on a probe", "model", key.Model, "error", err, "stack", stack(err))
		return breaker.Report{Outcome: breaker.None, Reason: err.Error()}
	}
	r := evidence(e, took)
	if e != nil {
		r.Unfit = refusesProbe(e)
		p.follow(ctx, key, e)
	}
	return r
}

// refusesProbe says that the model answered, but not to a request like this
// one: a task's own may show what it can do.
func refusesProbe(e *provider.Error) bool {
	return meanings[e.Kind].evidence == breaker.None && e.Kind != provider.Canceled
}

// follow does what a failed probe asks for beside its report.
func (p *Prober) follow(ctx context.Context, key breaker.Key, e *provider.Error) {
	switch {
	case e.Kind == provider.RateLimited:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
		defer cancel()
		if _, err := p.o.Parks.Park(ctx, key, e.RetryAfter); err != nil {
			p.o.Logger.WarnContext(ctx, "park failed", "model", key.Model, "error", err)
		}
	case refusesProbe(e):
		p.warnOnce(ctx, key, e)
	}
}

func (p *Prober) warnOnce(ctx context.Context, key breaker.Key, e *provider.Error) {
	p.mu.Lock()
	first := !p.warned[key.Model]
	p.warned[key.Model] = true
	p.mu.Unlock()
	if first {
		p.o.Logger.WarnContext(ctx, "model refuses the synthetic probe, so that the next waiting line becomes the probe",
			"model", key.Model, "error", e.Error())
	}
}
