package ladder

import (
	"context"
	"errors"
	"time"

	"nightshift/breaker"
	"nightshift/internal/convoy"
	"nightshift/limit"
)

// Breakers is what a gate needs of package breaker.
type Breakers interface {
	Admit(ctx context.Context, key breaker.Key, opts ...breaker.AdmitOption) (breaker.Ticket, error)
	Report(ctx context.Context, t breaker.Ticket, r breaker.Report) error
	Release(ctx context.Context, t breaker.Ticket) error
}

// Guard is what a gate needs of limit.Guarder.
type Guard interface {
	Reserve(ctx context.Context, c limit.Charge) error
	Settle(ctx context.Context, c limit.Charge, usd int64) error
	Release(ctx context.Context, c limit.Charge) error
}

// StoreGate is a gate that asks its stores one after another: those of a process
// alone, as in tests and replay. Stores that share a server are a [RedisGate]'s.
type StoreGate struct {
	Breakers Breakers
	Pacer    limit.Pacer
	Guard    Guard
}

var _ Gate = StoreGate{}

// Enter asks for one call. The breaker comes last, since a probe's ticket that is
// given back begins a cooldown anew; where it waits, only the pace is asked.
func (g StoreGate) Enter(ctx context.Context, e Entry) (Pass, error) {
	slot, err := g.Pacer.Reserve(ctx, e.Ask)
	switch {
	case err != nil:
		return Pass{}, err
	case slot.Verdict != limit.Go:
		return Pass{}, &WaitError{Key: e.Key, Slot: slot}
	}
	if err := g.Guard.Reserve(ctx, e.Charge); err != nil {
		return Pass{}, errors.Join(err, g.cancel(ctx, e))
	}
	t, err := g.Breakers.Admit(ctx, e.Key, e.admission()...)
	if err != nil {
		return Pass{}, errors.Join(err, g.cancel(ctx, e), g.Guard.Release(ctx, e.Charge))
	}
	return Pass{Ticket: t, entry: e}, nil
}

// admission is how the breaker may admit the call.
func (e *Entry) admission() []breaker.AdmitOption {
	if e.NoProbe {
		return []breaker.AdmitOption{breaker.NoProbe}
	}
	return nil
}

func (g StoreGate) cancel(ctx context.Context, e Entry) error {
	return g.Pacer.Cancel(ctx, e.Ask.Model, e.Ask.Ticket)
}

// GiveUp gives back a place.
func (g StoreGate) GiveUp(ctx context.Context, e Entry) error { return g.cancel(ctx, e) }

// Vouch tells the breaker of a call that still answers.
func (g StoreGate) Vouch(ctx context.Context, p Pass, r breaker.Report) error {
	return g.Breakers.Report(ctx, p.Ticket, r)
}

// Leave says what became of a call.
func (g StoreGate) Leave(ctx context.Context, p Pass, x Exit) (parked time.Duration, err error) {
	var errs []error
	if x.Unsent {
		errs = append(errs, g.cancel(ctx, p.entry), g.Guard.Release(ctx, p.entry.Charge))
	} else {
		parked, err = g.Pacer.Settle(ctx, p.entry.Ask.Model, p.entry.Ask.Ticket, x.Result)
		errs = append(errs, err, g.Guard.Settle(ctx, p.entry.Charge, int64(x.USD)))
	}
	switch {
	case x.Vouched:
	case x.Report != nil:
		errs = append(errs, g.Breakers.Report(ctx, p.Ticket, *x.Report))
	default:
		errs = append(errs, g.Breakers.Release(ctx, p.Ticket))
	}
	return parked, errors.Join(errs...)
}

// LeaveIn puts nothing into the party: the stores are elsewhere.
func (g StoreGate) LeaveIn(ctx context.Context, _ *convoy.Party, p Pass, x Exit) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
		defer cancel()
		_, err := g.Leave(ctx, p, x)
		return err
	}
}

// Send counts a probe.
func (g StoreGate) Send(ctx context.Context, s Sending) (func(context.Context, Exit) error, error) {
	return send(ctx, g.Pacer, g.Guard, s)
}
