package app

import (
	"log/slog"
	"testing"

	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
)

// A probe is a call with a cost, whoever sends it; that of a line is the line's.
func TestEveryProbeIsACallOnRecord(t *testing.T) {
	m, reg := newTestMetrics(t)
	w := &watching{metrics: m, log: slog.New(slog.DiscardHandler)}
	paid := provider.Call{Kind: provider.OK, Cost: provider.Dollars(0.5)}
	w.Called(ladder.CallEvent{Purpose: ladder.ForProbe, Scope: breaker.ScopeParent, Key: gpt, Call: paid})
	w.Called(ladder.CallEvent{Purpose: ladder.ForLine, Scope: breaker.ScopeModel, Key: gpt, Call: paid})
	w.Called(ladder.CallEvent{Purpose: ladder.ForLine, Key: gpt, Call: paid})
	expect(t, reg, `
# HELP nightshift_cost_usd_total Cost of the calls at the configured prices, in US dollars.
# TYPE nightshift_cost_usd_total counter
nightshift_cost_usd_total{model="openai/gpt-4o",provider="openai",purpose="line"} 1
nightshift_cost_usd_total{model="openai/gpt-4o",provider="openai",purpose="probe"} 0.5
nightshift_cost_usd_total{model="openai/gpt-4o",provider="openai",purpose="repair"} 0
# HELP nightshift_probes_total Probes of open breakers, also where a line is the probe, by the kind of their outcome.
# TYPE nightshift_probes_total counter
nightshift_probes_total{model="",provider="openai",region="eastus",result="ok",scope="parent"} 1
nightshift_probes_total{model="openai/gpt-4o",provider="openai",region="eastus",result="ok",scope="model"} 1
`, "cost_usd_total", "probes_total")
}
