package convoy

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// mostParties bounds a pipeline.
	mostParties = 64
	// patience bounds a pipeline of which somebody has all the time; see Patient.
	patience = 10 * time.Second
)

// Convoy has one pipeline at a time under way. It is safe for concurrent use, and
// has a goroutine while somebody waits.
type Convoy struct {
	rdb      redis.UniversalClient
	patience time.Duration

	mu      sync.Mutex
	busy    bool // a pipeline is under way
	waiting []*trip
}

// trip is the way of one party that waits for others to be back.
type trip struct {
	ctx     context.Context
	calls   []Call
	answers []Answer
	back    chan struct{} // closed when the answers are there
}

// New returns a convoy on rdb, which stays the caller's.
func New(rdb redis.UniversalClient) *Convoy { return &Convoy{rdb: rdb, patience: patience} }

// Patient has pipelines take up to d where somebody gives them as long; the default
// is 10 s. It returns the convoy, of which nobody knows yet.
func (c *Convoy) Patient(d time.Duration) *Convoy {
	c.patience = d
	return c
}

// Send sends a party, with others where there are, and returns with its answers.
// Where ctx ends before, they are its error, and the calls may run all the same.
func (c *Convoy) Send(ctx context.Context, p *Party) {
	if len(p.calls) == 0 {
		return
	}
	t, first := c.join(ctx, p)
	if first && c.begin(p, t) {
		return
	}
	select {
	case <-t.back:
		p.take(t.answers)
	case <-ctx.Done():
		c.leave(t)
		p.fail(ctx.Err())
	}
}

// join has a party wait for what is under way; first: nothing was, and now it is.
func (c *Convoy) join(ctx context.Context, p *Party) (t *trip, first bool) {
	t = &trip{ctx: ctx, calls: p.calls, back: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	first, c.busy = !c.busy, true
	c.waiting = append(c.waiting, t)
	return t, first
}

// begin sends the first party, with those that are as good as here: others that can
// run do so before. If it stays alone, its own goroutine sends it, and it has its
// answers.
func (c *Convoy) begin(p *Party, t *trip) (alone bool) {
	runtime.Gosched()
	trips := c.next()
	if len(trips) > 1 {
		go c.drive(trips)
		return false
	}
	p.take(send(t.ctx, c.rdb, pointers(nil, p.calls)))
	c.arrived()
	return true
}

// leave has a trip not begin, if it has not.
func (c *Convoy) leave(t *trip) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(o *trip) bool { return o == t })
}

// arrived follows a pipeline of a caller's own: the others go by a goroutine, so
// that the caller has its answers at once.
func (c *Convoy) arrived() {
	if next := c.next(); next != nil {
		go c.drive(next)
	}
}

// drive sends all who wait, until nobody does.
func (c *Convoy) drive(trips []*trip) {
	for ; trips != nil; trips = c.next() {
		c.depart(trips)
		runtime.Gosched() // who can come does
	}
}

// next takes those who go now; nil: nobody waits, and nothing is under way.
func (c *Convoy) next() []*trip {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), mostParties)
	if n == 0 {
		c.busy = false
		return nil
	}
	trips := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	return trips
}

// depart sends trips in one pipeline. None of them can end it: it has the time of
// the one that has the most.
func (c *Convoy) depart(trips []*trip) {
	ctx, cancel := context.WithDeadline(context.Background(), latest(trips, c.patience))
	defer cancel()
	var calls []*Call
	for _, t := range trips {
		calls = pointers(calls, t.calls)
	}
	answers := send(ctx, c.rdb, calls)
	for _, t := range trips {
		t.answers, answers = answers[:len(t.calls)], answers[len(t.calls):]
		close(t.back)
	}
}

func latest(trips []*trip, patience time.Duration) (end time.Time) {
	now := time.Now()
	for _, t := range trips {
		d, ok := t.ctx.Deadline()
		if !ok || d.After(now.Add(patience)) {
			d = now.Add(patience)
		}
		if d.After(end) {
			end = d
		}
	}
	return end
}

func pointers(to []*Call, calls []Call) []*Call {
	for i := range calls {
		to = append(to, &calls[i])
	}
	return to
}
