package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// of returns a model's behaviour, with what it leaves out from the default.
func (s Script) of(model string) Behaviour {
	b, d := s.Models[model], s.Default
	if b.Latency == (Latency{}) {
		b.Latency = d.Latency
	}
	if b.Stream == (Stream{}) {
		b.Stream = d.Stream
	}
	if b.Tokens == (Tokens{}) {
		b.Tokens = d.Tokens
	}
	if b.Limit.none() {
		b.Limit = d.Limit
	}
	b.Faults = append(b.Faults[:len(b.Faults):len(b.Faults)], d.Faults...)
	return b
}

// chance returns the source of everything random about a model's n-th call.
func (s Script) chance(model string, n int64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(model))
	return rand.New(rand.NewPCG(s.Seed^h.Sum64(), uint64(n)))
}

// draw returns one latency.
func (l Latency) draw(r *rand.Rand) time.Duration {
	switch {
	case l.Max > 0:
		return l.Min + time.Duration(r.Int64N(int64(l.Max-l.Min)+1))
	case l.P99 > l.P50:
		sigma := math.Log(float64(l.P99)/float64(l.P50)) / z99
		return time.Duration(min(float64(l.P50)*math.Exp(sigma*r.NormFloat64()), float64(maxLatency)))
	case l.P50 > 0:
		return l.P50
	default:
		return l.Fixed
	}
}

// draw returns one number of completion tokens; 0: by the length.
func (t Tokens) draw(r *rand.Rand) int {
	if t.Max == 0 {
		return 0
	}
	return t.Min + r.IntN(t.Max-t.Min+1)
}

// interval is the time between two tokens.
func (s Stream) interval() time.Duration {
	if s.TokensPerSecond == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / s.TokensPerSecond)
}

// applies says whether a fault meets the n-th call of its model, elapsed after
// the start.
func (f Fault) applies(elapsed time.Duration, n int64, r *rand.Rand) bool {
	lucky := f.Share > 0 && r.Float64() >= f.Share // drawn first: a window must not shift later draws
	return !lucky && elapsed >= f.From && (f.To == 0 || elapsed < f.To) &&
		n >= f.FirstCall && (f.LastCall == 0 || n <= f.LastCall)
}
