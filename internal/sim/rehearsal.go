package sim

import "time"

// Rehearsal is a night in about twenty seconds, for models that are sent as
// "large" and "small": large is out from second 4 to 12, small refuses some
// calls around second 8 to 10 because it suddenly carries everything.
func Rehearsal() Script {
	return Script{
		Seed:    1,
		Default: Behaviour{Latency: Latency{Min: 300 * time.Millisecond, Max: 700 * time.Millisecond}},
		Models: map[string]Behaviour{
			"large": {
				Latency: Latency{P50: 450 * time.Millisecond, P99: 900 * time.Millisecond},
				Tokens:  Tokens{Min: 80, Max: 240},
				Faults: []Fault{
					{Kind: Unavailable, From: 4 * time.Second, To: 12 * time.Second, Delay: 40 * time.Millisecond},
				},
			},
			"small": {
				Latency: Latency{P50: 300 * time.Millisecond, P99: 600 * time.Millisecond},
				Tokens:  Tokens{Min: 40, Max: 160},
				Faults: []Fault{{
					Kind: RateLimited, From: 8 * time.Second, To: 10 * time.Second, Share: 0.5,
					RetryAfter: RetrySeconds, RetryIn: 2 * time.Second, Delay: 20 * time.Millisecond,
				}},
			},
		},
	}
}
