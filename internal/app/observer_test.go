package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/limit"
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

// An opening is a warning, with all that the person needs who reads it; its end is not.
func TestTheGuardsChangesAreLogged(t *testing.T) {
	var out strings.Builder
	w := &watching{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))}
	limits := limit.GuardLimits{Calls: 5000, USD: 2_500_000_000}
	w.Guarded(limit.GuardChange{Producer: "anna", Open: true, Until: time.Date(2026, 12, 1, 2, 14, 0, 0, time.UTC), Limits: limits})
	w.Guarded(limit.GuardChange{Producer: "anna", Limits: limits})
	want := `level=WARN msg="hourly guard opened" producer=anna calls_per_hour=5000 usd_per_hour=2.5 until=2026-12-01T02:14:00.000Z
level=INFO msg="hourly guard closed" producer=anna calls_per_hour=5000 usd_per_hour=2.5
`
	if out.String() != want {
		t.Errorf("logged:\n%swant:\n%s", &out, want)
	}
}
