package app

import (
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
