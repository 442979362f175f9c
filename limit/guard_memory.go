package limit

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// GuardOptions are the limits of a guard. Both may be asked at every call, so
// they must be quick and safe for concurrent use.
type GuardOptions struct {
	// Limits are a producer's; nil: none has any.
	Limits func(producer string) GuardLimits
	// Global are those of all producers together.
	Global GuardLimits
	// OnChange is told of each opening and closing, by the process whose call
	// made it. It must return at once. Defaults to nothing.
	OnChange func(GuardChange)
}

func (o GuardOptions) withDefaults() GuardOptions {
	if o.Limits == nil {
		o.Limits = func(string) GuardLimits { return GuardLimits{} }
	}
	if o.OnChange == nil {
		o.OnChange = func(GuardChange) {}
	}
	return o
}

// of returns a producer's limits; the system's calls have none.
func (o *GuardOptions) of(producer string) GuardLimits {
	if producer == System {
		return GuardLimits{}
	}
	return o.Limits(producer)
}

// tell passes on what a step changed.
func (o *GuardOptions) tell(producer string, r guardReply) {
	if r.change != 0 {
		o.OnChange(GuardChange{producer, r.change == guardOpened, guardTime(r.until), o.of(producer)})
	}
	if r.allChange != 0 {
		o.OnChange(GuardChange{AllProducers, r.allChange == guardOpened, guardTime(r.allUntil), o.Global})
	}
}

// err is the refusal of a reply, or nil.
func (r guardReply) err(c Charge) error {
	if r.scope == "" {
		return nil
	}
	return &OverError{Scope: r.scope, Producer: c.Producer, Batch: c.Batch, Wait: millis(r.wait)}
}

// guardTime is a time of the store's clock; 0: none.
func guardTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// GuardMemory is a guard for one process: a lock around the pure steps. It is
// safe for concurrent use.
type GuardMemory struct {
	o     GuardOptions
	clock func() time.Time

	mu   sync.Mutex
	book *book
}

var _ Guarder = (*GuardMemory)(nil)

// NewGuardMemory returns a guard that has counted nothing; the clock defaults to time.Now.
func NewGuardMemory(o GuardOptions, clock func() time.Time) *GuardMemory {
	if clock == nil {
		clock = time.Now
	}
	return &GuardMemory{o: o.withDefaults(), clock: clock, book: newBook()}
}

func (m *GuardMemory) with(f func(b *book, now int64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.book, m.clock().UnixMilli())
}

// Reserve counts one call, or returns *OverError.
func (m *GuardMemory) Reserve(_ context.Context, c Charge) error {
	var r guardReply
	m.with(func(b *book, now int64) { r = b.reserve(c.clean(), m.o.of(c.Producer), m.o.Global, now) })
	m.o.tell(c.Producer, r)
	return r.err(c)
}

// Settle corrects the estimate by what the call cost, in nano-dollars.
func (m *GuardMemory) Settle(_ context.Context, c Charge, usd int64) error {
	m.with(func(b *book, _ int64) { b.settle(c, usd) })
	return nil
}

// Release gives back a call that was not sent.
func (m *GuardMemory) Release(_ context.Context, c Charge) error {
	m.with(func(b *book, _ int64) { b.release(c) })
	return nil
}

// Reopen sets a producer's count of the hour to nothing, as `worker guard
// release` does; [AllProducers] is the count of all.
func (m *GuardMemory) Reopen(_ context.Context, producer, by string) error {
	m.with(func(b *book, now int64) { b.named(producer).reopen(by, now) })
	return nil
}

// Grant adds calls of a batch's own. A repeat of a grant by the same person at
// the same time changes nothing.
func (m *GuardMemory) Grant(_ context.Context, batch string, g Grant) error {
	m.with(func(b *book, _ int64) { b.purse(batch).grant(g) })
	return nil
}

// SetBudget caps what a batch may cost, in nano-dollars; 0: no cap.
func (m *GuardMemory) SetBudget(_ context.Context, batch string, nano int64) error {
	m.with(func(b *book, _ int64) { b.purse(batch).Budget = clampCharge(nano) })
	return nil
}

// List returns every producer with calls in the hour, and all of them together
// as [AllProducers], by name.
func (m *GuardMemory) List(context.Context) ([]GuardStatus, error) {
	var list []GuardStatus
	m.with(func(b *book, now int64) {
		b.all.tidy(now)
		list = append(list, b.all.status(AllProducers, m.o.Global, now))
		for _, name := range slices.Sorted(maps.Keys(b.producers)) {
			b.producers[name].tidy(now)
			list = append(list, b.producers[name].status(name, m.o.of(name), now))
		}
	})
	return list, nil
}

func (b *book) named(producer string) *window {
	if producer == AllProducers {
		return &b.all
	}
	return b.producer(producer)
}

func (b *book) purse(batch string) *purse {
	u := b.batches[batch]
	if u == nil {
		u = &purse{}
		b.batches[batch] = u
	}
	return u
}

func (u *purse) grant(g Grant) {
	at := g.At.UnixMilli()
	if u.GrantedAt == at && u.GrantedBy == g.By {
		return
	}
	calls := max(g.Calls, 0)
	u.Allowance += calls
	u.Granted += calls
	u.GrantedBy, u.GrantedAt = g.By, at
}

// status is a tidy window as people see it.
func (w *window) status(name string, l GuardLimits, now int64) GuardStatus {
	open, until := w.open(l, now)
	return GuardStatus{
		Producer: name, Open: open, Until: guardTime(until), Calls: w.Calls, USD: w.USD, Limits: l,
		Waiting: int64(len(w.Waiting)), Released: guardTime(w.Released), ReleasedBy: w.ReleasedBy,
	}
}

// room is what a tidy window leaves to new lines.
func (w *window) room(l GuardLimits) Room {
	open := w.full(l)
	r := Room{Unlimited: l.Calls <= 0 && !open, Ready: w.ready(l)}
	if l.Calls > 0 {
		r.Calls = l.Calls - w.Calls - int64(len(w.Waiting))
	}
	if open {
		r.Calls = min(r.Calls, 0)
	}
	return r
}

// ready counts the lines with places that would be let in, if each cost what a
// call of the hour did on average.
func (w *window) ready(l GuardLimits) (n int64) {
	usd := w.USD / max(w.Calls, 1)
	for n < int64(len(w.Waiting)) && w.free(l, n, usd, false) {
		n++
	}
	return n
}

// Rooms are the guard's as the keeper needs them.
type Rooms struct {
	All       Room
	Producers map[string]Room
	Batches   map[string]Room // of those that have an allowance or a budget
}

// Room returns what is left to new lines of the producers and batches.
func (m *GuardMemory) Room(_ context.Context, producers, batches []string) (Rooms, error) {
	r := Rooms{Producers: map[string]Room{}, Batches: map[string]Room{}}
	m.with(func(b *book, now int64) {
		b.all.tidy(now)
		r.All = b.all.room(m.o.Global)
		for _, name := range producers {
			w := b.producer(name)
			w.tidy(now)
			r.Producers[name] = w.room(m.o.of(name))
		}
		for _, id := range batches {
			if u := b.batches[id]; u != nil {
				r.Batches[id] = u.room()
			}
		}
	})
	return r, nil
}

func (u *purse) room() Room {
	return Room{Allowance: u.Allowance, Spent: u.Budget > 0 && u.Spent >= u.Budget}
}
