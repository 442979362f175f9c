package replay

import (
	"context"
	"slices"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/ladder"
)

// The numbers of package tasks, which a simulation follows.
const (
	keeperTick = 100 * time.Millisecond
	blocked    = 500 * time.Millisecond // until the keeper looks again at what a guard or a class holds back
	minClass   = 100
	forward    = time.Second // between two looks of the queue at what is due
)

// simQueue is a service class: its slots, what is released, what waits.
type simQueue struct {
	m           *machine
	name        string
	ladder      *ladder.Ladder
	retries     int
	maxCooldown time.Duration
	deadline    time.Duration
	configured  int // release_ahead
	slots       int
	workers     int
	free        fifo[*fiber]
	ready       fifo[*simLine]
	backlog     backlog
	asleep      sleepers
	ticking     bool
	wakeable    bool // a breaker closed, or a guard may have room
	begun       pace
}

func (m *machine) addQueue(c config.Queue, l *ladder.Ladder) {
	q := &simQueue{
		m: m, name: c.Name, ladder: l, retries: m.Policy.retries(c.Retries), maxCooldown: m.Setup.Config.Breaker.MaxCooldown,
		deadline: c.Deadline, configured: c.ReleaseAhead, workers: max(m.Traffic.Workers, 1), backlog: newBacklog(),
	}
	slots := m.Traffic.Slots[c.Name]
	if slots <= 0 {
		slots = c.Concurrency
	}
	q.slots = slots * q.workers
	for i := range q.slots {
		f := m.newFiber(i % q.workers)
		f.job = func() { f.out = q.ladder.Attempt(context.Background(), q.request(f.line), journal{}) }
		f.ended = func() { q.end(f) }
		q.free.push(f)
	}
	m.queues = append(m.queues, q)
	m.byQueue[c.Name] = q
}

// take gets a batch.
func (q *simQueue) take(index int, b *Batch) {
	s := &simBatch{Batch: b, index: index, queue: q, left: len(b.Lines), deadline: b.Deadline}
	if s.deadline.IsZero() && q.deadline > 0 {
		s.deadline = b.At.Add(q.deadline)
	}
	q.m.tally.came(b, q.m.clock.now)
	q.backlog.add(s)
	q.tick(0)
}

// tick has the keeper look at the queue after d.
func (q *simQueue) tick(d time.Duration) {
	if q.ticking {
		return
	}
	q.ticking = true
	at := q.m.clock.now.Add(d).Truncate(keeperTick).Add(keeperTick)
	q.m.clock.at(at, q.keep)
}

// ahead is how many tasks should be pending.
func (q *simQueue) ahead() int {
	return batch.Ahead(q.configured, q.slots, q.begun.within(2*time.Second, q.m.clock.now))
}

// keep wakes and releases lines, as the keeper does.
func (q *simQueue) keep() {
	q.ticking = false
	room := q.ahead() - q.ready.len()
	if room > 0 && q.wakeable {
		room -= q.wakeUp(room)
	}
	if room > 0 && q.backlog.waiting > 0 {
		q.release(room)
		if q.backlog.waiting > 0 && q.ready.len() < q.ahead() {
			q.tick(blocked)
		}
	}
	q.dispatch()
}

// wakeUp wakes lines whose breaker is closed, the first that were deferred first.
func (q *simQueue) wakeUp(room int) (n int) {
	var asked []string // of the line before: most wait for the same
	opened := false
	for l := q.asleep.first; l != nil && n < room; {
		next := l.after
		if asked == nil || !slices.Equal(l.open, asked) {
			asked, opened = l.open, q.m.doors.opened(l.open)
		}
		if opened {
			q.awake(l)
			n++
		}
		l = next
	}
	q.wakeable = n == room
	if q.wakeable {
		q.tick(keeperTick)
	}
	return n
}

// awake puts a line that sleeps back to those that are ready.
func (q *simQueue) awake(l *simLine) {
	q.asleep.remove(l)
	l.wake++
	l.isAsleep = false
	l.batch.woke()
	q.ready.push(l)
}

// dispatch gives ready lines to free slots.
func (q *simQueue) dispatch() {
	for q.free.len() > 0 && q.ready.len() > 0 {
		q.begin(q.free.pop(), q.ready.pop())
	}
	if (q.backlog.waiting > 0 || q.wakeable) && !q.ticking && q.ready.len() < (q.ahead()+1)/2 {
		q.tick(0)
	}
}

// begin runs an attempt of a line in a slot.
func (q *simQueue) begin(f *fiber, l *simLine) {
	now := q.m.clock.now
	b := l.batch
	if !b.deadline.IsZero() && !now.Before(b.deadline) {
		b.ended(l, lineExpired, ladder.Answer{})
		q.free.push(f)
		return
	}
	q.begun.begin(now)
	f.line, f.began = l, now
	f.firstInOutage = !l.begun && q.m.tally.isOut(now)
	l.begun = true
	f.resume()
}

// end is the end of an attempt.
func (q *simQueue) end(f *fiber) {
	l, out := f.line, f.out
	q.m.tally.attempted(f, q.m.clock.now.Sub(f.began))
	f.line, f.out = nil, ladder.Outcome{}
	out.Leaving.Tell(context.Background()) // the stores are here
	q.apply(l, out)
	q.free.push(f)
	q.dispatch()
}

// closed tells the queues that a breaker closed.
func (m *machine) closed(breaker.Key) {
	for _, q := range m.queues {
		if q.asleep.n > 0 {
			q.wakeable = true
			q.tick(0)
		}
	}
}

// pace counts what a queue began, in steps of 100 ms over the last 10 s.
type pace struct {
	at [101]int64
	n  [101]int
}

func (p *pace) begin(now time.Time) {
	step := now.UnixMilli() / 100
	i := step % 101
	if p.at[i] != step {
		p.at[i], p.n[i] = step, 0
	}
	p.n[i]++
}

func (p *pace) within(d time.Duration, now time.Time) (n int) {
	to := now.UnixMilli() / 100
	steps := d.Milliseconds() / 100
	for s := to - steps + 1; s <= to; s++ {
		if i := s % 101; p.at[i] == s {
			n += p.n[i]
		}
	}
	return n
}

// rate is a second.
func (p *pace) rate(now time.Time) float64 {
	return float64(p.within(10*time.Second, now)) / 10
}
