package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/hours"
	"nightshift/internal/notify"
	"nightshift/internal/standby"
	"nightshift/ladder"
	"nightshift/limit"
	"nightshift/provider"
	"nightshift/tasks"
)

// probeSlack is how much longer the lease of a probe lasts than the probe may
// take: a watcher ends its probe 10 s before the lease, so that the report still
// counts, and the model's own limit must pass before that, since silence until
// then is the model's failure.
const probeSlack = 15 * time.Second

// settings gives the breakers of models and parents their numbers, which are
// looked up at every call and so worked out once.
func settings(cfg *config.Config) func(breaker.Key) breaker.Settings {
	all := map[breaker.Key]breaker.Settings{}
	for _, k := range keys(cfg) {
		m := cfg.Models[k.Model]
		all[k] = numbers(m.Breaker, m.FirstToken)
		p := k.Parent()
		b := cfg.Breaker
		if own := cfg.Providers[k.Provider].Breaker; own != nil {
			b = *own
		}
		s := numbers(b, m.FirstToken)
		s.ProbeLease = max(s.ProbeLease, all[p].ProbeLease) // its probes go to any of its models
		all[p] = s
	}
	return func(k breaker.Key) breaker.Settings { return all[k] }
}

// numbers are a block of the configuration; a probe is silent for at most so long.
func numbers(b config.Breaker, silent time.Duration) breaker.Settings {
	return breaker.Settings{
		Window: b.Window, Failures: b.Failures, MinResults: b.MinResults, Stale: time.Duration(b.Stale),
		Cooldown: b.Cooldown, MaxCooldown: b.MaxCooldown, ProbeLease: silent + probeSlack,
		Probes: b.Probes, ProbeSuccesses: b.ProbeSuccesses, SlowCall: b.SlowCall, TaskProbes: b.Probe == "task",
	}
}

// levels returns the breakers of all parents and models, the parents first.
func levels(models []breaker.Key) []breaker.Key { return append(breaker.Parents(models), models...) }

// keys returns the breakers of all models, by the models' keys.
func keys(cfg *config.Config) []breaker.Key {
	var all []breaker.Key
	for _, name := range slices.Sorted(maps.Keys(cfg.Models)) {
		m := cfg.Models[name]
		all = append(all, breaker.Key{Provider: m.Provider, Model: name, Region: m.Region})
	}
	return all
}

// providers returns the names of the providers that models use.
func providers(cfg *config.Config) []string {
	seen := map[string]bool{}
	for _, m := range cfg.Models {
		seen[m.Provider] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// answerers returns who can answer the lines of each queue.
func answerers(cfg *config.Config) map[string][]string {
	all := map[string][]string{}
	for _, q := range cfg.Queues {
		for _, r := range cfg.Ladders[q.Ladder].Rungs {
			by := cmp.Or(r.Model, ladder.TextModel)
			if !slices.Contains(all[q.Name], by) {
				all[q.Name] = append(all[q.Name], by)
			}
		}
	}
	return all
}

// adapters are the adapters of all models, by the models' keys.
type adapters map[string]ladder.Caller

// Close ends their idle connections.
func (a adapters) Close() {
	for _, c := range a {
		if closer, ok := c.(interface{ Close() }); ok {
			closer.Close()
		}
	}
}

// callers makes the adapter of each model.
func callers(cfg *config.Config) (adapters, error) {
	all := adapters{}
	for name, m := range cfg.Models {
		p := cfg.Providers[m.Provider]
		key := func(context.Context) (string, error) { return m.APIKey(os.LookupEnv) }
		switch p.API {
		case "openai":
			all[name] = provider.NewOpenAI(provider.OpenAIOptions{BaseURL: m.BaseURL, Headers: p.Headers, Key: key})
		case "anthropic":
			all[name] = provider.NewAnthropic(provider.AnthropicOptions{BaseURL: m.BaseURL, Headers: p.Headers, Key: key})
		default:
			return nil, fmt.Errorf("model %s: api %q is not supported", name, p.API)
		}
	}
	return all, nil
}

// gates is what a worker's calls pass: breakers, pace and guard in Redis, or,
// while it does not answer, the process's own. The switch knows what Redis has not
// heard.
func gates(c *Conn, m *Metrics, log *slog.Logger) (*ladder.RedisGate, *breaker.Fallback, *standby.Switch) {
	side := standby.New(standby.Options{Name: "breakers, pace and guard", OnChange: m.Fallback, Logger: log})
	breakers := breaker.NewFallback(c.Breakers, breaker.NewMemory(c.Numbers, nil), breaker.FallbackOptions{Switch: side})
	return ladder.NewRedisGate(ladder.RedisGateOptions{
		Redis: c.Redis.Breaker(), Switch: side, Breakers: c.Breakers, Pace: c.Pacer, Guard: c.Guard, OwnBreakers: breakers,
		OwnPace:  limit.NewFallback(c.Pacer, limit.NewMemory(paceLimits(c.Config), nil), limit.FallbackOptions{Switch: side}),
		OwnGuard: limit.NewGuardFallback(c.Guard, nil, limit.FallbackOptions{Switch: side}),
	}), breakers, side
}

// paced names a model for package limit, which knows no breakers.
func paced(k breaker.Key) limit.Model { return limit.Model{Provider: k.Provider, Model: k.Model} }

// ladders builds the ladders that the given queues climb, of the parts that they share.
func ladders(cfg *config.Config, parts ladder.Options, queues []config.Queue) (map[string]*ladder.Ladder, error) {
	all := map[string]*ladder.Ladder{}
	for _, q := range queues {
		if all[q.Ladder] != nil {
			continue
		}
		parts.Ladder = cfg.Ladders[q.Ladder]
		l, err := ladder.New(parts)
		if err != nil {
			return nil, err
		}
		all[q.Ladder] = l
	}
	return all, nil
}

// queueHours are the hours of all queues.
func queueHours(cfg *config.Config) map[string]hours.Hours {
	all := map[string]hours.Hours{}
	for _, q := range cfg.Queues {
		all[q.Name] = cfg.HoursOf(q.Name)
	}
	return all
}

// notifier tells URLs of the ends of batches.
func notifier(cfg *config.Config, version string) (*notify.Sender, error) {
	c := cfg.Batches.Notify
	secret, err := c.Secret(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	s, err := notify.New(notify.Options{Secret: secret, Private: c.AllowPrivate, Version: version})
	if err != nil {
		return nil, fmt.Errorf("batches.notify.secret_env: %w; this makes one: echo whsec_$(openssl rand -base64 32)", err)
	}
	return s, nil
}

// lastResorts are the texts at the deadline of every queue whose ladder has one,
// also of queues that this process does not serve: the keeper keeps all.
func lastResorts(cfg *config.Config) (map[string]tasks.LastResort, error) {
	all := map[string]tasks.LastResort{}
	for _, q := range cfg.Queues {
		l, err := ladder.NewLastResort(cfg.Ladders[q.Ladder], nil)
		if err != nil {
			return nil, err
		}
		if l != nil {
			all[q.Name] = l
		}
	}
	return all, nil
}
