package breaker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Fallback is a Store that asks a shared one and, while that cannot answer,
// decides from the memory of this process, which has seen its outcomes and the
// shared store's decisions all along. It is safe for concurrent use.
//
// While the shared store is away, it is asked again once a second by one call;
// all others are decided at once. When it is back, it decides, with one
// exception: what this process found to be down meanwhile stays closed to it
// until the cooldown ends, so that no burst of calls follows.
//
// Its shared store's client should not repeat writes by itself: that only
// lengthens the time until the memory decides.
type Fallback struct {
	shared Store
	local  *Memory
	o      FallbackOptions

	mu      sync.Mutex // of a change of side, so that they are told in order
	away    atomic.Bool
	since   atomic.Int64 // when it went away last, ms of the local clock; 0: never
	nextTry atomic.Int64 // while away, ms of the local clock
}

// FallbackOptions may all be zero.
type FallbackOptions struct {
	// Timeout bounds a question to the shared store. Defaults to 2 s.
	Timeout time.Duration
	// OnChange is told when the memory begins to decide, and when it ends.
	OnChange func(away bool)
	// Logger gets one line a change. Defaults to discarding.
	Logger *slog.Logger
}

// shadow is what a ticket carries for the memory of a Fallback.
type shadow struct {
	model, parent int64 // epochs of the memory's records at admission
	decided       bool  // the memory granted it, the shared store knows nothing
}

// retryAway is how often a shared store that is away is asked again.
const retryAway = time.Second

var _ Store = (*Fallback)(nil)

// NewFallback returns a store over both. The memory should have the same
// settings as the shared store and no transition hook: it also moves where the
// shared store moves. Its clock decides about the times of this store.
func NewFallback(shared Store, memory *Memory, o FallbackOptions) *Fallback {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnChange == nil {
		o.OnChange = func(bool) {}
	}
	return &Fallback{shared: shared, local: memory, o: o}
}

// Away says whether the memory decides now.
func (f *Fallback) Away() bool { return f.away.Load() }

// ask puts a question to the shared store and says whether it was answered; an
// *OpenError and ErrNotDue are answers. Where it was not, the memory decides,
// unless ctx ended: then err is its error.
func (f *Fallback) ask(ctx context.Context, question func(context.Context) error) (answered bool, err error) {
	if f.away.Load() && !f.mayTry() {
		return false, nil
	}
	short, cancel := context.WithTimeout(ctx, f.o.Timeout)
	defer cancel()
	err = question(short)
	var open *OpenError
	switch {
	case err == nil, errors.As(err, &open), errors.Is(err, ErrNotDue):
		f.change(false, nil)
		return true, err
	case ctx.Err() != nil:
		return false, err
	}
	f.change(true, err)
	return false, nil
}

// mayTry lets one call a second ask a store that is away.
func (f *Fallback) mayTry() bool {
	now, next := f.now(), f.nextTry.Load()
	return (now >= next || next > now+retryAway.Milliseconds()) && f.nextTry.CompareAndSwap(next, now+retryAway.Milliseconds())
}

func (f *Fallback) now() int64 { return f.local.clock().UnixMilli() }

// change notes the side that decides and tells of it, once a change.
func (f *Fallback) change(away bool, why error) {
	if f.away.Load() == away {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away.Load() == away {
		return
	}
	if away {
		f.since.Store(f.now())
		f.nextTry.Store(f.now() + retryAway.Milliseconds())
		f.o.Logger.Warn("breakers cannot be asked, this process decides from its own memory", "error", why)
	} else {
		f.o.Logger.Info("breakers can be asked again")
	}
	f.away.Store(away)
	f.o.OnChange(away)
}

// Admit lets one call through, or returns *OpenError.
func (f *Fallback) Admit(ctx context.Context, key Key, opts ...AdmitOption) (Ticket, error) {
	var t Ticket
	answered, err := f.ask(ctx, func(ctx context.Context) (err error) {
		t, err = f.shared.Admit(ctx, key, opts...)
		return err
	})
	var open *OpenError
	switch {
	case errors.As(err, &open):
		f.local.adopt(key, open)
		return Ticket{}, err
	case err != nil:
		return Ticket{}, err
	case !answered:
		return f.decided(f.local.Admit(ctx, key, opts...))
	case t.Probe:
		return t, nil
	}
	t.local, open = f.local.follow(key, f.since.Load())
	if open != nil {
		return Ticket{}, open
	}
	return t, nil
}

// AdmitProbe takes a probe's lease, or returns *OpenError or ErrNotDue.
func (f *Fallback) AdmitProbe(ctx context.Context, key Key) (Ticket, error) {
	var t Ticket
	answered, err := f.ask(ctx, func(ctx context.Context) (err error) {
		t, err = f.shared.AdmitProbe(ctx, key)
		return err
	})
	if answered || err != nil {
		return t, err
	}
	return f.decided(f.local.AdmitProbe(ctx, key))
}

// decided marks the memory's own tickets.
func (f *Fallback) decided(t Ticket, err error) (Ticket, error) {
	t.local.decided = true
	return t, err
}

// Report gives the outcome of an admitted call. The memory counts it in any
// case; where the shared store cannot, only a probe's report is an error, for
// its lease is at stake and the report worth repeating.
func (f *Fallback) Report(ctx context.Context, t Ticket, r Report) error {
	if t.local.decided {
		return f.local.Report(ctx, t, r)
	}
	if !t.Probe {
		own := Ticket{Key: t.Key, ID: t.ID, Epoch: t.local.model, ParentEpoch: t.local.parent}
		if err := f.local.Report(ctx, own, r); err != nil {
			return err
		}
	}
	return f.settle(ctx, t, func(ctx context.Context) error { return f.shared.Report(ctx, t, r) })
}

// Release gives a ticket back whose call was never sent.
func (f *Fallback) Release(ctx context.Context, t Ticket) error {
	if t.local.decided {
		return f.local.Release(ctx, t)
	}
	return f.settle(ctx, t, func(ctx context.Context) error { return f.shared.Release(ctx, t) })
}

// errAway is what becomes of a probe's report while the shared store is away.
var errAway = errors.New("the shared breakers cannot be asked")

func (f *Fallback) settle(ctx context.Context, t Ticket, question func(context.Context) error) error {
	answered, err := f.ask(ctx, question)
	if err == nil && !answered && t.Probe {
		return errAway
	}
	return err
}

// Due returns the provider's models to probe.
func (f *Fallback) Due(ctx context.Context, provider string) ([]Key, error) {
	var keys []Key
	answered, err := f.ask(ctx, func(ctx context.Context) (err error) {
		keys, err = f.shared.Due(ctx, provider)
		return err
	})
	if answered || err != nil {
		return keys, err
	}
	return f.local.Due(ctx, provider)
}

// List returns the state of the breakers, in their order.
func (f *Fallback) List(ctx context.Context, keys []Key) ([]Status, error) {
	var list []Status
	answered, err := f.ask(ctx, func(ctx context.Context) (err error) {
		list, err = f.shared.List(ctx, keys)
		return err
	})
	if answered || err != nil {
		return list, err
	}
	return f.local.List(ctx, keys)
}

// Force does what an operator wants of the shared breaker. There is no fallback:
// an operator means the fleet.
func (f *Fallback) Force(ctx context.Context, key Key, force Force) error {
	return f.shared.Force(ctx, key, force)
}
