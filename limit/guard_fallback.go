package limit

import (
	"context"
	"errors"
	"sync"
	"time"

	"nightshift/internal/standby"
)

// GuardFallback is a Guarder that asks a shared one and, while that cannot
// answer, lets calls in but those of producers that it refused and whose time
// has not come; each call is booked when the shared one is back. That an attempt
// gets at most one such call is for who asks (see Ask.Alone). It is safe for
// concurrent use.
type GuardFallback struct {
	shared Guarder
	side   *standby.Switch
	clock  func() time.Time

	mu   sync.Mutex
	over map[string]refused // by producer; AllProducers: all
	owed map[string]*owed   // by ticket
}

// refused is what the shared store last refused, and until when.
type refused struct {
	scope GuardScope
	until time.Time
}

// owed is what the shared store has not heard of one call.
type owed struct {
	charge  Charge
	reserve bool // the call itself
	settle  bool
	release bool
	usd     int64
}

var _ Guarder = (*GuardFallback)(nil)

// NewGuardFallback returns a guard over a shared one, whose client should repeat
// nothing by itself. The clock defaults to time.Now.
func NewGuardFallback(shared Guarder, clock func() time.Time, o FallbackOptions) *GuardFallback {
	if clock == nil {
		clock = time.Now
	}
	f := &GuardFallback{shared: shared, side: o.Switch, clock: clock, over: map[string]refused{}, owed: map[string]*owed{}}
	if f.side == nil {
		f.side = standby.New(standby.Options{Name: "guard", Timeout: o.Timeout, Now: clock, Logger: o.Logger})
	}
	f.side.Register(f.catchUp)
	return f
}

// Reserve counts one call, or returns *OverError.
func (f *GuardFallback) Reserve(ctx context.Context, c Charge) error {
	var decision error
	answered, err := f.side.Ask(ctx, func(ctx context.Context) error {
		var over *OverError
		if decision = f.shared.Reserve(ctx, c); errors.As(decision, &over) {
			return nil
		}
		return decision
	})
	switch {
	case answered:
		return f.Heard(c, decision)
	case err != nil:
		return err
	}
	return f.alone(c)
}

// Heard takes what the shared store said to Reserve, for who asked it beside
// other stores: nil or *OverError, which comes back.
func (f *GuardFallback) Heard(c Charge, err error) error {
	var over *OverError
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		delete(f.over, c.Producer)
		delete(f.over, AllProducers)
	case errors.As(err, &over) && over.Scope != GuardBudget:
		name := c.Producer
		if over.Scope == GuardGlobal {
			name = AllProducers
		}
		f.over[name] = refused{over.Scope, f.clock().Add(over.Wait)}
	}
	return err
}

// alone is Reserve while the shared store cannot be asked.
func (f *GuardFallback) alone(c Charge) error {
	if wait, scope := f.stillOver(c); wait > 0 {
		return &OverError{Scope: scope, Producer: c.Producer, Batch: c.Batch, Wait: wait}
	}
	f.owe(c, func(o *owed) { o.reserve = true })
	return nil
}

// stillOver is how much is left of the shared store's last refusal.
func (f *GuardFallback) stillOver(c Charge) (time.Duration, GuardScope) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range []string{c.Producer, AllProducers} {
		if left := f.over[name].until.Sub(f.clock()); !c.Always && left > 0 {
			return left, f.over[name].scope
		}
	}
	return 0, ""
}

// Settle corrects the estimate by what the call cost, in nano-dollars.
func (f *GuardFallback) Settle(ctx context.Context, c Charge, usd int64) error {
	settle := func(o *owed) { o.settle, o.usd = true, usd }
	if f.amend(c, settle) {
		return nil
	}
	answered, err := f.side.Ask(ctx, func(ctx context.Context) error { return f.shared.Settle(ctx, c, usd) })
	if !answered {
		f.owe(c, settle)
	}
	return err
}

// Release gives back a call that was not sent.
func (f *GuardFallback) Release(ctx context.Context, c Charge) error {
	release := func(o *owed) { o.release = true }
	if f.amend(c, release) {
		return nil
	}
	answered, err := f.side.Ask(ctx, func(ctx context.Context) error { return f.shared.Release(ctx, c) })
	if !answered {
		f.owe(c, release)
	}
	return err
}

// amend notes more of a call of which the shared store has not heard, and says
// whether there is one.
func (f *GuardFallback) amend(c Charge, change func(*owed)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.owed[c.Ticket]
	if o == nil {
		return false
	}
	change(o)
	return true
}

// owe notes what the shared store is to hear.
func (f *GuardFallback) owe(c Charge, change func(*owed)) {
	if f.amend(c, change) {
		return
	}
	o := &owed{charge: c}
	change(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owed[c.Ticket] = o
	f.side.Owe()
}

// catchUp tells the shared store of the calls that it missed: they are counted
// whatever the limits are by then. Every message may be repeated, so a call is
// forgotten only once all of it is told.
func (f *GuardFallback) catchUp(ctx context.Context) error {
	for {
		o, ok := f.oneOwed()
		if !ok {
			return nil
		}
		if err := f.pay(ctx, o); err != nil {
			return err
		}
		f.paid(o)
	}
}

func (f *GuardFallback) oneOwed() (owed, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.owed {
		return *o, true
	}
	return owed{}, false
}

func (f *GuardFallback) pay(ctx context.Context, o owed) error {
	if o.reserve && !o.release {
		c := o.charge
		c.Always = true
		if err := f.shared.Reserve(ctx, c); err != nil {
			return err
		}
	}
	switch {
	case o.release:
		return f.shared.Release(ctx, o.charge)
	case o.settle:
		return f.shared.Settle(ctx, o.charge, o.usd)
	}
	return nil
}

// paid forgets what was told, unless there is more of it since.
func (f *GuardFallback) paid(o owed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch now := f.owed[o.charge.Ticket]; {
	case now == nil:
	case *now == o:
		delete(f.owed, o.charge.Ticket)
	default:
		now.reserve = false // that much is told
	}
}
