package app

import (
	"cmp"
	"context"
	"slices"

	"nightshift/config"
	"nightshift/limit"
	"nightshift/provider"
)

// guardOptions are the guard's limits as configured. A producer's are looked up
// at every call, so those of the named ones are worked out once.
func guardOptions(cfg *config.Config, hook func(limit.GuardChange)) limit.GuardOptions {
	g := cfg.Guard
	others, named := guardLimits(g.Of("")), map[string]limit.GuardLimits{}
	for name := range g.Producers {
		named[name] = guardLimits(g.Of(name))
	}
	return limit.GuardOptions{
		Limits: func(producer string) limit.GuardLimits {
			if l, ok := named[producer]; ok {
				return l
			}
			return others
		},
		Global:   limit.GuardLimits{Calls: int64(g.GlobalCallsPerHour)},
		OnChange: hook,
	}
}

func guardLimits(p config.GuardProducer) limit.GuardLimits {
	return limit.GuardLimits{Calls: int64(p.CallsPerHour), USD: int64(provider.Dollars(p.USDPerHour))}
}

// unguarded are the queues whose lines go on while a guard is open: their ladders
// have a rung that costs nothing and is open at any time.
func unguarded(cfg *config.Config) map[string]bool {
	all := map[string]bool{}
	if cfg.Guard.Over != config.OverDegrade {
		return all
	}
	for _, q := range cfg.Queues {
		all[q.Name] = slices.ContainsFunc(cfg.Ladders[q.Ladder].Rungs, func(r config.Rung) bool {
			return cfg.PriceOf(r).Free() && r.After == 0 && !r.AtDeadline
		})
	}
	return all
}

// Guards returns the guards of all producers that have calls in the hour or
// limits of their own, by name; first, where there is a limit of all together,
// that of [limit.AllProducers].
func (c *Conn) Guards(ctx context.Context) ([]limit.GuardStatus, error) {
	list, err := c.Guard.List(ctx)
	if err != nil {
		return nil, err
	}
	limits := guardOptions(c.Config, nil)
	if limits.Global == (limit.GuardLimits{}) {
		list = slices.DeleteFunc(list, func(s limit.GuardStatus) bool { return s.Producer == limit.AllProducers })
	}
	for name := range c.Config.Guard.Producers {
		if !slices.ContainsFunc(list, func(s limit.GuardStatus) bool { return s.Producer == name }) {
			list = append(list, limit.GuardStatus{Producer: name, Limits: limits.Limits(name)})
		}
	}
	slices.SortFunc(list, func(a, b limit.GuardStatus) int {
		return cmp.Or(first(a)-first(b), cmp.Compare(a.Producer, b.Producer))
	})
	return list, nil
}

// first is less for the guard over all producers.
func first(s limit.GuardStatus) int {
	if s.Producer == limit.AllProducers {
		return 0
	}
	return 1
}
