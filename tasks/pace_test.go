package tasks

import (
	"testing"
	"time"
)

func TestPaceCountsWaitersAndRate(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPace(5)
	if n, rate := p.crowd(now); n != 0 || rate != 0.5 {
		t.Errorf("nothing happened: %d waiters, %g a second; want the floor of a tenth of the slots", n, rate)
	}
	for i := range 40 {
		p.begin(now.Add(time.Duration(i) * 100 * time.Millisecond))
	}
	now = now.Add(4 * time.Second)
	p.postpone(now.Add(time.Second), now)
	p.postpone(now.Add(time.Minute), now)
	if n, rate := p.crowd(now); n != 2 || rate != 4 {
		t.Errorf("%d waiters, %g a second; want 2 and 4", n, rate)
	}
	if n := p.begunWithin(2*time.Second, now); n != 19 {
		t.Errorf("begun within 2 s: %d, want 19", n)
	}
	now = now.Add(30 * time.Second)
	if n, rate := p.crowd(now); n != 1 || rate != 0.5 {
		t.Errorf("later: %d waiters, %g a second; want 1 and the floor", n, rate)
	}
}

func TestAheadIsWhatTheQueueBeginsAndHalfTheSlots(t *testing.T) {
	for _, c := range []struct{ configured, slots, begun, want int }{
		{0, 0, 50, 0}, // nobody serves the queue: release nothing
		{0, 5, 0, 3}, {0, 8, 40, 40}, {7, 100, 400, 7}, {7, 0, 0, 0}, {1 << 20, 1, 0, maxAhead}, {0, 5, 1 << 20, maxAhead},
	} {
		if got := ahead(c.configured, c.slots, c.begun); got != c.want {
			t.Errorf("ahead(%d, %d, %d) = %d, want %d", c.configured, c.slots, c.begun, got, c.want)
		}
	}
}
