package app

import (
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
