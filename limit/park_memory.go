package limit

import (
	"context"
	"sync"
	"time"
)

// ParkMemory keeps the parks of one process. It is safe for concurrent use.
type ParkMemory struct {
	clock func() time.Time

	mu    sync.Mutex
	parks map[Model]State
}

// NewParkMemory returns an empty store; the clock defaults to time.Now.
func NewParkMemory(clock func() time.Time) *ParkMemory {
	if clock == nil {
		clock = time.Now
	}
	return &ParkMemory{clock: clock, parks: map[Model]State{}}
}

// Parked returns how long the model is still parked; 0: it is not.
func (m *ParkMemory) Parked(_ context.Context, model Model) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return millis(Parked(m.parks[model], m.clock().UnixMilli())), nil
}

// Park parks the model after a refusal and returns for how long; retryAfter 0:
// the provider named no time.
func (m *ParkMemory) Park(_ context.Context, model Model, retryAfter time.Duration) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock().UnixMilli()
	st, until := Park(m.parks[model], retryAfter, now)
	m.parks[model] = st
	return millis(until - now), nil
}

// set parks the model for d from now on, as another store does; 0 ends its park.
// The wait that a streak of refusals doubles stays.
func (m *ParkMemory) set(model Model, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, st := m.clock().UnixMilli(), m.parks[model]
	if until := now + d.Milliseconds(); d > 0 || st.Until > now {
		st.At, st.Until = now, until
		m.parks[model] = st
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
