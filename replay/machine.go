package replay

import (
	"context"
	"iter"
	"time"

	"nightshift/ladder"
)

// clock is the virtual time of a machine: an event heap. Everything of a machine
// runs in one goroutine at a time, so nothing of it needs a lock.
type clock struct {
	now    time.Time
	events events
	seq    uint64
}

// event is something to do at a time; those of the same time go in the order in
// which they were put.
type event struct {
	at  int64 // ms
	seq uint64
	do  func()
}

// events are a binary heap, the next one first.
type events []event

func (e events) before(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}

func (e *events) push(x event) {
	*e = append(*e, x)
	h := *e
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (e *events) pop() event {
	h := *e
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	*e = h
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < last && h.before(down, least) {
				least = down
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// at does something at a time, or now where that has passed. Fractions of a ms
// are rounded up, so that nothing comes early.
func (c *clock) at(t time.Time, do func()) {
	if t.Before(c.now) {
		t = c.now
	}
	c.seq++
	c.events.push(event{t.Add(time.Millisecond - 1).UnixMilli(), c.seq, do})
}

func (c *clock) after(d time.Duration, do func()) { c.at(c.now.Add(d), do) }

// step does what is next and says whether there was something.
func (c *clock) step() bool {
	if len(c.events) == 0 {
		return false
	}
	e := c.events.pop()
	c.now = time.UnixMilli(e.at).UTC()
	e.do()
	return true
}

// fiber runs code that waits, such as an attempt, as a part of the machine: where
// the code sleeps, the fiber gives control back, and the clock resumes it. It is
// the coroutine of iter.Pull, which changes hands in a fraction of a µs without the
// scheduler. A fiber runs one job after another.
type fiber struct {
	clock  *clock
	job    func()
	ended  func() // called outside of the fiber when a job is done
	next   func() (bool, bool)
	stop   func()
	yield  func(bool) bool
	resume func()
	line   *simLine // whose attempt it runs; nil: none
	began  time.Time
	// firstInOutage says that the attempt is its line's first, and began in an outage.
	firstInOutage bool
	// throughOpen says that its call passes an open breaker.
	throughOpen bool
	worker      int
	out         ladder.Outcome // of the attempt
}

// newFiber returns an idle fiber.
func newFiber(c *clock, running **fiber) *fiber {
	f := &fiber{clock: c}
	f.next, f.stop = iter.Pull(func(yield func(bool) bool) {
		f.yield = yield
		for {
			f.job()
			if !yield(true) {
				return
			}
		}
	})
	f.resume = func() {
		*running = f
		done, _ := f.next()
		if done {
			*running = f // another fiber may have begun and ended meanwhile
			f.ended()
		}
		*running = nil
	}
	return f
}

// run begins a job, which may end at once.
func (f *fiber) run(job, ended func()) {
	f.job, f.ended = job, ended
	f.resume()
}

// sleep gives control back for d. It is called in the fiber's own job.
func (f *fiber) sleep(d time.Duration) bool {
	f.clock.after(max(d, 0), f.resume)
	return f.yield(false)
}

// sleeper is the ladder.Sleeper of attempts in fibers.
type sleeper struct{ running **fiber }

// Sleep implements ladder.Sleeper.
func (s sleeper) Sleep(ctx context.Context, d time.Duration) error {
	if !(*s.running).sleep(d) {
		return context.Canceled // the machine ends
	}
	return ctx.Err()
}
