package tasks

import (
	"slices"
	"sync"
	"time"
)

// pace knows how fast a queue begins tasks in this process and how many lines
// this process sent to wait. The ratio of the two is the fleet's as well, so a
// deferral's spread needs no question to Redis.
type pace struct {
	mu      sync.Mutex
	slots   int
	begun   [paceSteps]step // a ring, by time
	waiting []time.Time     // wake times still ahead
}

// step is how many tasks began in one paceStep since 1970.
type step struct {
	at int64
	n  int
}

const (
	// paceWindow is how far back the rate of beginning looks, in steps of paceStep;
	// thousands of tasks a second are not kept one by one.
	paceWindow = 10 * time.Second
	paceStep   = 100 * time.Millisecond
	paceSteps  = int64(paceWindow/paceStep) + 1
)

func newPace(slots int) *pace { return &pace{slots: slots} }

func (p *pace) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := stepOf(now)
	s := &p.begun[at%paceSteps]
	if s.at != at {
		*s = step{at: at}
	}
	s.n++
}

// begunWithin returns how many tasks began within the last d.
func (p *pace) begunWithin(d time.Duration, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count(d, now)
}

// count takes the steps that began after now-d. The caller holds the lock.
func (p *pace) count(d time.Duration, now time.Time) (n int) {
	from, to := stepOf(now.Add(-d)), stepOf(now)
	for _, s := range p.begun {
		if s.at > from && s.at <= to {
			n += s.n
		}
	}
	return n
}

func stepOf(t time.Time) int64 { return t.UnixNano() / int64(paceStep) }

func (p *pace) postpone(until, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(t time.Time) bool { return t.Before(now) })
	p.waiting = append(p.waiting, until)
}

// crowd returns how many lines wait and how many a second the queue begins, at
// least one slot in ten a second: a call takes seconds.
func (p *pace) crowd(now time.Time) (waiters int, perSecond float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.waiting {
		if t.After(now) {
			waiters++
		}
	}
	rate := float64(p.count(paceWindow, now)) / paceWindow.Seconds()
	return waiters, max(rate, float64(p.slots)/10)
}
