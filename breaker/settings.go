package breaker

import (
	"errors"
	"fmt"
	"time"
)

// Limits of the settings, and constants of the automatic rules.
const (
	maxWindow = 1000 // results; a report reads the whole ring
	maxProbes = 100  // leases; a rejection reads them all

	autoStale    = 5 * time.Minute
	autoStaleMax = time.Hour
)

// Settings are the numbers of one breaker. The zero value of a field means its
// default, which [Settings.WithDefaults] fills in. Durations count in whole
// milliseconds.
type Settings struct {
	// Window is how many of the last results are looked at, at most 1000.
	// Defaults to 20.
	Window int
	// Failures of the window open the breaker. Defaults to just over half of
	// Window: 11 of 20.
	Failures int
	// MinResults is how many results the window must hold before it can open
	// the breaker. Defaults to 0: a cold window need not fill first.
	MinResults int
	// Stale is the age from which a result no longer counts. Defaults to
	// automatic: 5 minutes, or as long as a window of calls takes at the pace
	// at which they come, up to an hour.
	Stale time.Duration
	// Cooldown is how long the breaker stays open before its first probe; it
	// doubles with each failed one. Defaults to 30 s, at most MaxCooldown.
	Cooldown time.Duration
	// MaxCooldown caps the doubled cooldown and a provider's Retry-After, and
	// is the cooldown of a hard condition. Defaults to 5 minutes, at least
	// Cooldown.
	MaxCooldown time.Duration
	// ProbeLease is how long a prober may take before another may try. It must
	// exceed the probe's own deadline. Defaults to 40 s: the 30 s that the
	// slowest tier may be silent, and 10 s to report.
	ProbeLease time.Duration
	// Probes is how many probes may be in flight at once in the whole fleet, at
	// most 100. Defaults to 1.
	Probes int
	// ProbeSuccesses is how many probes of one round must succeed to close the
	// breaker. A round sends Probes probes, or as many as must succeed, and is
	// lost as soon as so many successes can no longer be reached. Defaults to 1.
	ProbeSuccesses int
	// SlowCall is the latency above which a success is a failure. Defaults to
	// 0: none is.
	SlowCall time.Duration
	// TaskProbes has waiting calls probe in place of a prober: the first that
	// asks when a probe is due is admitted, as the probe.
	TaskProbes bool
}

// Levels are the settings of a model's breaker and of its parent's.
type Levels struct {
	Model, Parent Settings
}

// WithDefaults returns the settings with every zero field filled in.
func (s Settings) WithDefaults() Settings {
	if s.Window == 0 {
		s.Window = 20
	}
	if s.Failures == 0 {
		s.Failures = s.Window/2 + 1
	}
	if s.Cooldown == 0 {
		s.Cooldown = 30 * time.Second
		if s.MaxCooldown > 0 {
			s.Cooldown = min(s.Cooldown, s.MaxCooldown)
		}
	}
	if s.MaxCooldown == 0 {
		s.MaxCooldown = max(5*time.Minute, s.Cooldown)
	}
	if s.ProbeLease == 0 {
		s.ProbeLease = 40 * time.Second
	}
	s.Probes = max(s.Probes, 1)
	s.ProbeSuccesses = max(s.ProbeSuccesses, 1)
	return s
}

// Validate returns everything that is wrong with complete settings, joined, or nil.
func (s Settings) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(s.Window >= 1 && s.Window <= maxWindow, "window %d is not between 1 and %d", s.Window, maxWindow)
	check(s.Failures >= 1 && s.Failures <= s.Window, "failures %d is not between 1 and window %d", s.Failures, s.Window)
	check(s.MinResults >= 0 && s.MinResults <= s.Window, "min_results %d is not between 0 and window %d", s.MinResults, s.Window)
	check(s.Stale == 0 || s.Stale >= time.Millisecond, "stale %s is shorter than 1ms", s.Stale)
	check(s.Cooldown >= time.Millisecond, "cooldown %s is shorter than 1ms", s.Cooldown)
	check(s.MaxCooldown >= s.Cooldown, "max_cooldown %s is shorter than cooldown %s", s.MaxCooldown, s.Cooldown)
	check(s.ProbeLease >= time.Millisecond, "probe lease %s is shorter than 1ms", s.ProbeLease)
	check(s.Probes >= 1 && s.Probes <= maxProbes, "probes %d is not between 1 and %d", s.Probes, maxProbes)
	check(s.ProbeSuccesses >= 1 && s.ProbeSuccesses <= maxProbes, "probe_successes %d is not between 1 and %d", s.ProbeSuccesses, maxProbes)
	check(s.SlowCall >= 0, "slow_call %s is negative", s.SlowCall)
	return errors.Join(errs...)
}

// round is how many probes one half-open round has.
func (s Settings) round() int { return max(s.Probes, s.ProbeSuccesses) }

// wantedFor is how long after a rejection a breaker is probed for the work that
// was rejected, in ms. A rejected task comes back after at most a cooldown, a
// lease and some seconds of spread; twice that lets it queue for a while.
func (s Settings) wantedFor() int64 {
	return 2*(s.MaxCooldown+s.ProbeLease).Milliseconds() + time.Minute.Milliseconds()
}

// remembered is how many of the last tickets a closed breaker knows as counted.
func (s Settings) remembered() int { return max(64, s.Window) }

// ttl is when Redis may forget a breaker that nobody touches: long after it
// has lost its meaning.
func (s Settings) ttl() time.Duration {
	return 24*time.Hour + 2*max(s.Stale, autoStaleMax) + 4*(s.MaxCooldown+s.ProbeLease)
}
