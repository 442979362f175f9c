package limit

import (
	"context"
	"sync"
	"time"

	"nightshift/internal/standby"
)

// ParkStore keeps parks; *ParkMemory, *ParkRedis and *ParkFallback are stores.
type ParkStore interface {
	// Parked returns how long the model is still parked; 0: it is not.
	Parked(ctx context.Context, model Model) (time.Duration, error)
	// Park parks the model after a refusal and returns for how long.
	Park(ctx context.Context, model Model, retryAfter time.Duration) (time.Duration, error)
}

// ParkFallback is a ParkStore that asks a shared one and, while that cannot answer,
// decides from the memory of this process, which has its own refusals and what
// the shared store said. It is safe for concurrent use.
//
// While the shared store is away, it is asked again once a second by one call;
// all others are decided at once. When it answers, it first hears of the parks
// made meanwhile, each for what is left of it; the later time wins.
type ParkFallback struct {
	shared ParkStore
	local  *ParkMemory
	side   *standby.Switch

	mu   sync.Mutex
	owed map[Model]int64 // untold parks by their ends, ms of the memory's clock
}

var _, _, _ ParkStore = (*ParkFallback)(nil), (*ParkMemory)(nil), (*ParkRedis)(nil)

// NewParkFallback returns a store over both; the memory's clock decides about the
// times of this store. The shared store's client should repeat nothing by itself.
func NewParkFallback(shared ParkStore, memory *ParkMemory, o FallbackOptions) *ParkFallback {
	f := &ParkFallback{shared: shared, local: memory, owed: map[Model]int64{}}
	if f.side = o.Switch; f.side == nil {
		f.side = standby.New(standby.Options{Name: "parks", Timeout: o.Timeout, Now: memory.clock, Logger: o.Logger})
	}
	f.side.Register(f.catchUp)
	return f
}

// Parked returns how long the model is still parked; 0: it is not.
func (f *ParkFallback) Parked(ctx context.Context, model Model) (time.Duration, error) {
	own := f.untold(model) // the answer may come before the store is told
	var d time.Duration
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
		d, err = f.shared.Parked(ctx, model)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case !answered:
		return f.local.Parked(ctx, model)
	}
	return f.told(model, max(d, own)), nil
}

// Park parks the model after a refusal and returns for how long. While the
// shared store is away, only this process knows.
func (f *ParkFallback) Park(ctx context.Context, model Model, retryAfter time.Duration) (time.Duration, error) {
	own, _ := f.local.Park(ctx, model, retryAfter) // also for the streak; it never fails
	var d time.Duration
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
		d, err = f.shared.Park(ctx, model, retryAfter)
		return err
	})
	if answered {
		return f.told(model, d), nil
	}
	f.owe(model, own)
	return own, err
}

// untold is how long the model is parked by what the shared store has not heard.
func (f *ParkFallback) untold(model Model) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return millis(max(f.owed[model]-f.now(), 0))
}

// told notes what the shared store said, and returns how long the model is
// parked by that and by what it has not heard.
func (f *ParkFallback) told(model Model, d time.Duration) time.Duration {
	d = max(d, f.untold(model))
	f.local.set(model, d)
	return d
}

func (f *ParkFallback) owe(model Model, d time.Duration) {
	f.mu.Lock()
	f.owed[model] = max(f.owed[model], f.now()+d.Milliseconds())
	f.mu.Unlock()
	f.side.Owe()
}

func (f *ParkFallback) now() int64 { return f.local.clock().UnixMilli() }

// catchUp tells the shared store of the parks that it missed.
func (f *ParkFallback) catchUp(ctx context.Context) error {
	for {
		model, until, ok := f.oneOwed()
		if !ok {
			return nil
		}
		if left := millis(until - f.now()); left > 0 {
			if _, err := f.shared.Park(ctx, model, left); err != nil {
				return err
			}
		}
		f.paid(model, until)
	}
}

func (f *ParkFallback) oneOwed() (Model, int64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for model, until := range f.owed {
		return model, until, true
	}
	return Model{}, 0, false
}

// paid forgets a park that the shared store knows, unless it became longer.
func (f *ParkFallback) paid(model Model, until int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owed[model] == until {
		delete(f.owed, model)
	}
}
