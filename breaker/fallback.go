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
	// Switch is shared with what else the same server keeps; nil: one of its own,
	// of the options below.
	Switch *standby.Switch
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
	f := &Fallback{shared: shared, local: memory, side: o.Switch}
	if f.side == nil {
		f.side = standby.New(standby.Options{
			Name: "breakers", Timeout: o.Timeout, Now: memory.clock, OnChange: o.OnChange, Logger: o.Logger,
		})
	}
	f.side.Register(f.catchUp)
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

// ask puts a question to the shared store. Where it was answered, err is its decision.
func (f *Fallback) ask(ctx context.Context, question func(context.Context) error) (answered bool, err error) {
	var decision error
	answered, err = f.side.Ask(ctx, func(ctx context.Context) error {
		decision = question(ctx)
		if isAnswer(decision) {
			return nil
		}
		return decision
	})
	if answered {
		return true, decision
	}
	return false, err
}

// Admit lets one call through, or returns *OpenError.
func (f *Fallback) Admit(ctx context.Context, key Key, opts ...AdmitOption) (Ticket, error) {
	if err := key.check(); err != nil { // else it would pass for a store that is away
		return Ticket{}, fmt.Errorf("admit call: %w", err)
	}
	var t Ticket
	answered, err := f.ask(ctx, func(ctx context.Context) (err error) {
		t, err = f.shared.Admit(ctx, key, opts...)
		return err
	})
	switch {
	case answered:
		return f.Heard(key, t, err)
	case err != nil:
		return Ticket{}, err
	}
	return f.Alone(ctx, key, opts...)
}

// Heard takes what the shared store said to an admission, for who asked it
// beside other stores: a ticket, or *OpenError. The memory follows, and what
// comes back is what Admit would have said.
func (f *Fallback) Heard(key Key, t Ticket, err error) (Ticket, error) {
	var open *OpenError
	switch {
	case errors.As(err, &open):
		f.local.adopt(key, open)
		return Ticket{}, err
	case err != nil || t.Probe:
		return t, err
	}
	if t.local, open = f.local.follow(key); open != nil {
		return Ticket{}, open
	}
	return t, nil
}

// Alone is an admission while the shared store cannot be asked: the memory's.
func (f *Fallback) Alone(ctx context.Context, key Key, opts ...AdmitOption) (Ticket, error) {
	return f.decided(f.local.Admit(ctx, key, opts...))
}

// AdmitProbe takes a probe's lease, or returns *OpenError or ErrNotDue.
func (f *Fallback) AdmitProbe(ctx context.Context, key Key) (Ticket, error) {
	if err := key.check(); err != nil {
		return Ticket{}, fmt.Errorf("admit probe: %w", err)
	}
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
// case. Where the shared store cannot, it is told when it is back; only a
// probe's report is an error then, for its lease is at stake and the report
// worth repeating.
func (f *Fallback) Report(ctx context.Context, t Ticket, r Report) error {
	if t.lone() {
		return f.Told(ctx, t, r, false)
	}
	answered, err := f.side.Ask(ctx, func(ctx context.Context) error { return f.shared.Report(ctx, t, r) })
	if err == nil {
		return f.Told(ctx, t, r, answered)
	}
	if !t.Probe {
		f.alone(t.Key, t.shadowed().ended(OpReport, r))
	}
	return err
}

// lone says that the memory of a Fallback granted the ticket, so that the shared
// store knows nothing of it: its report is for Told, and is told later.
func (t Ticket) lone() bool { return t.local.decided }

// shadowed is the ticket as the memory of a Fallback counts it.
func (t Ticket) shadowed() Ticket {
	return Ticket{Key: t.Key, ID: t.ID, Epoch: t.local.model, ParentEpoch: t.local.parent}
}

// Told takes a report that was brought to the shared store beside others'
// questions, and says whether that answered; where it did not, it is told later.
// What comes back is what Report would have said.
func (f *Fallback) Told(ctx context.Context, t Ticket, r Report, answered bool) error {
	switch {
	case t.lone():
		f.alone(t.Key, t.ended(OpReport, r))
		f.keep(t, r)
		return nil
	case t.Probe:
		return lostProbe(answered, nil)
	case answered:
		return f.local.Report(ctx, t.shadowed(), r)
	}
	f.alone(t.Key, t.shadowed().ended(OpReport, r))
	f.keep(t, r)
	return nil
}

// Release gives a ticket back whose call was never sent.
func (f *Fallback) Release(ctx context.Context, t Ticket) error {
	if t.lone() {
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
