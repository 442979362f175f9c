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
	begun   []time.Time // of the last paceWindow
	waiting []time.Time // wake times still ahead
}

// paceWindow is how far back the rate of beginning looks.
const paceWindow = 10 * time.Second

func newPace(slots int) *pace { return &pace{slots: slots} }

func (p *pace) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = append(dropBefore(p.begun, now.Add(-paceWindow)), now)
}

// begunWithin returns how many tasks began within the last d.
func (p *pace) begunWithin(d time.Duration, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, t := range p.begun {
		if t.After(now.Add(-d)) {
			n++
		}
	}
	return n
}

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
	p.begun = dropBefore(p.begun, now.Add(-paceWindow))
	rate := float64(len(p.begun)) / paceWindow.Seconds()
	return waiters, max(rate, float64(p.slots)/10)
}

// dropBefore removes the times before the given one from an ascending list.
func dropBefore(ts []time.Time, from time.Time) []time.Time {
	i := 0
	for i < len(ts) && ts[i].Before(from) {
		i++
	}
	return slices.Delete(ts, 0, i)
}
