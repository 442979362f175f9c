package app

import (
	"testing"
	"time"

	"nightshift/internal/sim"
)

// Redis stands still for 45 s, its connections open, while calls are in flight: all
// leases of the queue end. Afterwards work goes on within seconds, on what was in
// flight too, and no call is made twice.
func TestRedisFrozenFor45Seconds(t *testing.T) {
	t.Parallel()
	const lines, slots = 60, 5
	l := newLimited(t, limitedOptions{
		concurrency: slots, behaviour: sim.Behaviour{Latency: sim.Latency{Fixed: 2 * time.Second}},
	})
	l.submit("b", lines)
	l.start()
	l.start()
	l.until(time.Minute, "calls are in flight", func() bool {
		return l.status("b").Succeeded >= 2*slots && l.sim.Counts().InFlight == 2*slots
	})
	before := l.status("b")
	l.redis.Freeze(t)
	time.Sleep(45 * time.Second)
	l.redis.Thaw(t)
	l.until(15*time.Second, "work goes on", func() bool { return l.status("b").Succeeded > before.Succeeded+2*slots })
	s := l.done("b", 4*time.Minute)
	if n, twice := l.calledTwice(); s.Succeeded != lines || s.Calls != lines || s.WastedUSD != 0 || n != lines || twice != 0 {
		t.Errorf("%d lines called, %d twice; status %+v", n, twice, s)
	}
	l.ownAnswers("b", lines)
}
