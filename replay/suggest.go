package replay

import (
	"cmp"
	"slices"
	"time"

	"nightshift/breaker"
)

// Candidate are numbers of a breaker, with what they came to.
type Candidate struct {
	Window     int     `json:"window"`
	Failures   int     `json:"failures"`
	Cooldown   float64 `json:"cooldown_s"`
	Wasted     int     `json:"wasted_calls"`
	Probes     int     `json:"probes"`
	FalseTrips int     `json:"false_trips"`
	WaitP95    float64 `json:"wait_p95_s"`
	Configured bool    `json:"configured"`
	// Frontier says that no other one is better in one of the three, wasted calls,
	// false trips and wait, and not worse in the others.
	Frontier bool `json:"frontier"`
}

// sweeps are the numbers that are tried.
var sweeps = struct {
	windows   [][2]int // with their failures
	cooldowns []time.Duration
}{
	[][2]int{{5, 3}, {5, 4}, {10, 4}, {10, 6}, {20, 8}, {20, 11}, {20, 15}, {40, 15}, {40, 22}},
	[]time.Duration{10 * time.Second, 30 * time.Second, time.Minute},
}

// Suggest tries numbers for all breakers of the last setup over the traffic, and
// returns them all, with the frontier of wasted calls against false trips and delay.
func Suggest(q Question) ([]Candidate, error) {
	setup := q.Setups[len(q.Setups)-1]
	ours, _ := PickPolicies(Ours)
	all := []Candidate{{Configured: true}}
	runs := []Run{{Setup: setup, Policy: ours[0], Traffic: q.Traffic, World: q.World, Seed: q.Seed, Done: q.Done}}
	for _, w := range sweeps.windows {
		for _, c := range sweeps.cooldowns {
			s := setup
			s.Numbers = func(k breaker.Key) breaker.Settings {
				n := setup.Numbers(k)
				n.Window, n.Failures, n.Cooldown = w[0], w[1], c
				n.MaxCooldown = max(n.MaxCooldown, c)
				return n
			}
			all = append(all, Candidate{Window: w[0], Failures: w[1], Cooldown: c.Seconds()})
			runs = append(runs, Run{Setup: s, Policy: ours[0], Traffic: q.Traffic, World: q.World, Seed: q.Seed, Done: q.Done})
		}
	}
	figures, err := simulateAll(runs)
	if err != nil {
		return nil, err
	}
	for i, f := range figures {
		c := &all[i]
		c.Wasted, c.Probes, c.FalseTrips, c.WaitP95 = f.Wasted, f.Probes, f.FalseTrips, f.WaitP95
	}
	if len(setup.Keys) > 0 {
		n := setup.Numbers(setup.Keys[0]).WithDefaults()
		all[0].Window, all[0].Failures, all[0].Cooldown = n.Window, n.Failures, n.Cooldown.Seconds()
	}
	markFrontier(all)
	slices.SortStableFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Wasted, b.Wasted), cmp.Compare(a.FalseTrips, b.FalseTrips), cmp.Compare(a.WaitP95, b.WaitP95))
	})
	return all, nil
}

func markFrontier(all []Candidate) {
	for i := range all {
		all[i].Frontier = !slices.ContainsFunc(all, func(o Candidate) bool { return o.beats(&all[i]) })
	}
}

// beats says that o is better in one figure and worse in none.
func (o *Candidate) beats(c *Candidate) bool {
	worse := o.Wasted > c.Wasted || o.FalseTrips > c.FalseTrips || o.WaitP95 > c.WaitP95
	better := o.Wasted < c.Wasted || o.FalseTrips < c.FalseTrips || o.WaitP95 < c.WaitP95
	return better && !worse
}
