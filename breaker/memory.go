package breaker

import (
	"context"
	"fmt"
	"time"
)

// Memory is a Store for one process: a lock a parent around [Step], and two
// reads without a lock for a call while both levels are closed. It is safe for
// concurrent use.
type Memory struct {
	clock  func() time.Time
	notify *notifier
	*cells
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store. Settings is asked for a model's key and for
// its parent's, whose Model is "", when the model is used and what it said
// before is a second old; zero fields take their defaults. It must not use the
// store, and must be safe for concurrent use. The clock defaults to the
// system's, of which a breaker reads the date once a second; in between it
// relies on the time that passes.
func NewMemory(settings func(Key) Settings, clock func() time.Time, opts ...Option) *Memory {
	m := &Memory{clock: clock, notify: newNotifier(opts), cells: newCells(settings, clock)}
	if clock == nil {
		m.clock = time.Now
	}
	return m
}

// Admit lets one call through, or returns *OpenError.
func (m *Memory) Admit(_ context.Context, key Key, opts ...AdmitOption) (Ticket, error) {
	c, id := m.cell(key), m.lastID.Add(1)
	if epoch, parent, ok := c.bothClosed(); ok {
		return Ticket{Key: key, ID: id, Epoch: epoch, ParentEpoch: parent, cell: c}, nil
	}
	if err := key.check(); err != nil {
		return Ticket{}, fmt.Errorf("admit call: %w", err)
	}
	r := m.do(key, &Op{Kind: OpAdmit, Model: key.Model, ID: id, NoProbe: noProbe(opts)})
	if r.Code == Rejected {
		return Ticket{}, r.rejection(key)
	}
	return r.ticket(key, id), nil
}

// AdmitProbe takes a probe's lease, or returns *OpenError or ErrNotDue.
func (m *Memory) AdmitProbe(_ context.Context, key Key) (Ticket, error) {
	if err := key.check(); err != nil {
		return Ticket{}, fmt.Errorf("admit probe: %w", err)
	}
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
	c := t.cell
	if c == nil || c.all != m.cells {
		c = m.cell(t.Key)
	}
	if !t.Probe && c.answered(&t, &rep) {
		return nil
	}
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
	now := m.clock().UnixMilli()
	families, models := m.of(provider)
	var due []Key
	for _, f := range families {
		if k, ok := f.due(now, m.complete(f.key)); ok {
			due = append(due, k)
		}
	}
	for _, c := range models {
		if c.due(now, m.complete(c.key)) {
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

// do applies one operation, then tells of the transitions it made.
func (m *Memory) do(key Key, op *Op) Reply {
	r := m.cell(key).do(op, func(r *Reply) { m.notify.add(key, r) })
	if r.changed() {
		m.notify.drain()
	}
	return r
}

func noProbe(opts []AdmitOption) bool {
	for _, o := range opts {
		if o == NoProbe {
			return true
		}
	}
	return false
}
