package app

import (
	"nightshift/config"
	"nightshift/replay"
)

// ReplaySetup is a configuration as a simulation runs it: with the numbers that a
// worker takes of it.
func ReplaySetup(cfg *config.Config, name string) replay.Setup {
	return replay.Setup{
		Name: name, Config: cfg, Numbers: settings(cfg), Limits: paceLimits(cfg), Guard: guardOptions(cfg, nil),
		Keys: keys(cfg), Unguarded: unguarded(cfg),
	}
}
