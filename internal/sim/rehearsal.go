package sim

import "time"

// Rehearsal is a night in about half a minute, for models that are sent as
// "large" and "small":
//
//	second  0    4        9          13
//	large   well │ out              │ well
//	small   well      │ 429 │ out   │ well
//	                 6     8  9
//
// So large's breaker opens and lines fall to small; small refuses some of what
// it suddenly carries, and is parked; then both are out and lines wait, until a
// probe finds one of them well again.
func Rehearsal() Script {
	return Script{
		Seed:    1,
		Default: Behaviour{Latency: Latency{Min: 300 * time.Millisecond, Max: 700 * time.Millisecond}},
		Models: map[string]Behaviour{
			"large": {
				Latency: Latency{P50: 450 * time.Millisecond, P99: 900 * time.Millisecond},
				Tokens:  Tokens{Min: 80, Max: 240},
				Faults: []Fault{
					{Kind: Unavailable, From: 4 * time.Second, To: 16 * time.Second, Delay: 40 * time.Millisecond},
				},
			},
			"small": {
				Latency: Latency{P50: 400 * time.Millisecond, P99: 800 * time.Millisecond},
				Tokens:  Tokens{Min: 40, Max: 160},
				Faults: []Fault{
					{
						Kind: RateLimited, From: 6 * time.Second, To: 8 * time.Second, Share: 0.3,
						RetryAfter: RetrySeconds, RetryIn: time.Second, Delay: 20 * time.Millisecond,
					},
					{Kind: Unavailable, From: 9 * time.Second, To: 16 * time.Second, Delay: 40 * time.Millisecond},
				},
			},
		},
	}
}
