package ladder

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
	"nightshift/internal/convoy"
	"nightshift/internal/standby"
	"nightshift/limit"
)

// SharedBreakers are breakers that ride in parties; *breaker.Redis is one.
type SharedBreakers interface {
	AdmitIn(p *convoy.Party, key breaker.Key, opts ...breaker.AdmitOption) func() (breaker.Ticket, error)
	ReportIn(p *convoy.Party, t breaker.Ticket, r breaker.Report) func() error
	ReleaseIn(p *convoy.Party, t breaker.Ticket) func() error
}

// SharedPace is a pacer that rides in parties; *limit.Redis is one.
type SharedPace interface {
	ReserveIn(p *convoy.Party, a limit.Ask) func() (limit.Slot, error)
	SettleIn(p *convoy.Party, m limit.Model, ticket string, r limit.Result) func() (time.Duration, error)
	CancelIn(p *convoy.Party, m limit.Model, ticket string) func() error
}

// SharedGuard is a guard that rides in parties; *limit.GuardRedis is one.
type SharedGuard interface {
	ReserveIn(p *convoy.Party, c limit.Charge) func() error
	SettleIn(p *convoy.Party, c limit.Charge, usd int64) func() error
	ReleaseIn(p *convoy.Party, c limit.Charge) func() error
}

// OwnBreakers are a process's own while the shared ones cannot be asked, and
// follow them else; *breaker.Fallback is one.
type OwnBreakers interface {
	Breakers
	Heard(key breaker.Key, t breaker.Ticket, err error) (breaker.Ticket, error)
	Told(ctx context.Context, t breaker.Ticket, r breaker.Report, answered bool) error
}

// OwnPace likewise; *limit.Fallback is one.
type OwnPace interface {
	limit.Pacer
	Heard(a limit.Ask, s limit.Slot) limit.Slot
	Leaving(m limit.Model, ticket string, r limit.Result) (limit.Result, func(told time.Duration, answered bool) time.Duration)
}

// OwnGuard likewise; *limit.GuardFallback is one.
type OwnGuard interface {
	Guard
	Heard(c limit.Charge, err error) error
}

// RedisGate asks guard, pace and breaker in one round trip, and tells them in
// one; lines that ask at the same time share both. It is safe for concurrent use.
//
// All three are asked at once, so what one has granted is given back where
// another refuses. A place that is waited for holds nothing of the guard: its
// hour counts calls when they are sent. So it is asked last of a line that waits,
// and of a model where others have waited a moment ago.
//
// While Redis is away, the process's own stores decide, one call an attempt, and
// tell Redis of it when it is back.
type RedisGate struct {
	o    RedisGateOptions
	in   *convoy.Convoy // of entries
	out  *convoy.Convoy // of what is told and given back
	own  StoreGate
	owed owed
	busy sync.Map // of models where calls wait, the time.Time until which they are taken to
}

// RedisGateOptions says what a gate asks. All are needed but the last two.
type RedisGateOptions struct {
	Redis    redis.UniversalClient
	Switch   *standby.Switch // of all stores that the Redis keeps
	Breakers SharedBreakers
	Pace     SharedPace
	Guard    SharedGuard
	// The process's own stores, which share the switch.
	OwnBreakers OwnBreakers
	OwnPace     OwnPace
	OwnGuard    OwnGuard
	Logger      *slog.Logger     // defaults to discarding
	Now         func() time.Time // defaults to time.Now
}

var _ Gate = (*RedisGate)(nil)

// NewRedisGate returns a gate.
func NewRedisGate(o RedisGateOptions) *RedisGate {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &RedisGate{
		o: o, in: convoy.New(o.Redis), out: convoy.New(o.Redis),
		own: StoreGate{Breakers: o.OwnBreakers, Pacer: o.OwnPace, Guard: o.OwnGuard},
	}
	o.Switch.Register(g.catchUp)
	return g
}

// busyFor is how long after a call had to wait others are taken to have to.
const busyFor = time.Second

// Enter asks for one call. The guard knows every question by a ticket of its own:
// what is given back of one may reach Redis after a later one of the same call was
// granted, and would take that away.
func (g *RedisGate) Enter(ctx context.Context, e Entry) (Pass, error) {
	e.Charge.Ticket = rand.Text()
	a := &replies{guarded: !e.Waiting && !g.isBusy(e.Ask.Model)}
	answered, err := g.o.Switch.Ask(ctx, func(ctx context.Context) error { return g.ask(ctx, &e, a) })
	switch {
	case answered:
		return g.decide(ctx, &e, a)
	case err != nil:
		g.owe(g.gifts(&e, a.ticket)...) // it may have been asked all the same
		return Pass{}, err
	}
	return g.alone(ctx, e, a.ticket)
}

// replies are what the stores said to an entry.
type replies struct {
	slot    limit.Slot
	ticket  breaker.Ticket
	open    error // *breaker.OpenError
	guarded bool  // the guard is asked, too
	over    error // *limit.OverError
}

// ask asks pace and breaker, and the guard with them where a call is likely.
func (g *RedisGate) ask(ctx context.Context, e *Entry, a *replies) error {
	questions := []rider{
		func(p *convoy.Party) func() error {
			answer := g.o.Pace.ReserveIn(p, e.Ask)
			return func() (err error) { a.slot, err = answer(); return err }
		},
		func(p *convoy.Party) func() error {
			answer := g.o.Breakers.AdmitIn(p, e.Key, e.admission()...)
			return func() (err error) {
				a.ticket, err = answer()
				return decision[*breaker.OpenError](err, &a.open)
			}
		},
	}
	if a.guarded {
		questions = append(questions, g.charge(e, a))
	}
	return ride(ctx, g.in, questions)
}

func (g *RedisGate) charge(e *Entry, a *replies) rider {
	return func(p *convoy.Party) func() error {
		answer := g.o.Guard.ReserveIn(p, e.Charge)
		return func() error { return decision[*limit.OverError](answer(), &a.over) }
	}
}

// decision keeps an error that is a store's decision; what comes back is one that is not.
func decision[E error](err error, kept *error) error {
	if e := *new(E); errors.As(err, &e) {
		*kept = err
		return nil
	}
	return err
}

// decide puts the replies together. A breaker's refusal goes first, since the
// line then does not wait for the model's pace.
func (g *RedisGate) decide(ctx context.Context, e *Entry, a *replies) (Pass, error) {
	a.slot = g.o.OwnPace.Heard(e.Ask, a.slot)
	if a.guarded {
		a.over = g.o.OwnGuard.Heard(e.Charge, a.over)
	}
	ticket, open := g.o.OwnBreakers.Heard(e.Key, a.ticket, a.open)
	wait := a.slot.Verdict != limit.Go
	if wait {
		g.busy.Store(e.Ask.Model, g.o.Now().Add(busyFor))
	}
	var refusal error
	switch {
	case open != nil:
		refusal = open
	case a.over != nil:
		refusal = a.over
	case wait:
		g.back(ctx, e, a, ticket, a.slot.Verdict == limit.Wait)
		return Pass{}, &WaitError{Key: e.Key, Slot: a.slot}
	case !a.guarded:
		return g.last(ctx, e, ticket)
	default:
		return Pass{Ticket: ticket, entry: *e}, nil
	}
	g.back(ctx, e, a, ticket, false)
	return Pass{}, refusal
}

// last asks the guard of a call that pace and breaker let go.
func (g *RedisGate) last(ctx context.Context, e *Entry, t breaker.Ticket) (Pass, error) {
	a := &replies{slot: limit.Slot{Verdict: limit.Go}, guarded: true}
	answered, err := g.o.Switch.Ask(ctx, func(ctx context.Context) error { return ride(ctx, g.in, []rider{g.charge(e, a)}) })
	if answered {
		if a.over = g.o.OwnGuard.Heard(e.Charge, a.over); a.over == nil {
			return Pass{Ticket: t, entry: *e}, nil
		}
		g.back(ctx, e, a, t, false)
		return Pass{}, a.over
	}
	g.owe(g.gifts(e, t)...)
	if err == nil {
		err = ErrAlone // and the slot is owed
	}
	return Pass{}, err
}

func (g *RedisGate) isBusy(m limit.Model) bool {
	until, ok := g.busy.Load(m)
	return ok && g.o.Now().Before(until.(time.Time))
}

// alone has the process's own stores decide, though the shared ones may have been
// asked: where a part of them answered, t is what the breaker granted.
func (g *RedisGate) alone(ctx context.Context, e Entry, t breaker.Ticket) (Pass, error) {
	if !e.Ask.Alone {
		g.owe(g.gifts(&e, t)...)
		return Pass{}, ErrAlone
	}
	p, err := g.own.Enter(ctx, e)
	p.lone = true
	switch {
	case keepsPlace(err): // its ticket is asked for again
		g.owe(g.grants(&e, t)...)
	case err != nil:
		g.owe(g.gifts(&e, t)...)
	case t.Probe: // the own breakers admit by a ticket of theirs
		g.owe(g.release(t))
	}
	return p, err
}

// back gives back what was granted to an entry that is refused; the place stays
// where it is waited for.
func (g *RedisGate) back(ctx context.Context, e *Entry, a *replies, t breaker.Ticket, keepsPlace bool) {
	var gifts []gift
	if a.slot.Verdict != limit.Refuse && !keepsPlace {
		gifts = append(gifts, g.cancel(*e))
	}
	if a.guarded && a.over == nil {
		gifts = append(gifts, g.refund(*e))
	}
	if t.Probe {
		gifts = append(gifts, g.release(t))
	}
	g.give(ctx, gifts)
}

// GiveUp gives back the place of an entry.
func (g *RedisGate) GiveUp(ctx context.Context, e Entry) error {
	g.give(ctx, []gift{g.cancel(e)})
	return nil
}

// Vouch tells the breaker of a call that still replies.
func (g *RedisGate) Vouch(ctx context.Context, p Pass, r breaker.Report) error {
	return g.own.Vouch(ctx, p, r)
}

// Send counts a probe.
func (g *RedisGate) Send(ctx context.Context, s Sending) (func(context.Context, Exit) error, error) {
	return g.own.Send(ctx, s)
}
