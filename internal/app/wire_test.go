package app

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"nightshift/breaker"
	"nightshift/config"
)

const twoLevels = `
providers:
  cloud: {base_url: "http://127.0.0.1:1/v1", breaker: {window: 50, probe: task}}
  local: {base_url: "http://127.0.0.1:2/v1"}
models:
  cloud/a: {first_token: 50s, breaker: {cooldown: 10s, slow_call: 20s}}
  cloud/b: {first_token: 5s}
  local/c: {}
ladders: {l: {rungs: [{model: cloud/a}, {model: cloud/b}, {model: local/c}]}}
queues: {q: {ladder: l}}
breaker: {probes: 3, probe_successes: 2}
`

func TestBreakersTakeTheirNumbersFromTheConfiguration(t *testing.T) {
	cfg, err := config.Parse("nightshift.yaml", []byte(twoLevels), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	of := settings(cfg)
	base := breaker.Settings{
		Window: 20, Failures: 11, Cooldown: 30 * time.Second, MaxCooldown: 5 * time.Minute,
		ProbeLease: 35 * time.Second, Probes: 3, ProbeSuccesses: 2,
	}
	want := map[breaker.Key]func(*breaker.Settings){
		{Provider: "cloud", Model: "cloud/a"}: func(s *breaker.Settings) {
			s.Cooldown, s.SlowCall, s.ProbeLease = 10*time.Second, 20*time.Second, 65*time.Second
		},
		{Provider: "cloud", Model: "cloud/b"}: func(s *breaker.Settings) { s.ProbeLease = 20 * time.Second },
		{Provider: "local", Model: "local/c"}: func(*breaker.Settings) {},
		{Provider: "cloud"}: func(s *breaker.Settings) {
			s.Window, s.TaskProbes, s.ProbeLease = 50, true, 65*time.Second // of its slowest model
		},
		{Provider: "local"}: func(*breaker.Settings) {},
	}
	for k, change := range want {
		s := base
		change(&s)
		if got := of(k); got != s {
			t.Errorf("%s has %+v, want %+v", k, got, s)
		}
		if err := of(k).Validate(); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if got := len(levels(keys(cfg))); got != len(want) {
		t.Errorf("%d breakers, want %d", got, len(want))
	}
}

// timed notes how long probes had and ends.
type timed struct {
	had  time.Duration
	done context.CancelFunc
}

func (p *timed) Probe(ctx context.Context, _ breaker.Ticket) breaker.Report {
	end, _ := ctx.Deadline()
	p.had = time.Until(end)
	p.done()
	return breaker.Report{Outcome: breaker.Success}
}

// Whatever a model's limit, its silence ends its probe, and not the watcher
// that ends probes before their lease.
func TestAProbesOwnLimitPassesBeforeItsLease(t *testing.T) {
	for _, silent := range []time.Duration{time.Millisecond, 5 * time.Second, 20 * time.Second, 30 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			cfg, err := config.Parse("nightshift.yaml", fmt.Appendf(nil, `
providers: {p: {base_url: "http://127.0.0.1:1/v1"}}
models: {p/a: {first_token: %s, timeout: 10m}}
ladders: {l: {rungs: [{model: p/a}]}}
queues: {q: {ladder: l}}
`, silent), func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			store := breaker.NewMemory(settings(cfg), nil)
			for _, k := range keys(cfg) {
				ticket, err := store.Admit(t.Context(), k)
				if err != nil {
					t.Fatal(err)
				}
				_ = store.Report(t.Context(), ticket, breaker.Report{Outcome: breaker.Failure, Hard: true})
				_, _ = store.Admit(t.Context(), k) // a line waits
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			p := &timed{done: cancel}
			breaker.Watcher{Store: store, Providers: providers(cfg), Prober: p}.Run(ctx)
			if p.had <= silent {
				t.Errorf("a probe may be silent for %s and has %s", silent, p.had)
			}
		})
	}
}

// While a guard is open, lines go on where something that costs nothing is open
// to them all the time.
func TestUnguardedQueues(t *testing.T) {
	free, dear := &config.Price{}, &config.Price{Input: 1}
	queue := func(over string, rungs ...config.Rung) bool {
		cfg := &config.Config{
			Guard:   config.Guard{Over: over},
			Models:  map[string]config.Model{"p/free": {Price: free}, "p/dear": {Price: dear}},
			Ladders: map[string]config.Ladder{"l": {Rungs: rungs}},
			Queues:  []config.Queue{{Name: "q", Ladder: "l"}},
		}
		return unguarded(cfg)["q"]
	}
	for name, c := range map[string]struct{ got, want bool }{
		"a free model":      {queue("degrade", config.Rung{Model: "p/dear"}, config.Rung{Model: "p/free"}), true},
		"a text":            {queue("degrade", config.Rung{Model: "p/dear"}, config.Rung{Text: "x"}), true},
		"at the deadline":   {queue("degrade", config.Rung{Model: "p/dear"}, config.Rung{Text: "x", AtDeadline: true}), false},
		"after a while":     {queue("degrade", config.Rung{Model: "p/dear"}, config.Rung{Model: "p/free", After: 1}), false},
		"nothing free":      {queue("degrade", config.Rung{Model: "p/dear"}), false},
		"they are to defer": {queue("defer", config.Rung{Model: "p/free"}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t", name, c.got)
		}
	}
}
