package breaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"nightshift/internal/standby"
)

// Fallback is a Store that asks a shared one and, while that cannot answer,
// decides from the memory of this process, which has seen its outcomes and the
// shared store's decisions all along. It is safe for concurrent use.
//
// While the shared store is away, it is asked again once a second by one call;
// all others are decided at once. When it answers, it first hears the results
// that it missed, so that it opens where this process found a dependency down;
// then it decides again. A cooldown that this process began alone ends early
// only where the shared store is known to have been open, too.
//
// Its shared store's client should not repeat writes by itself: that only
// lengthens the time until the memory decides.
type Fallback struct {
	shared Store
	local  *Memory
	side   *standby.Switch
	untold untold
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

var _ Store = (*Fallback)(nil)

// NewFallback returns a store over both. The memory should have the same
// settings as the shared store and no transition hook: it also moves where the
// shared store moves. Its clock decides about the times of this store.
func NewFallback(shared Store, memory *Memory, o FallbackOptions) *Fallback {
	f := &Fallback{shared: shared, local: memory}
	f.side = standby.New(standby.Options{
		Name: "breakers", Timeout: o.Timeout, Now: memory.clock, IsAnswer: isAnswer,
		CatchUp: f.catchUp, OnChange: o.OnChange, Logger: o.Logger,
	})
	return f
}

// Away says whether the memory decides now.
func (f *Fallback) Away() bool { return f.side.Away() }

// isAnswer says that an error is a store's decision.
func isAnswer(err error) bool {
	var open *OpenError
	return errors.As(err, &open) || errors.Is(err, ErrNotDue)
}

func (f *Fallback) now() int64 { return f.local.clock().UnixMilli() }

// Admit lets one call through, or returns *OpenError.
func (f *Fallback) Admit(ctx context.Context, key Key, opts ...AdmitOption) (Ticket, error) {
	if err := key.check(); err != nil { // else it would pass for a store that is away
		return Ticket{}, fmt.Errorf("admit call: %w", err)
	}
	var t Ticket
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
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
	t.local, open = f.local.follow(key)
	if open != nil {
		return Ticket{}, open
	}
	return t, nil
}

// AdmitProbe takes a probe's lease, or returns *OpenError or ErrNotDue.
func (f *Fallback) AdmitProbe(ctx context.Context, key Key) (Ticket, error) {
	if err := key.check(); err != nil {
		return Ticket{}, fmt.Errorf("admit probe: %w", err)
	}
	var t Ticket
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
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
// case. Where the shared store cannot, it is told when it is back; only a
// probe's report is an error then, for its lease is at stake and the report
// worth repeating.
func (f *Fallback) Report(ctx context.Context, t Ticket, r Report) error {
	if t.local.decided {
		f.alone(t.Key, t.ended(OpReport, r))
		f.keep(t, r)
		return nil
	}
	answered, err := f.side.Ask(ctx, func(ctx context.Context) error { return f.shared.Report(ctx, t, r) })
	if t.Probe {
		return lostProbe(answered, err)
	}
	own := Ticket{Key: t.Key, ID: t.ID, Epoch: t.local.model, ParentEpoch: t.local.parent}
	if answered {
		return errors.Join(err, f.local.Report(ctx, own, r))
	}
	f.alone(t.Key, own.ended(OpReport, r))
	if err == nil {
		f.keep(t, r)
	}
	return err
}

// Release gives a ticket back whose call was never sent.
func (f *Fallback) Release(ctx context.Context, t Ticket) error {
	if t.local.decided {
		return f.local.Release(ctx, t)
	}
	answered, err := f.side.Ask(ctx, func(ctx context.Context) error { return f.shared.Release(ctx, t) })
	if t.Probe {
		return lostProbe(answered, err)
	}
	return err
}

// errAway is what becomes of a probe's report while the shared store is away.
var errAway = errors.New("the shared breakers cannot be asked")

func lostProbe(answered bool, err error) error {
	if err == nil && !answered {
		return errAway
	}
	return err
}

// Due returns the provider's models to probe.
func (f *Fallback) Due(ctx context.Context, provider string) ([]Key, error) {
	var keys []Key
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
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
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
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
