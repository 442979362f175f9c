package app

import (
	"testing"

	"nightshift/config"
	"nightshift/limit"
)

func TestGuardOptionsAreThoseOfTheConfiguration(t *testing.T) {
	o := guardOptions(&config.Config{Guard: config.Guard{
		CallsPerHour: 5000, USDPerHour: 0.3, GlobalCallsPerHour: 9000,
		Producers: map[string]config.GuardProducer{"anna": {CallsPerHour: 7}, "bert": {USDPerHour: 1e-9}},
	}}, nil)
	for name, want := range map[string]limit.GuardLimits{
		"anna": {Calls: 7, USD: 300_000_000}, "bert": {Calls: 5000, USD: 1}, "carl": {Calls: 5000, USD: 300_000_000},
	} {
		if got := o.Limits(name); got != want {
			t.Errorf("limits of %s: %+v, want %+v", name, got, want)
		}
	}
	if want := (limit.GuardLimits{Calls: 9000}); o.Global != want {
		t.Errorf("of all: %+v, want %+v", o.Global, want)
	}
}
