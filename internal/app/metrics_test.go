package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
	"nightshift/tasks"
)

var (
	gpt   = breaker.Key{Provider: "openai", Model: "openai/gpt-4o", Region: "eastus"}
	llama = breaker.Key{Provider: "local", Model: "local/llama3.1:8b"}
)

func newTestMetrics(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg, MetricsOptions{
		Version: "1.2.3", Revision: "abc", ConfigHash: "0123456789abcdef", Keys: []breaker.Key{gpt}, Queues: []string{"overnight"},
		Answerers: map[string][]string{"overnight": {gpt.Model, llama.Model, ladder.TextModel}},
	})
	return m, reg
}

// expect compares the named metrics with their text.
func expect(t *testing.T, reg prometheus.Gatherer, text string, names ...string) {
	t.Helper()
	for i, name := range names {
		names[i] = "nightshift_" + name
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func TestMetricsOfCalls(t *testing.T) {
	m, reg := newTestMetrics(t)
	m.Call(gpt, ladder.ForLine, provider.Call{
		Model: gpt.Model, Kind: provider.OK, StartedAt: time.Now(), LatencyMS: 1500, Cost: provider.Dollars(0.25),
		Usage: provider.Usage{InputTokens: 100, CachedInputTokens: 40, OutputTokens: 7},
	})
	m.Call(gpt, ladder.ForLine, provider.Call{Kind: provider.Unavailable, LatencyMS: 12_000})
	m.Call(gpt, ladder.ForProbe, provider.Call{Kind: provider.OK, LatencyMS: 100, Cost: provider.Dollars(0.5)})
	m.Avoided(gpt)
	m.Avoided(gpt)
	expect(t, reg, `
# HELP nightshift_calls_total Calls to providers, probes included, by the kind of their outcome.
# TYPE nightshift_calls_total counter
nightshift_calls_total{kind="ok",model="openai/gpt-4o",provider="openai",region="eastus"} 2
nightshift_calls_total{kind="rate_limited",model="openai/gpt-4o",provider="openai",region="eastus"} 0
nightshift_calls_total{kind="timeout",model="openai/gpt-4o",provider="openai",region="eastus"} 0
nightshift_calls_total{kind="unavailable",model="openai/gpt-4o",provider="openai",region="eastus"} 1
# HELP nightshift_calls_avoided_total Calls that an open breaker kept from being made.
# TYPE nightshift_calls_avoided_total counter
nightshift_calls_avoided_total{model="openai/gpt-4o",provider="openai",region="eastus"} 2
# HELP nightshift_tokens_total Tokens as providers reported them; the types do not overlap.
# TYPE nightshift_tokens_total counter
nightshift_tokens_total{model="openai/gpt-4o",provider="openai",type="cached_input"} 40
nightshift_tokens_total{model="openai/gpt-4o",provider="openai",type="input"} 60
nightshift_tokens_total{model="openai/gpt-4o",provider="openai",type="output"} 7
# HELP nightshift_cost_usd_total Cost of the calls at the configured prices, in US dollars.
# TYPE nightshift_cost_usd_total counter
nightshift_cost_usd_total{model="openai/gpt-4o",provider="openai",purpose="line"} 0.25
nightshift_cost_usd_total{model="openai/gpt-4o",provider="openai",purpose="probe"} 0.5
nightshift_cost_usd_total{model="openai/gpt-4o",provider="openai",purpose="repair"} 0
# HELP nightshift_call_duration_seconds Time from sending a call to its whole answer or its failure.
# TYPE nightshift_call_duration_seconds histogram
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="0.1"} 1
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="0.25"} 1
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="0.5"} 1
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="1"} 1
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="2"} 2
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="5"} 2
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="10"} 2
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="15"} 3
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="20"} 3
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="30"} 3
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="60"} 3
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="120"} 3
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="300"} 3
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="600"} 3
nightshift_call_duration_seconds_bucket{model="openai/gpt-4o",provider="openai",region="eastus",le="+Inf"} 3
nightshift_call_duration_seconds_sum{model="openai/gpt-4o",provider="openai",region="eastus"} 13.6
nightshift_call_duration_seconds_count{model="openai/gpt-4o",provider="openai",region="eastus"} 3
`, "calls_total", "calls_avoided_total", "tokens_total", "cost_usd_total", "call_duration_seconds")
}

// A provider that reports nonsense must not take the process down.
func TestMetricsOfImpossibleUsage(t *testing.T) {
	m, reg := newTestMetrics(t)
	m.Call(gpt, ladder.ForLine, provider.Call{
		Kind: provider.OK, LatencyMS: -3, Cost: -1, Usage: provider.Usage{InputTokens: 5, CachedInputTokens: 9, OutputTokens: -2},
	})
	expect(t, reg, `
# HELP nightshift_tokens_total Tokens as providers reported them; the types do not overlap.
# TYPE nightshift_tokens_total counter
nightshift_tokens_total{model="openai/gpt-4o",provider="openai",type="cached_input"} 9
`, "tokens_total")
}

func TestMetricsOfBreakers(t *testing.T) {
	m, reg := newTestMetrics(t)
	m.Transition(breaker.Transition{Key: gpt, Scope: breaker.ScopeModel, From: breaker.Closed, To: breaker.Open})
	m.Transition(breaker.Transition{Key: gpt, Scope: breaker.ScopeParent, From: breaker.Closed, To: breaker.Open})
	m.Probe(breaker.ScopeModel, gpt, provider.Unavailable)
	m.Probe(breaker.ScopeModel, llama, provider.OK)
	expect(t, reg, `
# HELP nightshift_breaker_transitions_total Changes of a breaker's state that this process caused.
# TYPE nightshift_breaker_transitions_total counter
nightshift_breaker_transitions_total{model="",provider="openai",region="eastus",scope="parent",to="closed"} 0
nightshift_breaker_transitions_total{model="",provider="openai",region="eastus",scope="parent",to="half_open"} 0
nightshift_breaker_transitions_total{model="",provider="openai",region="eastus",scope="parent",to="open"} 1
nightshift_breaker_transitions_total{model="openai/gpt-4o",provider="openai",region="eastus",scope="model",to="closed"} 0
nightshift_breaker_transitions_total{model="openai/gpt-4o",provider="openai",region="eastus",scope="model",to="half_open"} 0
nightshift_breaker_transitions_total{model="openai/gpt-4o",provider="openai",region="eastus",scope="model",to="open"} 1
# HELP nightshift_probes_total Probes of open breakers, also where a line is the probe, by the kind of their outcome.
# TYPE nightshift_probes_total counter
nightshift_probes_total{model="local/llama3.1:8b",provider="local",region="",result="ok",scope="model"} 1
nightshift_probes_total{model="openai/gpt-4o",provider="openai",region="eastus",result="unavailable",scope="model"} 1
`, "breaker_transitions_total", "probes_total")
}

func TestMetricsOfLines(t *testing.T) {
	m, reg := newTestMetrics(t)
	m.Deferral("overnight", ladder.ReasonBreaker)
	m.Line("overnight", batch.Succeeded)
	m.Lines("overnight", batch.Expired, 12)
	expect(t, reg, `
# HELP nightshift_deferrals_total Lines put back to wait without spending a retry, by what they wait for.
# TYPE nightshift_deferrals_total counter
nightshift_deferrals_total{queue="overnight",reason="breaker_open"} 1
nightshift_deferrals_total{queue="overnight",reason="guard"} 0
nightshift_deferrals_total{queue="overnight",reason="rate_limited"} 0
# HELP nightshift_lines_total Lines that ended, by how.
# TYPE nightshift_lines_total counter
nightshift_lines_total{outcome="cancelled",queue="overnight"} 0
nightshift_lines_total{outcome="expired",queue="overnight"} 12
nightshift_lines_total{outcome="failed",queue="overnight"} 0
nightshift_lines_total{outcome="succeeded",queue="overnight"} 1
# HELP nightshift_config_info The configuration of this process by its hash; always 1.
# TYPE nightshift_config_info gauge
nightshift_config_info{hash="0123456789abcdef"} 1
`, "deferrals_total", "lines_total", "config_info")
	expect(t, reg, `
# HELP nightshift_lines_degraded_total Lines that succeeded below their first rung, texts included.
# TYPE nightshift_lines_degraded_total counter
nightshift_lines_degraded_total{queue="overnight"} 0
# HELP nightshift_cache_hits_total Lines that succeeded without a call, by an answer that was kept.
# TYPE nightshift_cache_hits_total counter
nightshift_cache_hits_total{queue="overnight"} 0
`, "lines_degraded_total", "cache_hits_total")
	if n, err := testutil.GatherAndCount(reg, "nightshift_build_info"); err != nil || n != 1 {
		t.Errorf("build_info: %d series, %v", n, err)
	}
}

func TestMetricsOfAnswers(t *testing.T) {
	m, reg := newTestMetrics(t)
	w := &watching{metrics: m, log: slog.New(slog.DiscardHandler)}
	w.Answered("overnight", tasks.By{Model: gpt.Model}, 1)
	w.Answered("overnight", tasks.By{Model: gpt.Model, Cached: true}, 1)
	w.Answered("overnight", tasks.By{Model: ladder.TextModel, Degraded: true}, 12)
	expect(t, reg, `
# HELP nightshift_answers_total Lines that succeeded, by who answered; nightshift/text stands for all texts.
# TYPE nightshift_answers_total counter
nightshift_answers_total{model="local/llama3.1:8b",queue="overnight"} 0
nightshift_answers_total{model="nightshift/text",queue="overnight"} 12
nightshift_answers_total{model="openai/gpt-4o",queue="overnight"} 2
# HELP nightshift_lines_degraded_total Lines that succeeded below their first rung, texts included.
# TYPE nightshift_lines_degraded_total counter
nightshift_lines_degraded_total{queue="overnight"} 12
# HELP nightshift_cache_hits_total Lines that succeeded without a call, by an answer that was kept.
# TYPE nightshift_cache_hits_total counter
nightshift_cache_hits_total{queue="overnight"} 1
`, "answers_total", "lines_degraded_total", "cache_hits_total")
}

// A batch may name a queue, and a kept answer a model, that the configuration does
// not have any more: they make no label of their own.
func TestMetricsLabelsAreOfTheConfiguration(t *testing.T) {
	m, reg := newTestMetrics(t)
	m.Lines("gone", batch.Expired, 3)
	m.Answers("gone", tasks.By{Model: "old/model", Cached: true}, 1)
	m.Answers("overnight", tasks.By{Model: "old/model"}, 2)
	expect(t, reg, `
# HELP nightshift_answers_total Lines that succeeded, by who answered; nightshift/text stands for all texts.
# TYPE nightshift_answers_total counter
nightshift_answers_total{model="local/llama3.1:8b",queue="overnight"} 0
nightshift_answers_total{model="nightshift/text",queue="overnight"} 0
nightshift_answers_total{model="openai/gpt-4o",queue="overnight"} 0
nightshift_answers_total{model="other",queue="other"} 1
nightshift_answers_total{model="other",queue="overnight"} 2
# HELP nightshift_cache_hits_total Lines that succeeded without a call, by an answer that was kept.
# TYPE nightshift_cache_hits_total counter
nightshift_cache_hits_total{queue="other"} 1
nightshift_cache_hits_total{queue="overnight"} 0
# HELP nightshift_lines_total Lines that ended, by how.
# TYPE nightshift_lines_total counter
nightshift_lines_total{outcome="cancelled",queue="overnight"} 0
nightshift_lines_total{outcome="expired",queue="other"} 3
nightshift_lines_total{outcome="expired",queue="overnight"} 0
nightshift_lines_total{outcome="failed",queue="overnight"} 0
nightshift_lines_total{outcome="succeeded",queue="overnight"} 0
`, "answers_total", "cache_hits_total", "lines_total")
}
