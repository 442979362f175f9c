package ladder

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// ownProbe is a prober of model a with a probe of its own, over the real adapter.
func ownProbe(t *testing.T, b *bundle, own config.Probe, h http.HandlerFunc) *Prober {
	t.Helper()
	srv := httptest.NewServer(h)
	adapter := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: srv.URL + "/v1"})
	t.Cleanup(func() { adapter.Close(); srv.Close() })
	m := b.models["p/a"]
	m.Probe = own
	m.Price = &config.Price{Input: 1, Output: 2, PerCall: 0.5}
	p, err := NewProber(ProberOptions{
		Models: map[string]config.Model{"p/a": m}, Callers: map[string]Caller{"p/a": adapter},
		Gate: b.gate(b.breakers), Now: b.Now, Observer: b, Logger: testLogger(&b.log),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAModelsOwnBodyIsSentInPlaceOfThePrompt(t *testing.T) {
	b := setup(t, "a")
	own := config.Probe{Body: map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": "up?"}}, "max_completion_tokens": int64(64), "model": "another",
	}}
	var path, sent string
	p := ownProbe(t, b, own, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path, sent = r.Method+" "+r.URL.Path, string(body)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"yes"}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`)
	})
	r := p.Probe(context.Background(), probeA)
	same(t, "outcome", r.Outcome, breaker.Success)
	same(t, "path", path, "POST /v1/chat/completions")
	same(t, "body", sent, `{"max_completion_tokens":64,"messages":[{"content":"up?","role":"user"}],"model":"a"}`)
	same(t, "cost", b.events[0].Call.Cost, provider.Dollars(0.500012))
	same(t, "purpose", b.events[0].Purpose, ForProbe)
}

func TestAHealthPathIsAProbeThatCostsNothing(t *testing.T) {
	for status, want := range map[int]breaker.Report{
		200: {Outcome: breaker.Success},
		204: {Outcome: breaker.Success},
		404: {Outcome: breaker.None, Unfit: true, Reason: "invalid_request: status 404: the health path does not answer with 2xx"},
		302: {Outcome: breaker.None, Unfit: true, Reason: "invalid_request: status 302: the health path does not answer with 2xx"},
		401: {Outcome: breaker.Failure, Hard: true, Scope: breaker.ScopeParent, Reason: "misconfigured: status 401: the provider refuses the key or the account"},
		429: {Outcome: breaker.Limited, RetryAfter: 9 * time.Second, Reason: "rate_limited: status 429: rate limit"},
		503: {Outcome: breaker.Failure, RetryAfter: 9 * time.Second, Reason: "unavailable: status 503: the provider failed"},
	} {
		b := setup(t, "a")
		var got string
		p := ownProbe(t, b, config.Probe{Get: "/health"}, func(w http.ResponseWriter, r *http.Request) {
			got = r.Method + " " + r.URL.Path
			if status > 404 {
				w.Header().Set("Retry-After", "9")
			}
			w.WriteHeader(status)
		})
		same(t, "report", p.Probe(context.Background(), probeA), want)
		same(t, "request", got, "GET /health")
		e := b.events[0]
		if e.Purpose != ForProbe || e.Scope != breaker.ScopeParent || e.Call.Cost != 0 || e.StatusCode != status {
			t.Errorf("event of a %d: %+v", status, e)
		}
		same(t, "parks", len(b.pace.until), map[bool]int{true: 1}[status == 429])
		same(t, "warnings", strings.Count(b.log.String(), "refuses the probe"), map[bool]int{true: 1}[want.Unfit])
	}
}

func TestAHealthPathWithoutAnswerIsAFailure(t *testing.T) {
	b := setup(t, "a")
	m := b.models["p/a"]
	m.FirstToken = 50 * time.Millisecond // how long a probe may be silent, whatever it is
	b.models["p/a"] = m
	p := ownProbe(t, b, config.Probe{Get: "/health"}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	same(t, "report", p.Probe(context.Background(), probeA),
		breaker.Report{Outcome: breaker.Failure, Reason: "timeout: no answer within 50ms"})
}

// A context that ends before the lease is no stop of ours: the model is silent.
func TestSilenceUntilTheLeaseEndsIsATimeout(t *testing.T) {
	b := setup(t, "a")
	p := ownProbe(t, b, config.Probe{}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := p.Probe(ctx, probeA)
	same(t, "outcome", r.Outcome, breaker.Failure)
	same(t, "kind", b.events[0].Call.Kind, provider.Timeout)
}

func TestAHealthPathNeedsAnAdapterThatCanGet(t *testing.T) {
	b := setup(t, "a")
	m := b.models["p/a"]
	m.Probe.Get = "/health"
	_, err := NewProber(ProberOptions{
		Models: map[string]config.Model{"p/a": m}, Callers: map[string]Caller{"p/a": b.callers["p/a"]}, Gate: b.gate(b.breakers),
	})
	if err == nil || err.Error() != "probe model p/a by /health: its adapter cannot get a path" {
		t.Errorf("got %v", err)
	}
}

// sick panics in place of a GET.
type sick struct{ *fakeCaller }

func (sick) Health(context.Context, string, time.Duration) (int, error) { panic(errors.New("boom")) }

func TestAPanicOfAHealthPathIsNoEvidence(t *testing.T) {
	b := setup(t, "a")
	m := b.models["p/a"]
	m.Probe.Get = "/health"
	p, err := NewProber(ProberOptions{
		Models: map[string]config.Model{"p/a": m}, Callers: map[string]Caller{"p/a": sick{b.callers["p/a"]}}, Gate: b.gate(b.breakers),
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "outcome", p.Probe(context.Background(), probeA).Outcome, breaker.None)
}
