package breaker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is a Store for one process: a lock a parent around [Step]. It is safe
// for concurrent use.
type Memory struct {
	settings func(Key) Settings
	clock    func() time.Time
	notify   *notifier
	lastID   atomic.Uint64

	mu       sync.RWMutex
	cells    map[string]*cell // models, by Key.Model
	families map[Key]*family  // by the parent's key
}

// family is a parent with its models, under one lock: an operation on a model
// is one on its parent.
type family struct {
	mu  sync.Mutex
	key Key
	rec Record
}

// cell is a model's breaker; its family's lock guards it.
type cell struct {
	*family
	key Key
	rec Record
	// The settings as they were given last, and complete: an operation neither
	// works them out anew nor allocates.
	given, s Levels
}

// levels returns what an operation works on; the lock must be held.
func (c *cell) levels(given *Levels) levels {
	if *given != c.given {
		c.given = *given
		c.s = Levels{Model: given.Model.WithDefaults(), Parent: given.Parent.WithDefaults()}
	}
	return levels{&c.rec, &c.family.rec, &c.s}
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store. Settings is asked at every operation for
// the model's key and for its parent's, whose Model is "", so it must be quick
// and safe for concurrent use; zero fields take their defaults. The clock
// defaults to time.Now.
func NewMemory(settings func(Key) Settings, clock func() time.Time, opts ...Option) *Memory {
	if clock == nil {
		clock = time.Now
	}
	return &Memory{
		settings: settings, clock: clock, notify: newNotifier(opts),
		cells: map[string]*cell{}, families: map[Key]*family{},
	}
}

// Admit lets one call through, or returns *OpenError.
func (m *Memory) Admit(_ context.Context, key Key, opts ...AdmitOption) (Ticket, error) {
	id := m.lastID.Add(1)
	r := m.do(key, &Op{Kind: OpAdmit, Model: key.Model, ID: id, NoProbe: noProbe(opts)})
	if r.Code == Rejected {
		return Ticket{}, r.rejection(key)
	}
	return r.ticket(key, id), nil
}

// AdmitProbe takes a probe's lease, or returns *OpenError or ErrNotDue.
func (m *Memory) AdmitProbe(_ context.Context, key Key) (Ticket, error) {
	id := m.lastID.Add(1)
	r := m.do(key, &Op{Kind: OpAdmitProbe, Model: key.Model, ID: id})
	switch r.Code {
	case Rejected:
		return Ticket{}, r.rejection(key)
	case NotDue:
		return Ticket{}, ErrNotDue
	}
	return r.ticket(key, id), nil
}

// Report gives the outcome of an admitted call.
func (m *Memory) Report(_ context.Context, t Ticket, rep Report) error {
	op := t.ended(OpReport, rep)
	m.do(t.Key, &op)
	return nil
}

// Release gives a ticket back.
func (m *Memory) Release(_ context.Context, t Ticket) error {
	op := t.ended(OpRelease, Report{})
	m.do(t.Key, &op)
	return nil
}

// Force does what an operator wants of a breaker. It lasts as long as the process.
func (m *Memory) Force(_ context.Context, key Key, f Force) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("force breaker %s: %w", key, err)
	}
	m.do(key, &Op{Kind: OpForce, Model: key.Model, Scope: key.Scope(), Force: f})
	return nil
}

// Due returns the provider's models to probe.
func (m *Memory) Due(_ context.Context, provider string) ([]Key, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	now := m.clock().UnixMilli()
	var due []Key
	for _, f := range m.families {
		if f.key.Provider == provider {
			if k, ok := f.due(now, m.complete(f.key)); ok {
				due = append(due, k)
			}
		}
	}
	for _, c := range m.cells {
		if c.key.Provider == provider && c.due(now, m.complete(c.key)) {
			due = append(due, c.key)
		}
	}
	return due, nil
}

// List returns the state of the breakers, in their order.
func (m *Memory) List(_ context.Context, keys []Key) ([]Status, error) {
	now := m.clock().UnixMilli()
	list := make([]Status, len(keys))
	for i, k := range keys {
		list[i] = m.record(k).status(k, now, m.complete(k))
	}
	return list, nil
}

func (m *Memory) complete(key Key) Settings { return m.settings(key).WithDefaults() }

// do applies one operation, then tells of the transitions it made.
func (m *Memory) do(key Key, op *Op) Reply {
	given := Levels{Model: m.settings(key), Parent: m.settings(key.Parent())}
	c := m.cell(key)
	c.mu.Lock()
	r := c.levels(&given).apply(op, m.clock().UnixMilli())
	m.notify.add(key, r)
	c.mu.Unlock()
	if r.changed() {
		m.notify.drain()
	}
	return r
}

// cell returns the model's breaker; of a parent's key, a cell that nobody keeps
// beside the parent.
func (m *Memory) cell(key Key) *cell {
	m.mu.RLock()
	c := m.cells[key.Model]
	m.mu.RUnlock()
	if c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c = m.cells[key.Model]; c != nil {
		return c
	}
	f := m.families[key.Parent()]
	if f == nil {
		f = &family{key: key.Parent()}
		m.families[f.key] = f
	}
	c = &cell{family: f, key: key}
	if key.Model != "" {
		m.cells[key.Model] = c
	}
	return c
}

// record returns a copy; of a breaker never used, the zero record.
func (m *Memory) record(key Key) Record {
	m.mu.RLock()
	c, f := m.cells[key.Model], m.families[key]
	m.mu.RUnlock()
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

func noProbe(opts []AdmitOption) bool {
	for _, o := range opts {
		if o == NoProbe {
			return true
		}
	}
	return false
}
