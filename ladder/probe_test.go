package ladder

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/provider"
)

func (b *bundle) prober() *Prober {
	b.t.Helper()
	callers := map[string]Caller{}
	for k, v := range b.callers {
		callers[k] = v
	}
	p, err := NewProber(ProberOptions{
		Models: b.models, Callers: callers, Gate: b.gate(b.breakers), Now: b.Now, Observer: b, Logger: testLogger(&b.log),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

var keyA = breaker.Key{Provider: "p", Model: "p/a"}

var probeA = breaker.Ticket{Key: keyA, Probe: true, Scope: breaker.ScopeParent}

func TestProbeIsASmallPurchaseOnRecord(t *testing.T) {
	b := setup(t, "a")
	got := b.prober().Probe(context.Background(), probeA)
	same(t, "report", got, breaker.Report{Outcome: breaker.Success, Latency: time.Second})
	req := b.callers["p/a"].requests[0]
	var body struct {
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.Unmarshal(req.Body, &body); err != nil || body.MaxTokens != 1 {
		t.Errorf("body %s: %v", req.Body, err)
	}
	if req.Model != "a" || req.Timeout != 30*time.Second || req.Endpoint != "/v1/chat/completions" {
		t.Errorf("request %+v", req)
	}
	e := b.events[0]
	if e.Purpose != ForProbe || e.Scope != breaker.ScopeParent || e.Key != keyA || e.Call.Cost == 0 || e.Call.Kind != provider.OK || e.Latency != time.Second {
		t.Errorf("event %+v", e)
	}
}

func TestWhatAProbeSays(t *testing.T) {
	for _, tc := range []struct {
		kind provider.Kind
		want breaker.Outcome
		hard bool
	}{
		{provider.Unavailable, breaker.Failure, false},
		{provider.Timeout, breaker.Failure, false},
		{provider.RateLimited, breaker.Limited, false},
		{provider.QuotaExhausted, breaker.Failure, true},
		{provider.Misconfigured, breaker.Failure, true},
		{provider.InvalidRequest, breaker.None, false},
		{provider.ContextExceeded, breaker.None, false},
		{provider.ContentFiltered, breaker.None, false},
		{provider.InvalidOutput, breaker.None, false},
		{provider.Canceled, breaker.None, false},
		{"something new", breaker.None, false},
	} {
		b := setup(t, "a")
		b.script("a", &provider.Error{Kind: tc.kind, StatusCode: 418, Message: "m", RetryAfter: 9 * time.Second})
		got := b.prober().Probe(context.Background(), probeA)
		same(t, string(tc.kind), got, breaker.Report{
			Outcome: tc.want, Hard: tc.hard, Reason: string(tc.kind) + ": status 418: m", RetryAfter: 9 * time.Second,
			Latency: time.Second, Unfit: tc.want == breaker.None && tc.kind != provider.Canceled,
		})
		same(t, "parks after "+string(tc.kind), len(b.pace.until), map[bool]int{true: 1}[tc.kind == provider.RateLimited])
	}
}

func TestA400ToAProbeWarnsOnce(t *testing.T) {
	b := setup(t, "a", "b")
	refusal := &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Message: "max_tokens is too small"}
	b.script("a", refusal)
	b.script("b", refusal)
	p := b.prober()
	for range 3 {
		p.Probe(context.Background(), probeA)
	}
	same(t, "warnings", strings.Count(b.log.String(), "refuses the probe"), 1)
	p.Probe(context.Background(), breaker.Ticket{Key: breaker.Key{Provider: "p", Model: "p/b"}})
	same(t, "warnings", strings.Count(b.log.String(), "refuses the probe"), 2)
}

func TestAProbeThatCannotBeSentIsNoEvidence(t *testing.T) {
	b := setup(t, "a")
	same(t, "unknown model", b.prober().Probe(context.Background(), breaker.Ticket{Key: breaker.Key{Model: "p/x"}}).Outcome, breaker.None)
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) { panic("boom") }
	same(t, "panic", b.prober().Probe(context.Background(), probeA).Outcome, breaker.None)

	ctx, cancel := context.WithCancel(context.Background())
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) {
		cancel()
		return provider.Answer{}, &provider.Error{Kind: provider.Unavailable, Message: "EOF"}
	}
	same(t, "our own stop", b.prober().Probe(ctx, probeA).Outcome, breaker.None)
	if strings.Contains(b.log.String(), "refuses the probe") {
		t.Error("our own stop is not the model's refusal")
	}
}
