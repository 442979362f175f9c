package replay

import (
	"context"
	"slices"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

// simBatch is a batch under way.
type simBatch struct {
	*Batch
	index    int
	queue    *simQueue
	producer *simProducer
	next     int // the first line that is not released
	left     int // without an end
	out      int // released, without an end
	deferred int // of them
	deadline time.Time
}

func (b *simBatch) waiting() int { return len(b.Lines) - b.next }

func (b *simBatch) slept() {
	b.deferred++
	b.producer.deferred++
}

func (b *simBatch) woke() {
	b.deferred--
	b.producer.deferred--
}

// view is the batch as package batch sees it.
func (b *simBatch) view(now time.Time) batch.Backlog {
	return batch.Backlog{
		Description: batch.Description{ID: b.ID, Producer: b.Producer, Queue: b.queue.name, Priority: b.Priority, CreatedAt: b.At, Deadline: b.deadline},
		Now:         now, Waiting: int64(b.waiting()), Out: int64(b.out), Classes: map[int]int64{0: int64(b.waiting())}, Deferred: map[int]int{0: b.deferred},
	}
}

// simProducer is what one producer has in a queue, over all of its batches.
type simProducer struct {
	name     string
	live     []*simBatch // with lines that are not released, in the order in which they came
	out      int         // lines that are released and have no end
	deferred int         // of them
}

// foremostOf bounds the batches of a producer that are looked at at once: the first
// that came. Thousands of small ones that wait for a guard would cost more than all
// calls.
const foremostOf = 64

// foremost are its batches that lines may be released of.
func (p *simProducer) foremost() []*simBatch { return p.live[:min(foremostOf, len(p.live))] }

// rest is what it has out beside its foremost batches, as a batch that goes before
// them.
func (p *simProducer) rest(now time.Time) batch.Backlog {
	out, deferred := p.out, p.deferred
	for _, b := range p.foremost() {
		out -= b.out
		deferred -= b.deferred
	}
	r := batch.Backlog{Description: batch.Description{Producer: p.name}, Now: now, Out: int64(out), Deferred: map[int]int{0: deferred}}
	if len(p.live) > 0 {
		r.Priority, r.CreatedAt, r.Deadline = p.live[0].Priority, p.live[0].At, p.live[0].deadline
	}
	return r
}

// backlog is what of a queue is not released.
type backlog struct {
	producers []*simProducer
	byName    map[string]*simProducer
	waiting   int // lines
	expires   time.Time
}

func newBacklog() backlog { return backlog{byName: map[string]*simProducer{}} }

func (g *backlog) add(b *simBatch) {
	p := g.byName[b.Producer]
	if p == nil {
		p = &simProducer{name: b.Producer}
		g.byName[b.Producer] = p
		g.producers = append(g.producers, p)
	}
	b.producer = p
	p.live = append(p.live, b)
	g.waiting += len(b.Lines)
	if g.expires.IsZero() || !b.deadline.IsZero() && b.deadline.Before(g.expires) {
		g.expires = b.deadline
	}
}

// drop forgets the batches that are wholly released.
func (g *backlog) drop() {
	for _, p := range g.producers {
		if slices.ContainsFunc(p.live, func(b *simBatch) bool { return b.waiting() == 0 }) {
			p.live = slices.DeleteFunc(p.live, func(b *simBatch) bool { return b.waiting() == 0 })
		}
	}
}

// expire ends the lines of batches whose deadline has passed.
func (g *backlog) expire(now time.Time) {
	if g.expires.IsZero() || now.Before(g.expires) {
		return
	}
	g.expires = time.Time{}
	for _, p := range g.producers {
		for _, b := range p.live {
			switch {
			case b.deadline.IsZero():
			case !now.Before(b.deadline):
				g.waiting -= b.waiting()
				b.expire()
			case g.expires.IsZero() || b.deadline.Before(g.expires):
				g.expires = b.deadline
			}
		}
	}
	g.drop()
}

// expire ends the lines that are not released.
func (b *simBatch) expire() {
	for _, l := range b.Lines[b.next:] {
		b.out++
		b.producer.out++
		b.ended(&simLine{batch: b, number: l.Number}, lineExpired, ladder.Answer{})
	}
	b.next = len(b.Lines)
}

// release makes the next n lines ready.
func (b *simBatch) release(n int) {
	q := b.queue
	lines := make([]simLine, n)
	for i := range lines {
		l := &b.Lines[b.next+i]
		lines[i] = simLine{batch: b, number: l.Number, in: int64(l.Input), out: int64(l.Output)}
		q.ready.push(&lines[i])
	}
	b.next += n
	b.out += n
	b.producer.out += n
	q.backlog.waiting -= n
}

// release moves lines from the backlogs, by the rules of package batch.
func (q *simQueue) release(room int) {
	now, g := q.m.clock.now, &q.backlog
	g.expire(now)
	p := batch.Picking{Now: now, Room: room, Deferred: max(minClass, q.slots), Rate: q.begun.rate(now)}
	if !q.m.Setup.Unguarded[q.name] {
		q.bound(&p)
	}
	ended := false
	for b, n := range g.pick(p) {
		b.release(n)
		ended = ended || b.waiting() == 0
	}
	if ended {
		g.drop()
	}
}

// full says that nothing of the producer may be released: its guard leaves no
// call, or as many of its lines as may are deferred. Lines are of one class here.
func (p *simProducer) full(k batch.Picking) bool {
	n, bounded := k.Calls.Producers[p.name]
	return bounded && n <= 0 || p.deferred > 0 && p.deferred >= k.Deferred
}

// pick says how many lines to release of which batches, in order. Where none may
// be, or the batches of one producer wait in the order in which they came, it is
// plain; that is nearly always.
func (g *backlog) pick(k batch.Picking) func(func(*simBatch, int) bool) {
	return func(yield func(*simBatch, int) bool) {
		var only *simProducer
		producers, full := 0, true // all of them
		for _, p := range g.producers {
			if len(p.live) > 0 {
				only, full = p, full && p.full(k)
				producers++
			}
		}
		switch {
		case full:
		case producers == 1 && only.inOrder(k):
			only.take(k, yield)
		default:
			g.pickMany(k, yield)
		}
	}
}

// inOrder says that the batches are released in the order in which they came,
// where no other producer has any: they are of one priority, none is due before
// an earlier one, and none so late that others go first.
func (p *simProducer) inOrder(k batch.Picking) bool {
	ahead := 0
	for i, b := range p.foremost() {
		if i > 0 && !p.live[i-1].before(b) {
			return false
		}
		waiting := b.waiting()
		if calls, bounded := k.Calls.Producers[p.name]; bounded {
			waiting = min(waiting, calls)
		}
		ahead += waiting + b.out
		if !b.deadline.IsZero() && k.Rate > 0 && float64(ahead)/k.Rate > b.deadline.Sub(k.Now).Seconds() {
			return false
		}
	}
	return true
}

// before says that a batch of the same producer goes before another.
func (b *simBatch) before(c *simBatch) bool {
	switch {
	case b.Priority != c.Priority, b.deadline.IsZero() != c.deadline.IsZero():
		return false
	case !b.deadline.Equal(c.deadline):
		return b.deadline.Before(c.deadline)
	case !b.At.Equal(c.At):
		return b.At.Before(c.At)
	}
	return b.ID < c.ID
}

// take releases the batches in their order.
func (p *simProducer) take(k batch.Picking, yield func(*simBatch, int) bool) {
	most := k.Room
	if calls, bounded := k.Calls.Producers[p.name]; bounded {
		most = min(most, calls)
	}
	if p.deferred > 0 {
		most = min(most, k.Deferred-p.deferred)
	}
	for _, b := range p.foremost() {
		n := min(b.waiting(), most)
		if n <= 0 || !yield(b, n) {
			return
		}
		most -= n
	}
}

// pickMany asks package batch.
func (g *backlog) pickMany(k batch.Picking, yield func(*simBatch, int) bool) {
	var views []batch.Backlog
	var some []*simBatch
	for _, p := range g.producers {
		views = append(views, p.rest(k.Now))
		for _, b := range p.foremost() {
			views, some = append(views, b.view(k.Now)), append(some, b)
		}
	}
	for _, s := range batch.Pick(views, k) {
		i := slices.IndexFunc(some, func(b *simBatch) bool { return b.ID == s.ID })
		if !yield(some[i], s.N) {
			return
		}
	}
}

// bound keeps what is released within what the guards leave.
func (q *simQueue) bound(k *batch.Picking) {
	names := make([]string, 0, len(q.backlog.producers))
	for _, p := range q.backlog.producers {
		if len(p.live) > 0 {
			names = append(names, p.name)
		}
	}
	rooms, _ := q.m.guard.Room(context.Background(), names, nil) // memory never fails
	all := 0
	for _, p := range q.backlog.producers {
		all += p.out - p.deferred
	}
	k.Calls.Producers = map[string]int{}
	for _, name := range names {
		if r := rooms.Producers[name]; !r.Unlimited {
			p := q.backlog.byName[name]
			k.Calls.Producers[name] = max(0, int(r.Calls)-(p.out-p.deferred))
		}
	}
	if !rooms.All.Unlimited {
		k.Room = min(k.Room, max(0, int(rooms.All.Calls)-all))
	}
}
