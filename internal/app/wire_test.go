package app

import (
	"testing"
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
		ProbeLease: 30 * time.Second, Probes: 3, ProbeSuccesses: 2,
	}
	want := map[breaker.Key]func(*breaker.Settings){
		{Provider: "cloud", Model: "cloud/a"}: func(s *breaker.Settings) {
			s.Cooldown, s.SlowCall, s.ProbeLease = 10*time.Second, 20*time.Second, time.Minute
		},
		{Provider: "cloud", Model: "cloud/b"}: func(s *breaker.Settings) { s.ProbeLease = 15 * time.Second },
		{Provider: "local", Model: "local/c"}: func(*breaker.Settings) {},
		{Provider: "cloud"}: func(s *breaker.Settings) {
			s.Window, s.TaskProbes, s.ProbeLease = 50, true, time.Minute // of its slowest model
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
