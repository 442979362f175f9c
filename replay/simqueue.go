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
	maxAhead   = 10_000
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
	free        []*fiber // first in, first out
	ready       []*simLine
	live        []*simBatch // with lines that are not released
	asleep      []*simLine  // deferred, in the order in which they were
	waiting     int         // lines that are not released
	ticking     bool
	wakeable    bool // a breaker closed, or a guard may have room
	begun       pace
}

// simBatch is a batch under way.
type simBatch struct {
	*Batch
	index    int
	queue    *simQueue
	next     int // the first line that is not released
	left     int // without an end
	back     batch.Backlog
	deadline time.Time
}

func (m *machine) addQueue(c config.Queue, l *ladder.Ladder) {
	q := &simQueue{
		m: m, name: c.Name, ladder: l, retries: m.Policy.retries(c.Retries), maxCooldown: m.Setup.Config.Breaker.MaxCooldown,
		deadline: c.Deadline, configured: c.ReleaseAhead, workers: max(m.Traffic.Workers, 1),
	}
	slots := m.Traffic.Slots[c.Name]
	if slots <= 0 {
		slots = c.Concurrency
	}
	q.slots = slots * q.workers
	for i := range q.slots {
		q.free = append(q.free, m.newFiber(i%q.workers))
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
	q.m.tally.came(s)
	n := int64(len(b.Lines))
	s.back = batch.Backlog{
		Description: batch.Description{ID: b.ID, Producer: b.Producer, Queue: q.name, Priority: b.Priority, CreatedAt: b.At, Deadline: s.deadline},
		Waiting:     n, Classes: map[int]int64{0: n}, Deferred: map[int]int{},
	}
	q.live = append(q.live, s)
	q.waiting += len(b.Lines)
	q.tick(0)
}

// tick has the keeper look at the queue after d.
func (q *simQueue) tick(d time.Duration) {
	if q.ticking {
		return
	}
	q.ticking = true
	at := q.m.clock.now.Add(d).Truncate(keeperTick).Add(keeperTick)
	q.m.clock.at(at, func() {
		q.ticking = false
		q.keep()
	})
}

// ahead is how many tasks should be pending.
func (q *simQueue) ahead() int {
	if q.configured > 0 {
		return min(q.configured, maxAhead)
	}
	return min(max(q.begun.within(2*time.Second, q.m.clock.now), (q.slots+1)/2), maxAhead)
}

// keep wakes and releases lines, as the keeper does.
func (q *simQueue) keep() {
	room := q.ahead() - len(q.ready)
	if room > 0 && q.wakeable {
		room -= q.wakeUp(room)
	}
	if room > 0 && q.waiting > 0 {
		q.release(room)
		if q.waiting > 0 && len(q.ready) < q.ahead() {
			q.tick(blocked)
		}
	}
	q.dispatch()
}

// wakeUp wakes lines whose breaker is closed, the first that were deferred first.
func (q *simQueue) wakeUp(room int) (n int) {
	kept := q.asleep[:0]
	for _, l := range q.asleep {
		if n < room && q.m.doors.opened(l.open) {
			q.awake(l)
			n++
			continue
		}
		kept = append(kept, l)
	}
	clear(q.asleep[len(kept):])
	q.asleep = kept
	q.wakeable = n == room
	if q.wakeable {
		q.tick(keeperTick)
	}
	return n
}

// awake puts a line back to those that are ready. The caller takes it from asleep.
func (q *simQueue) awake(l *simLine) {
	l.wake++
	l.isAsleep = false
	l.batch.back.Deferred[0]--
	q.ready = append(q.ready, l)
}

// release moves lines from the backlogs, by the rules of package batch.
func (q *simQueue) release(room int) {
	now := q.m.clock.now
	q.expire(now)
	p := batch.Picking{Now: now, Room: room, Deferred: max(minClass, q.slots), Rate: q.begun.rate(now)}
	backlogs := q.foremost(now)
	if !q.m.Setup.Unguarded[q.name] {
		q.bound(&p, backlogs)
	}
	for _, s := range batch.Pick(backlogs, p) {
		i := slices.IndexFunc(q.live, func(b *simBatch) bool { return b.ID == s.ID })
		q.live[i].release(s.N)
	}
	q.live = slices.DeleteFunc(q.live, func(b *simBatch) bool { return b.next == len(b.Lines) })
}

// foremostOf bounds the batches of a producer that are looked at at once: the first
// that came. Thousands of small ones that wait for a guard would cost more than all
// calls.
const foremostOf = 64

// foremost are the backlogs that lines may be released of.
func (q *simQueue) foremost(now time.Time) (some []batch.Backlog) {
	seen := map[string]int{}
	for _, b := range q.live {
		if seen[b.Producer]++; seen[b.Producer] > foremostOf {
			continue
		}
		b.back.Now = now
		some = append(some, b.back)
	}
	return some
}

// bound keeps what is released within what the guards leave.
func (q *simQueue) bound(p *batch.Picking, backlogs []batch.Backlog) {
	var producers []string
	mine, all := map[string]int{}, 0
	for _, b := range backlogs {
		if !slices.Contains(producers, b.Producer) {
			producers = append(producers, b.Producer)
		}
		n := max(int(b.Out)-b.Deferred[0], 0)
		mine[b.Producer] += n
		all += n
	}
	rooms, _ := q.m.guard.Room(context.Background(), producers, nil) // memory never fails
	p.Calls.Producers = map[string]int{}
	for _, name := range producers {
		if r := rooms.Producers[name]; !r.Unlimited {
			p.Calls.Producers[name] = max(0, int(r.Calls)-mine[name])
		}
	}
	if !rooms.All.Unlimited {
		p.Room = min(p.Room, max(0, int(rooms.All.Calls)-all))
	}
}

// release makes the next n lines ready.
func (b *simBatch) release(n int) {
	q := b.queue
	for range n {
		l := b.Lines[b.next]
		b.next++
		q.ready = append(q.ready, &simLine{batch: b, number: l.Number, in: int64(l.Input), out: int64(l.Output)})
	}
	q.waiting -= n
	b.back.Waiting -= int64(n)
	b.back.Classes[0] -= int64(n)
	b.back.Out += int64(n)
}

// expire ends the lines of batches whose deadline has passed.
func (q *simQueue) expire(now time.Time) {
	for _, b := range q.live {
		if b.deadline.IsZero() || now.Before(b.deadline) {
			continue
		}
		for _, l := range b.Lines[b.next:] {
			b.back.Out++
			b.ended(&simLine{batch: b, number: l.Number}, lineExpired, ladder.Answer{})
		}
		n := len(b.Lines) - b.next
		q.waiting -= n
		b.next = len(b.Lines)
	}
	q.live = slices.DeleteFunc(q.live, func(b *simBatch) bool { return b.next == len(b.Lines) })
}

// dispatch gives ready lines to free slots.
func (q *simQueue) dispatch() {
	for len(q.free) > 0 && len(q.ready) > 0 {
		f, l := q.free[0], q.ready[0]
		q.free, q.ready = q.free[1:], q.ready[1:]
		q.begin(f, l)
	}
	if (q.waiting > 0 || q.wakeable) && len(q.ready) < (q.ahead()+1)/2 {
		q.tick(0)
	}
}

// begin runs an attempt of a line in a slot.
func (q *simQueue) begin(f *fiber, l *simLine) {
	now := q.m.clock.now
	b := l.batch
	if l.first.IsZero() {
		l.first = now
	}
	if !b.deadline.IsZero() && !now.Before(b.deadline) {
		b.ended(l, lineExpired, ladder.Answer{})
		q.free = append(q.free, f)
		return
	}
	q.begun.begin(now)
	f.line = l
	f.run(func() { f.out = q.ladder.Attempt(context.Background(), q.request(l), journal{}) }, func() {
		q.m.tally.held += q.m.clock.now.Sub(now)
		f.line = nil
		out := f.out
		f.out = ladder.Outcome{}
		out.Leaving.Done()
		q.apply(l, out)
		q.free = append(q.free, f)
		q.dispatch()
	})
}

// closed tells the queues that a breaker closed.
func (m *machine) closed(breaker.Key) {
	for _, q := range m.queues {
		if len(q.asleep) > 0 {
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
