package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The issue's provider: 600 calls a minute, a burst of a second, 300 ms; 50
// slots, 300 lines, nothing configured. It refuses in 50 ms.
func issues() hidden {
	return hidden{
		rpm: steady(600), burst: 10, latency: always(300 * time.Millisecond), refusal: 50 * time.Millisecond,
		slots: 50, workers: 1, lines: 300, most: 2 * time.Hour,
	}
}

func halvesAndDoubles(at time.Duration) float64 {
	if at > 12*time.Second && at < 24*time.Second {
		return 300
	}
	return 600
}

// bound is what a simulation must keep to.
type bound struct {
	name    string
	change  func(*hidden)
	ratio   float64
	refused float64
}

func (b *bound) hold(t *testing.T) {
	t.Run(b.name, func(t *testing.T) {
		var ratio, refused float64
		for seed := range uint64(5) {
			h := issues()
			b.change(&h)
			h.seed = seed
			s := h.run().play()
			ratio, refused = max(ratio, s.ratio()), max(refused, s.share())
			if s.early > 0 {
				t.Errorf("%d calls were let go while the model was parked", s.early)
			}
		}
		t.Logf("at most %.3f of the ideal time, %.1f%% refused", ratio, 100*refused)
		if ratio > b.ratio || refused > b.refused {
			t.Errorf("want at most %.3f and %.1f%%", b.ratio, 100*b.refused)
		}
	})
}

func TestAHiddenLimitIsFound(t *testing.T) {
	for _, b := range []bound{
		{"as it is", func(*hidden) {}, 1.15, 0.05},
		{"with Retry-After", func(h *hidden) { h.retryAfter = true }, 1.15, 0.05},
		{"with headers", func(h *hidden) { h.headers = true }, 1.15, 0},
		{"with both", func(h *hidden) { h.headers, h.retryAfter = true, true }, 1.15, 0},
		{"slow to refuse", func(h *hidden) { h.refusal = 300 * time.Millisecond }, 1.15, 0.06},
		{"eight workers", func(h *hidden) { h.workers = 8 }, 1.15, 0.05},
		{"eight workers with Retry-After", func(h *hidden) { h.workers, h.retryAfter = 8, true }, 1.15, 0.05},
		{"a longer batch", func(h *hidden) { h.lines = 3000 }, 1.05, 0.02},
		{"configured", func(h *hidden) { h.limits.RPM = 600 }, 1.10, 0.01},
		{"configured too high", func(h *hidden) { h.limits.RPM = 1200 }, 1.15, 0.05},
	} {
		b.hold(t)
	}
}

func TestALimitThatHalvesAndDoublesIsFollowed(t *testing.T) {
	for _, b := range []bound{
		{"as it is", func(*hidden) {}, 1.15, 0.05},
		{"its burst likewise", func(h *hidden) { h.burst = 0 }, 1.15, 0.05},
		{"with Retry-After", func(h *hidden) { h.retryAfter = true }, 1.15, 0.05},
		{"with headers", func(h *hidden) { h.headers = true }, 1.15, 0.05},
		{"eight workers", func(h *hidden) { h.workers = 8 }, 1.15, 0.05},
	} {
		change := b.change
		b.change = func(h *hidden) { h.rpm = halvesAndDoubles; change(h) }
		b.hold(t)
	}
}

func TestAHiddenConcurrencyIsFound(t *testing.T) {
	served := func(n int, latency time.Duration) func(*hidden) {
		return func(h *hidden) { h.rpm, h.concurrency, h.latency = nil, n, always(latency) }
	}
	for _, b := range []bound{
		{"four of 2 s", served(4, 2*time.Second), 1.15, 0.05},
		{"one of 1 s", served(1, time.Second), 1.15, 0.05},
		{"twenty of 300 ms", func(h *hidden) { served(20, 300*time.Millisecond)(h); h.lines = 6000 }, 1.6, 0.01},
	} {
		b.hold(t)
	}
}

// While nothing is known, a call that waits for one in flight asks again by the
// latency: soon where answers come at once, seldom where they take long.
func TestWaitsForCallsInFlightFollowTheLatency(t *testing.T) {
	for _, c := range []struct {
		latency, longest time.Duration
		questions        int // a line, at most
	}{
		{100 * time.Microsecond, 20 * time.Millisecond, 3},
		{2 * time.Millisecond, 20 * time.Millisecond, 2},
		{100 * time.Millisecond, 50 * time.Millisecond, 2},
		{10 * time.Second, 500 * time.Millisecond, 20},
	} {
		h := issues()
		h.rpm, h.slots, h.lines, h.latency = nil, 400, 20_000, always(c.latency)
		s := h.run().play()
		if s.done < s.lines || s.longest > c.longest || s.asked > c.questions*s.lines {
			t.Errorf("%s: %d lines in %s, %d questions, waits up to %s", c.latency, s.done, s.now, s.asked, s.longest)
		}
		t.Logf("%s: %s, %d questions, waits up to %s", c.latency, s.now, s.asked, s.longest)
	}
}

// What the issue does not bound: how far off the prior of a second's burst is.
func TestOtherProviders(t *testing.T) {
	for _, b := range []bound{
		{"a burst of a minute", func(h *hidden) { h.burst, h.lines = 600, 3000 }, 1.10, 0.10},
		{"no burst at all", func(h *hidden) { h.burst, h.lines = 1, 3000 }, 3.5, 0.03},
		{"five a minute", func(h *hidden) { h.rpm, h.burst, h.lines = steady(5), 1, 40 }, 2, 0.3},
		{"no limit", func(h *hidden) { h.rpm, h.slots, h.lines = nil, 500, 6000 }, 2.5, 0},
		{"no limit, 10 s", func(h *hidden) { h.rpm, h.lines, h.latency = nil, 500, always(10*time.Second) }, 1.3, 0},
		{"no limit, instant", func(h *hidden) { h.rpm, h.lines, h.latency = nil, 20_000, always(2*time.Millisecond) }, 2.5, 0},
		{"large and slow", func(h *hidden) {
			h.rpm, h.burst, h.slots, h.lines = steady(3000), 0, 400, 2500
			h.latency = func(r *rand.Rand) time.Duration {
				return 3*time.Second + time.Duration(r.IntN(4000))*time.Millisecond
			}
		}, 1.8, 0.05},
	} {
		b.hold(t)
	}
}
