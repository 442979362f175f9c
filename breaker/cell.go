package breaker

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// cells are the breakers of a Memory.
type cells struct {
	settings func(Key) Settings
	read     func() time.Time // see clock
	lastID   atomic.Uint64

	models   atomic.Pointer[map[string]*cell] // by Key.Model, see next; replaced, never changed
	mu       sync.Mutex                       // of replacing it, and of families
	families map[Key]*family                  // by the parent's key
}

// family is a parent with its models, under one lock: an operation on a model
// is one on its parent.
type family struct {
	key Key

	mu     sync.Mutex
	rec    Record
	spare  spare
	clock  clock
	newest uint64 // at least the largest ticket that a record of the family counted

	gate gate
}

// cell is a model's breaker; its family's lock guards it.
type cell struct {
	*family
	all  *cells
	key  Key
	next *cell // another provider's model of the same name

	rec   Record
	spare spare
	s     Levels // complete; what was asked for last
	asked int64  // when, ms
	lv    levels // of all that

	gate gate
}

// gate is the epoch of a record that is closed, else 0: what a call needs to
// know of a level. It changes under the family's lock and is read without.
type gate struct{ atomic.Int64 }

func (g *gate) set(r *Record) {
	if r.closed() {
		g.Store(r.Epoch)
	} else {
		g.Store(0)
	}
}

func newCells(settings func(Key) Settings, read func() time.Time) *cells {
	a := &cells{settings: settings, read: read, families: map[Key]*family{}}
	a.models.Store(&map[string]*cell{})
	return a
}

func newCell(a *cells, f *family, key Key) *cell {
	c := &cell{family: f, all: a, key: key}
	c.lv = levels{m: &c.rec, p: &f.rec, s: &c.s, spare: spares{&c.spare, &f.spare}, tag: modelTag(key.Model)}
	return c
}

// bothClosed is what [Step] answers to a call while both levels are closed and
// in use: it changes nothing then. An epoch never comes back, so the model's,
// read twice, was in force when the parent's was read.
func (c *cell) bothClosed() (epoch, parent int64, ok bool) {
	epoch = c.gate.Load()
	parent = c.family.gate.Load()
	return epoch, parent, epoch != 0 && parent != 0 && c.gate.Load() == epoch
}

// answered counts the report of a call as [Step] does in the usual case; else
// it changes nothing and says so.
func (c *cell) answered(t *Ticket, rep *Report) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	ok := c.levels(t.ID, now).answered(t.ID, t.Epoch, t.ParentEpoch, rep, now)
	if ok {
		c.newest = max(c.newest, t.ID)
	}
	return ok
}

// do applies one operation; told hears the reply under the lock, so that
// transitions are told in their order.
func (c *cell) do(op *Op, told func(*Reply)) (r Reply) {
	c.within(op.ID, func(l *levels, now int64) {
		r = l.apply(op, now)
		told(&r)
	})
	return r
}

// within runs f under the lock of the model's family, for an operation on that
// ticket, if any.
func (c *cell) within(id uint64, f func(l *levels, now int64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	defer c.leave()
	f(c.levels(id, now), now)
}

// leave notes what the short ways rely on, before the lock is given back.
func (c *cell) leave() {
	for _, seen := range [][]uint64{c.rec.Seen, c.family.rec.Seen} {
		if n := len(seen); n > 0 {
			c.newest = max(c.newest, seen[n-1])
		}
	}
	c.gate.set(&c.rec)
	c.family.gate.set(&c.family.rec)
}

// askEvery is how long settings are relied on, ms.
const askEvery = 1000

// levels returns what an operation works on; the lock must be held.
func (c *cell) levels(id uint64, now int64) *levels {
	if since := now - c.asked; c.s.Model.Window == 0 || since < 0 || since >= askEvery {
		c.s = Levels{Model: c.all.complete(c.key), Parent: c.all.complete(c.family.key)}
		c.asked = now
	}
	c.lv.unseen = id > c.newest
	return &c.lv
}

func (a *cells) complete(key Key) Settings { return a.settings(key).WithDefaults() }

// find returns the model's breaker, or nil.
func (a *cells) find(key Key) *cell {
	c := (*a.models.Load())[key.Model]
	for c != nil && c.key.Provider != key.Provider {
		c = c.next
	}
	return c
}

// cell returns the model's breaker; of a parent's key, a cell that nobody keeps
// beside the parent.
func (a *cells) cell(key Key) *cell {
	if c := a.find(key); c != nil {
		return c
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.find(key); c != nil {
		return c
	}
	f := a.families[key.Parent()]
	if f == nil {
		f = &family{key: key.Parent(), clock: clock{read: a.read}}
		a.families[f.key] = f
	}
	c := newCell(a, f, key)
	if key.Model != "" {
		models := maps.Clone(*a.models.Load())
		c.next = models[key.Model]
		models[key.Model] = c
		a.models.Store(&models)
	}
	return c
}

// of returns a provider's parents and models.
func (a *cells) of(provider string) (families []*family, models []*cell) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.families {
		if f.key.Provider == provider {
			families = append(families, f)
		}
	}
	for _, c := range *a.models.Load() {
		for ; c != nil; c = c.next {
			if c.key.Provider == provider {
				models = append(models, c)
			}
		}
	}
	return families, models
}

// record returns a copy; of a breaker never used, the zero record.
func (a *cells) record(key Key) Record {
	a.mu.Lock()
	c, f := a.find(key), a.families[key]
	a.mu.Unlock()
	switch {
	case c != nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.rec.clone()
	case f != nil:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.rec.clone()
	}
	return Record{}
}

// due says whether the model's own breaker is to be probed by a prober.
func (c *cell) due(now int64, s Settings) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec := c.rec.clone()
	rec.settle(now, &s)
	return c.family.rec.closed() && !rec.taskProbes(&s) && rec.due(now, &s)
}

// due returns the model through which a prober is to probe the parent.
func (f *family) due(now int64, s Settings) (Key, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rec := f.rec.clone()
	rec.settle(now, &s)
	k := Key{Provider: f.key.Provider, Region: f.key.Region, Model: rec.turn()}
	return k, k.Model != "" && !rec.taskProbes(&s) && rec.due(now, &s)
}
