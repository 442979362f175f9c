package ladder

import (
	"context"
	"errors"
	"time"

	"nightshift/limit"
)

// whole is an attempt whose outcome is written: the last call has told all.
func (l *Ladder) whole(ctx context.Context, r Request, j Journal) Outcome {
	out := l.Attempt(ctx, r, j)
	out.Leaving.Done()
	return out
}

// gate is one over the bundle's pace and guard.
func (b *bundle) gate(breakers Breakers) Gate { return StoreGate{breakers, b.pace, b.guard} }

// fakePace parks by the rule of package limit: 1 s, doubling, the later wins. It
// has no other limits, and its places have the whole wait as their time.
type fakePace struct {
	b       *bundle
	until   map[string]time.Time // by the model, or model#lane
	count   int
	down    error
	out     map[string]limit.Ask // in flight or waiting, by ticket
	results []limit.Result
}

func (f *fakePace) Reserve(ctx context.Context, a limit.Ask) (limit.Slot, error) {
	if err := errors.Join(f.down, ctx.Err()); err != nil {
		return limit.Slot{}, err
	}
	d := f.until[a.Model.Model].Sub(f.b.Now())
	if a.Lane != "" {
		d = max(d, f.until[a.Model.Model+"#"+a.Lane].Sub(f.b.Now()))
	}
	delete(f.out, a.Ticket)
	if d > a.Patience {
		return limit.Slot{Verdict: limit.Refuse, Wait: d, Reason: limit.ReasonParked}, nil
	}
	f.out[a.Ticket] = a
	if d > 0 {
		return limit.Slot{Verdict: limit.Wait, Wait: d, Reason: limit.ReasonParked}, nil
	}
	return limit.Slot{Verdict: limit.Go}, nil
}

func (f *fakePace) Settle(ctx context.Context, m limit.Model, ticket string, r limit.Result) (time.Duration, error) {
	if err := errors.Join(f.down, ctx.Err()); err != nil {
		return 0, err
	}
	delete(f.out, ticket)
	f.results = append(f.results, r)
	if r.Kind != limit.Limited {
		return 0, nil
	}
	return f.Park(ctx, m, r.Lane, r.RetryAfter)
}

func (f *fakePace) Cancel(ctx context.Context, _ limit.Model, ticket string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	delete(f.out, ticket)
	return nil
}

func (f *fakePace) Park(ctx context.Context, m limit.Model, lane string, after time.Duration) (time.Duration, error) {
	if err := errors.Join(f.down, ctx.Err()); err != nil {
		return 0, err
	}
	if after == 0 {
		after = min(time.Minute, time.Second<<f.count)
		f.count++
	}
	name := m.Model
	if lane != "" {
		name += "#" + lane
	}
	f.until[name] = later(f.until[name], f.b.Now().Add(after))
	return f.until[name].Sub(f.b.Now()), nil
}

func (f *fakePace) Restart(context.Context, limit.Model) error { return nil }
func (f *fakePace) List(context.Context, []limit.Model) ([]limit.Pace, error) {
	return nil, nil
}

// fakeGuard lets everything through that it is not told to refuse, and counts.
type fakeGuard struct {
	over    error
	down    error
	out     map[string]limit.Charge // open reservations, by ticket
	settled []limit.Charge          // USD is the real cost
}

func (f *fakeGuard) Reserve(ctx context.Context, c limit.Charge) error {
	if err := errors.Join(f.down, ctx.Err()); err != nil {
		return err
	}
	if f.over != nil && !c.Always {
		return f.over
	}
	f.out[c.Ticket] = c
	return nil
}

func (f *fakeGuard) Settle(ctx context.Context, c limit.Charge, usd int64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	delete(f.out, c.Ticket)
	c.USD = usd
	f.settled = append(f.settled, c)
	return nil
}

func (f *fakeGuard) Release(ctx context.Context, c limit.Charge) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	delete(f.out, c.Ticket)
	return nil
}
