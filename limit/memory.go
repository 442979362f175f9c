package limit

import (
	"context"
	"sync"
	"time"
)

// Memory is a Pacer for one process: a lock around the pure steps. It is safe
// for concurrent use, and never returns an error.
type Memory struct {
	limits func(Model) Limits
	clock  func() time.Time

	mu     sync.Mutex
	states map[Model]*state
}

var _ Pacer = (*Memory)(nil)

// NewMemory returns a pacer that knows nothing yet. Limits is asked at every
// operation, so it must be quick and safe for concurrent use, and must not use
// the pacer; nil: none are configured. The clock defaults to time.Now.
func NewMemory(limits func(Model) Limits, clock func() time.Time) *Memory {
	if limits == nil {
		limits = func(Model) Limits { return Limits{} }
	}
	if clock == nil {
		clock = time.Now
	}
	return &Memory{limits: limits, clock: clock, states: map[Model]*state{}}
}

// Reserve asks for one call.
func (m *Memory) Reserve(_ context.Context, a Ask) (Slot, error) {
	var s slot
	m.with(a.Model, func(st *state, l Limits, now int64) { s = st.reserve(l, a.clean(), now) })
	return s.public(), nil
}

// Settle says what became of a call, and returns for how long it parked.
func (m *Memory) Settle(_ context.Context, model Model, ticket string, r Result) (time.Duration, error) {
	var parked int64
	m.with(model, func(st *state, l Limits, now int64) { parked = st.settle(l, ticket, r.clean(), now) })
	return millis(parked), nil
}

// Cancel gives back what a call that was not sent has or waits for.
func (m *Memory) Cancel(_ context.Context, model Model, ticket string) error {
	m.with(model, func(st *state, l Limits, now int64) { st.cancel(l, ticket, now) })
	return nil
}

// Park parks the model or its lane and returns for how long.
func (m *Memory) Park(_ context.Context, model Model, lane string, retryAfter time.Duration) (time.Duration, error) {
	var parked int64
	m.with(model, func(st *state, l Limits, now int64) { parked = st.parkOnly(l, lane, retryMS(retryAfter), now) })
	return millis(parked), nil
}

// Restart says that the model's breaker closed.
func (m *Memory) Restart(_ context.Context, model Model) error {
	m.with(model, func(st *state, l Limits, now int64) { st.restart(l, now) })
	return nil
}

// List returns the pace of the models, in their order.
func (m *Memory) List(_ context.Context, models []Model) ([]Pace, error) {
	list := make([]Pace, len(models))
	for i, model := range models {
		l := m.limits(model)
		m.mu.Lock()
		if st := m.states[model]; st != nil {
			list[i] = st.pace(l, m.clock().UnixMilli())
		} else {
			list[i] = newState().pace(l, m.clock().UnixMilli())
		}
		m.mu.Unlock()
		list[i].Model = model
	}
	return list, nil
}

// with applies an operation to the model's state.
func (m *Memory) with(model Model, op func(*state, Limits, int64)) {
	l := m.limits(model)
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.states[model]
	if st == nil {
		st = newState()
		m.states[model] = st
	}
	op(st, l, m.clock().UnixMilli())
}

// setPark parks a lane for d from now on, as another store does; 0 ends its park.
// The wait that a streak of refusals doubles stays.
func (m *Memory) setPark(model Model, lane string, d time.Duration) {
	m.with(model, func(st *state, _ Limits, now int64) {
		p := st.Parks[lane]
		if until := now + d.Milliseconds(); d > 0 || p.Until > now {
			p.At, p.Until = now, until
			st.Parks[lane] = p
		}
	})
}
