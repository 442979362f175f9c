package ladder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"nightshift/breaker"
	"nightshift/internal/convoy"
	"nightshift/limit"
)

// rider adds one question to a party and returns what reads its answer.
type rider func(p *convoy.Party) (answer func() error)

// ride asks all in one round trip.
func ride(ctx context.Context, c *convoy.Convoy, riders []rider) error {
	var p convoy.Party
	p.Grow(len(riders))
	read := make([]func() error, len(riders))
	for i, r := range riders {
		read[i] = r(&p)
	}
	c.Send(ctx, &p)
	var errs []error
	for _, answer := range read {
		errs = append(errs, answer())
	}
	return errors.Join(errs...)
}

// leaving is what the stores are told of one call.
type leaving struct {
	g      *RedisGate
	pass   Pass
	exit   Exit
	riders []rider
	parked time.Duration // as the shared pace says
	// settled is for the process's own pace, which hears of every call.
	settled func(told time.Duration, answered bool) time.Duration
}

func (g *RedisGate) leaving(p Pass, x Exit) *leaving {
	l := &leaving{g: g, pass: p, exit: x, riders: make([]rider, 0, 3)}
	ask := &l.pass.entry.Ask
	if x.Unsent {
		l.riders = append(l.riders, g.cancel(p.entry), g.refund(p.entry))
	} else {
		var res limit.Result
		res, l.settled = g.o.OwnPace.Leaving(ask.Model, ask.Ticket, x.Result)
		l.riders = append(l.riders, func(party *convoy.Party) func() error {
			answer := g.o.Pace.SettleIn(party, ask.Model, ask.Ticket, res)
			return func() (err error) { l.parked, err = answer(); return err }
		}, func(party *convoy.Party) func() error {
			return g.o.Guard.SettleIn(party, l.pass.entry.Charge, int64(l.exit.USD))
		})
	}
	switch {
	case x.Vouched:
	case x.Report != nil:
		l.riders = append(l.riders, func(party *convoy.Party) func() error {
			return g.o.Breakers.ReportIn(party, l.pass.Ticket, *l.exit.Report)
		})
	default:
		l.riders = append(l.riders, g.release(p.Ticket))
	}
	return l
}

// told has the process's own stores follow what the shared ones heard, or take
// over what they did not.
func (l *leaving) told(ctx context.Context, answered bool) (parked time.Duration, err error) {
	own, e := l.g.own, &l.pass.entry
	var errs []error
	switch {
	case !l.exit.Unsent:
		parked = l.settled(l.parked, answered)
		if !answered {
			errs = append(errs, own.Guard.Settle(ctx, e.Charge, int64(l.exit.USD)))
		}
	case !answered:
		errs = append(errs, own.cancel(ctx, *e), own.Guard.Release(ctx, e.Charge))
	}
	switch {
	case l.exit.Vouched:
	case l.exit.Report != nil:
		errs = append(errs, l.g.o.OwnBreakers.Told(ctx, l.pass.Ticket, *l.exit.Report, answered))
	case !answered:
		errs = append(errs, own.Breakers.Release(ctx, l.pass.Ticket))
	}
	return parked, errors.Join(errs...)
}

// send tells everything in a party of its own.
func (l *leaving) send(ctx context.Context) (time.Duration, error) {
	answered, err := l.g.o.Switch.Ask(ctx, func(ctx context.Context) error { return ride(ctx, l.g.out, l.riders) })
	parked, own := l.told(ctx, answered)
	return parked, errors.Join(err, own)
}

// Leave says what became of a call.
func (g *RedisGate) Leave(ctx context.Context, p Pass, x Exit) (time.Duration, error) {
	if p.lone {
		return g.own.Leave(ctx, p, x)
	}
	return g.leaving(p, x).send(ctx)
}

// LeaveIn is Leave in the party of another.
func (g *RedisGate) LeaveIn(ctx context.Context, party *convoy.Party, p Pass, x Exit) (done func() error) {
	if p.lone {
		return g.own.LeaveIn(ctx, party, p, x)
	}
	l := g.leaving(p, x)
	party.Grow(len(l.riders) + 1) // with what they ride with
	read := make([]func() error, 0, len(l.riders))
	for _, r := range l.riders {
		read = append(read, r(party))
	}
	return func() error {
		ctx := context.WithoutCancel(ctx)
		for _, answer := range read {
			if answer() != nil {
				ctx, cancel := context.WithTimeout(ctx, reportTimeout)
				defer cancel()
				_, err := l.send(ctx)
				return err
			}
		}
		_, err := l.told(ctx, true)
		return err
	}
}

// gift is a rider that gives one thing back.
type gift = rider

func (g *RedisGate) cancel(e Entry) gift {
	return func(p *convoy.Party) func() error { return g.o.Pace.CancelIn(p, e.Ask.Model, e.Ask.Ticket) }
}

func (g *RedisGate) refund(e Entry) gift {
	return func(p *convoy.Party) func() error { return g.o.Guard.ReleaseIn(p, e.Charge) }
}

func (g *RedisGate) release(t breaker.Ticket) gift {
	return func(p *convoy.Party) func() error { return g.o.Breakers.ReleaseIn(p, t) }
}

// gifts are all that an entry may have been granted, and its place.
func (g *RedisGate) gifts(e *Entry, t breaker.Ticket) []gift {
	return append(g.grants(e, t), g.cancel(*e))
}

// grants are what guard and breaker may have granted to an entry.
func (g *RedisGate) grants(e *Entry, t breaker.Ticket) []gift {
	all := []gift{g.refund(*e)}
	if t.Probe {
		all = append(all, g.release(t))
	}
	return all
}

// give gives back, now or when Redis answers again. It outlives the attempt.
func (g *RedisGate) give(ctx context.Context, gifts []gift) {
	if len(gifts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	answered, err := g.o.Switch.Ask(ctx, func(ctx context.Context) error { return ride(ctx, g.out, gifts) })
	if !answered || err != nil {
		g.owe(gifts...)
	}
}

// owed are gifts that Redis has not taken.
type owed struct {
	mu  sync.Mutex
	all []gift
}

// maxOwed bounds what is given back later: what is lost beyond it ends with its
// lease, or counts as a call.
const maxOwed = 10_000

func (g *RedisGate) owe(gifts ...gift) {
	g.owed.mu.Lock()
	g.owed.all = append(g.owed.all, gifts...)
	g.owed.all = g.owed.all[max(len(g.owed.all)-maxOwed, 0):]
	g.owed.mu.Unlock()
	g.o.Switch.Owe()
}

// catchUp gives back what is owed, some at a time.
func (g *RedisGate) catchUp(ctx context.Context) error {
	const atOnce = 300
	for {
		g.owed.mu.Lock()
		some := slices.Clone(g.owed.all[:min(atOnce, len(g.owed.all))])
		g.owed.mu.Unlock()
		if len(some) == 0 {
			return nil
		}
		if err := ride(ctx, g.out, some); err != nil {
			return err
		}
		g.owed.mu.Lock()
		g.owed.all = g.owed.all[min(len(some), len(g.owed.all)):]
		g.owed.mu.Unlock()
	}
}
