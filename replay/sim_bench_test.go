package replay

import (
	"os"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
	"nightshift/provider"
)

const benchConfig = `
providers:
  a: {base_url: "http://127.0.0.1:1/v1"}
  b: {base_url: "http://127.0.0.1:2/v1"}
models:
  a/one: {price: {input: 1, output: 4}}
  b/two: {price: {input: 1, output: 4}}
ladders:
  l: {rungs: [{model: a/one}, {model: b/two, after: 10m}]}
queues:
  q: {ladder: l, concurrency: 50, retries: 5, deadline: 24h}
guard: {calls_per_hour: 0}
`

// setupOf is as internal/app makes it.
func setupOf(tb testing.TB, text string) Setup {
	tb.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		tb.Fatal(err)
	}
	s := Setup{Name: "test", Config: cfg}
	for key, m := range cfg.Models {
		s.Keys = append(s.Keys, breaker.Key{Provider: m.Provider, Model: key, Region: m.Region})
	}
	s.Numbers = func(k breaker.Key) breaker.Settings {
		b := cfg.Breaker
		if m, ok := cfg.Models[k.Model]; ok {
			b = m.Breaker
		}
		return breaker.Settings{Window: b.Window, Failures: b.Failures, Cooldown: b.Cooldown, MaxCooldown: b.MaxCooldown, ProbeLease: 45 * time.Second}
	}
	s.Limits = func(m limit.Model) limit.Limits {
		l := cfg.Models[m.Model].Limits
		return limit.Limits{RPM: l.RPM, TPM: l.TPM, Concurrency: l.Concurrency}
	}
	s.Guard.Limits = func(producer string) limit.GuardLimits {
		g := cfg.Guard.Of(producer)
		return limit.GuardLimits{Calls: int64(g.CallsPerHour), USD: int64(provider.Dollars(g.USDPerHour))}
	}
	s.Guard.Global.Calls = int64(cfg.Guard.GlobalCallsPerHour)
	return s
}

func BenchmarkWeek(b *testing.B) {
	run, _ := built(b, `
workers: 4
traffic:
  - {queue: q, for: 168h, per_minute: 9.92, lines: 10}
models:
  a/one: {p50: 2s, p95: 8s, errors: 0.01}
  b/two: {p50: 2s, p95: 8s, errors: 0.01}
faults:
  - {models: [a/one], at: 30h, for: 1h}
  - {models: [a/one], at: 90h, for: 20m, kind: timeout}
`)
	for b.Loop() {
		f, err := Simulate(run)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(f.Calls), "calls")
		b.Logf("%+v", *f.Bound)
		f.Batches = nil
		b.Logf("%+v", f)
	}
}
