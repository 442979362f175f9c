package breaker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is a Store for one process: a lock a breaker around [Step]. It is
// safe for concurrent use.
type Memory struct {
	settings func(Key) Settings
	clock    func() time.Time
	notify   *notifier
	lastID   atomic.Uint64

	mu    sync.RWMutex
	cells map[string]*cell // by Key.Model
}

type cell struct {
	mu  sync.Mutex
	key Key
	rec Record
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store. Settings is asked at every operation, so it
// must be quick and safe for concurrent use; zero fields take their defaults.
// The clock defaults to time.Now.
func NewMemory(settings func(Key) Settings, clock func() time.Time, opts ...Option) *Memory {
	if clock == nil {
		clock = time.Now
	}
	return &Memory{settings: settings, clock: clock, notify: newNotifier(opts), cells: map[string]*cell{}}
}

// Admit lets one call through, or returns *OpenError.
func (m *Memory) Admit(_ context.Context, key Key) (Ticket, error) {
	id := m.lastID.Add(1)
	r := m.do(key, Op{Kind: OpAdmit, ID: id})
	if r.Code == Rejected {
		return Ticket{}, r.rejection(key)
	}
	return r.ticket(key, id, false), nil
}

// AdmitProbe takes the probe lease, or returns *OpenError or ErrNotDue.
func (m *Memory) AdmitProbe(_ context.Context, key Key) (Ticket, error) {
	id := m.lastID.Add(1)
	r := m.do(key, Op{Kind: OpAdmitProbe, ID: id})
	switch r.Code {
	case Rejected:
		return Ticket{}, r.rejection(key)
	case NotDue:
		return Ticket{}, ErrNotDue
	}
	return r.ticket(key, id, true), nil
}

// Report gives the outcome of an admitted call.
func (m *Memory) Report(_ context.Context, t Ticket, rep Report) error {
	m.do(t.Key, Op{Kind: OpReport, ID: t.ID, Epoch: t.Epoch, Probe: t.Probe, Report: rep.cleaned()})
	return nil
}

// Release gives a ticket back.
func (m *Memory) Release(_ context.Context, t Ticket) error {
	m.do(t.Key, Op{Kind: OpRelease, ID: t.ID, Epoch: t.Epoch, Probe: t.Probe})
	return nil
}

// Due returns the provider's breakers whose probe is due and wanted.
func (m *Memory) Due(_ context.Context, provider string) ([]Key, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	now := m.clock().UnixMilli()
	var due []Key
	for _, c := range m.cells {
		if c.key.Provider == provider && c.due(now, m.settings(c.key).WithDefaults()) {
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
		list[i] = m.record(k).status(k, now, m.settings(k).WithDefaults())
	}
	return list, nil
}

// do applies one operation, then tells of the transition it made.
func (m *Memory) do(key Key, op Op) Reply {
	s := m.settings(key).WithDefaults()
	c := m.cell(key)
	c.mu.Lock()
	r := c.rec.apply(op, m.clock().UnixMilli(), s)
	m.notify.add(key, r.Change)
	c.mu.Unlock()
	if r.Change.From != "" {
		m.notify.drain()
	}
	return r
}

func (m *Memory) cell(key Key) *cell {
	m.mu.RLock()
	c := m.cells[key.Model]
	m.mu.RUnlock()
	if c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c = m.cells[key.Model]; c == nil {
		c = &cell{key: key}
		m.cells[key.Model] = c
	}
	return c
}

// record returns a copy; of a breaker never used, the zero record.
func (m *Memory) record(key Key) Record {
	m.mu.RLock()
	c := m.cells[key.Model]
	m.mu.RUnlock()
	if c == nil {
		return Record{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rec.clone()
}

func (c *cell) due(now int64, s Settings) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec := c.rec // settle and due touch no slice
	rec.settle(now, s)
	return rec.due(now)
}
