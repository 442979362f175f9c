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
