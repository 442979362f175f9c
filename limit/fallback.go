package limit

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"nightshift/internal/standby"
)

// ReasonStore is why a call waits that had its one without the shared store.
const ReasonStore Reason = "store"

// Fallback is a Pacer that asks a shared one and, while that cannot answer,
// decides from the memory of this process: its own refusals, what the shared
// store said of parks, and the configured limits. It is safe for concurrent use.
//
// Without the shared store a slot gets one call at most ([Ask.Alone]); the next
// waits for the store. When it answers again, it first hears what it missed:
// parks for what is left of them, and calls, which are booked.
type Fallback struct {
	shared Pacer
	local  *Memory
	side   *standby.Switch

	mu     sync.Mutex
	lone   map[string]bool // tickets of calls that went out alone
	untold map[parked]int64
	owed   []*debt
}

// parked names a lane; its untold park ends at ms of the memory's clock.
type parked struct {
	model Model
	lane  string
}

// debt is what the shared store did not hear.
type debt struct {
	lane  parked
	until int64 // the end of its park, ms; 0: none
	park  bool  // it is forgotten where the lane is not parked any more
	tell  func(ctx context.Context, left time.Duration) error
}

// maxOwed bounds what is kept for a store that stays away: beyond it the oldest
// are forgotten, whose slots end with their leases.
const maxOwed = 10_000

// alonePoll is when a call that waits for the store asks again.
const alonePoll = time.Second

// FallbackOptions may all be zero.
type FallbackOptions struct {
	// Switch is shared with what else the same server keeps; nil: one of its own,
	// of the options below.
	Switch *standby.Switch
	// Timeout bounds a question to the shared store. Defaults to 2 s.
	Timeout time.Duration
	// Logger gets one line a change of who decides. Defaults to discarding.
	Logger *slog.Logger
}

var _ Pacer = (*Fallback)(nil)

// NewFallback returns a pacer over both; the memory's clock decides about the
// times of this one. The shared store's client should repeat nothing by itself.
func NewFallback(shared Pacer, memory *Memory, o FallbackOptions) *Fallback {
	f := &Fallback{shared: shared, local: memory, lone: map[string]bool{}, untold: map[parked]int64{}}
	if f.side = o.Switch; f.side == nil {
		f.side = standby.New(standby.Options{Name: "pacing", Timeout: o.Timeout, Now: memory.clock, Logger: o.Logger})
	}
	f.side.Register(f.catchUp)
	return f
}

// Reserve asks for one call.
func (f *Fallback) Reserve(ctx context.Context, a Ask) (Slot, error) {
	var s Slot
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
		s, err = f.shared.Reserve(ctx, a)
		return err
	})
	switch {
	case err != nil:
		return Slot{}, err
	case answered:
		return f.Heard(a, s), nil
	}
	return f.Alone(a), nil
}

// Heard takes the shared store's answer to an Ask, which Reserve or a pipeline
// asked, and returns the one that counts: a park that the store has not heard of
// holds, and the slot is given back.
func (f *Fallback) Heard(a Ask, s Slot) Slot {
	left := max(f.left(parked{a.Model, ""}), f.left(parked{a.Model, a.Lane}))
	if left <= s.Parked || s.Verdict == Refuse && left <= s.Wait {
		f.local.setPark(a.Model, a.Lane, s.Parked)
		return s
	}
	if s.Verdict == Go {
		f.owe(&debt{tell: func(ctx context.Context, _ time.Duration) error { return f.shared.Cancel(ctx, a.Model, a.Ticket) }})
	}
	if c := a.clean(); left > millis(c.patience) {
		return Slot{Refuse, left, ReasonParked, left}
	}
	return Slot{Wait, min(left, millis(parkPoll)), ReasonParked, left}
}

// Alone answers an Ask that the shared store did not.
func (f *Fallback) Alone(a Ask) Slot {
	if f.isLone(a.Ticket) {
		return Slot{Verdict: Go}
	}
	if !a.Alone {
		return Slot{Verdict: Wait, Wait: alonePoll, Reason: ReasonStore}
	}
	s, _ := f.local.Reserve(context.Background(), a) // it never fails
	if s.Verdict == Go {
		f.mu.Lock()
		f.lone[a.Ticket] = true
		f.mu.Unlock()
	}
	return s
}

func (f *Fallback) isLone(ticket string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lone[ticket]
}

// Settle says what became of a call, and returns for how long it parked. What the
// shared store does not hear, it hears later.
func (f *Fallback) Settle(ctx context.Context, m Model, ticket string, r Result) (time.Duration, error) {
	r, done := f.Leaving(m, ticket, r)
	var d time.Duration
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
		d, err = f.shared.Settle(ctx, m, ticket, r)
		return err
	})
	return done(d, answered), err
}

// Leaving is Settle for who asks the shared store in a pipeline: it returns what
// to settle there, and takes whether that was answered, and with which park.
func (f *Fallback) Leaving(m Model, ticket string, r Result) (Result, func(told time.Duration, answered bool) time.Duration) {
	var own time.Duration
	f.mu.Lock()
	r.Alone = f.lone[ticket]
	delete(f.lone, ticket)
	f.mu.Unlock()
	if r.Alone {
		own, _ = f.local.Settle(context.Background(), m, ticket, r)
	} else if r.Kind == Limited { // also for the streak
		own, _ = f.local.Park(context.Background(), m, r.Lane, r.RetryAfter)
	}
	lane := parked{m, r.Lane}
	return r, func(told time.Duration, answered bool) time.Duration {
		if !answered {
			f.unsettled(lane, ticket, r, own)
			return own
		}
		if r.Kind != Limited {
			return told
		}
		told = max(told, f.left(lane))
		f.local.setPark(m, r.Lane, told)
		return told
	}
}

// unsettled keeps a settlement that the shared store did not hear.
func (f *Fallback) unsettled(lane parked, ticket string, r Result, own time.Duration) {
	f.owe(&debt{lane: lane, until: f.end(own), tell: func(ctx context.Context, left time.Duration) error {
		if r.Kind == Limited {
			if r.RetryAfter = left; left <= 0 {
				r.Kind = Unclear // its park is over
			}
		}
		_, err := f.shared.Settle(ctx, lane.model, ticket, r)
		return err
	}})
}

// Cancel gives back what a call that was not sent has or waits for.
func (f *Fallback) Cancel(ctx context.Context, m Model, ticket string) error {
	f.mu.Lock()
	lone := f.lone[ticket]
	delete(f.lone, ticket)
	f.mu.Unlock()
	_ = f.local.Cancel(ctx, m, ticket)
	if lone {
		return nil // the store never heard of it
	}
	tell := func(ctx context.Context, _ time.Duration) error { return f.shared.Cancel(ctx, m, ticket) }
	answered, err := f.side.Ask(ctx, func(ctx context.Context) error { return tell(ctx, 0) })
	if !answered {
		f.owe(&debt{tell: tell})
	}
	return err
}

// Park parks the model or its lane and returns for how long. While the shared
// store is away, only this process knows.
func (f *Fallback) Park(ctx context.Context, m Model, lane string, retryAfter time.Duration) (time.Duration, error) {
	own, _ := f.local.Park(ctx, m, lane, retryAfter) // also for the streak; it never fails
	name := parked{m, lane}
	var d time.Duration
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
		d, err = f.shared.Park(ctx, m, lane, retryAfter)
		return err
	})
	if answered {
		d = max(d, f.left(name))
		f.local.setPark(m, lane, d)
		return d, nil
	}
	f.owe(&debt{lane: name, until: f.end(own), park: true, tell: func(ctx context.Context, left time.Duration) error {
		_, err := f.shared.Park(ctx, m, lane, left)
		return err
	}})
	return own, err
}

// Restart says that the model's breaker closed.
func (f *Fallback) Restart(ctx context.Context, m Model) error {
	_ = f.local.Restart(ctx, m)
	_, err := f.side.Ask(ctx, func(ctx context.Context) error { return f.shared.Restart(ctx, m) })
	return err
}

// List returns the pace of the models, in their order.
func (f *Fallback) List(ctx context.Context, models []Model) ([]Pace, error) {
	var list []Pace
	answered, err := f.side.Ask(ctx, func(ctx context.Context) (err error) {
		list, err = f.shared.List(ctx, models)
		return err
	})
	if err != nil || answered {
		return list, err
	}
	return f.local.List(ctx, models)
}

// end is when a park of d ends; 0: it is none.
func (f *Fallback) end(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return f.now() + d.Milliseconds()
}

// left is for how long a lane is parked by what the shared store has not heard.
func (f *Fallback) left(lane parked) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return millis(max(f.untold[lane]-f.now(), 0))
}

func (f *Fallback) now() int64 { return f.local.clock().UnixMilli() }

// owe keeps what the shared store hears with its next answer.
func (f *Fallback) owe(d *debt) {
	f.mu.Lock()
	if d.until > 0 {
		f.untold[d.lane] = max(f.untold[d.lane], d.until)
	}
	f.owed = append(f.owed, d)
	f.owed = f.owed[max(len(f.owed)-maxOwed, 0):]
	f.mu.Unlock()
	f.side.Owe()
}

// catchUp tells the shared store what it missed, in order.
func (f *Fallback) catchUp(ctx context.Context) error {
	for d := f.oldest(); d != nil; d = f.oldest() {
		if left := millis(max(d.until-f.now(), 0)); !d.park || left > 0 {
			if err := d.tell(ctx, left); err != nil {
				return err
			}
		}
		f.paid(d)
	}
	return nil
}

// oldest is what the shared store hears next; nil: it knows all. Its parks are
// kept to their ends: an answer may come from before it was told.
func (f *Fallback) oldest() *debt {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.owed) > 0 {
		return f.owed[0]
	}
	now := f.now()
	maps.DeleteFunc(f.untold, func(_ parked, until int64) bool { return until <= now })
	return nil
}

func (f *Fallback) paid(d *debt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owed = slices.DeleteFunc(f.owed, func(x *debt) bool { return x == d })
}
