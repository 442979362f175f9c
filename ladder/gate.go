package ladder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nightshift/breaker"
	"nightshift/internal/convoy"
	"nightshift/limit"
	"nightshift/provider"
)

// Gate is the door before every call: guard, pace and breaker, asked together
// and told together. StoreGate and *RedisGate are gates. It must be safe for
// concurrent use.
type Gate interface {
	// Enter asks for one call. It returns *breaker.OpenError, *limit.OverError or
	// *WaitError where one of the three refuses, and has then given back what the
	// others had granted; any other error means that they could not be asked.
	Enter(ctx context.Context, e Entry) (Pass, error)
	// Vouch tells the breaker during a call that it still answers; Leave then
	// tells only the others (Exit.Vouched).
	Vouch(ctx context.Context, p Pass, r breaker.Report) error
	// Leave says what became of a call, and returns for how long a rate limit
	// parked its model. It is idempotent.
	Leave(ctx context.Context, p Pass, x Exit) (parked time.Duration, err error)
	// LeaveIn is Leave in the party of another. After that was sent, or in place of
	// it, done must be called once: what the party did not bring, it tells by itself.
	LeaveIn(ctx context.Context, party *convoy.Party, p Pass, x Exit) (done func() error)
	// GiveUp gives back the place of an entry that is not asked for again.
	GiveUp(ctx context.Context, e Entry) error
	// Send counts a probe of ours before it is sent; sent must be called after it,
	// with the Result and the cost alone. It refuses only a model that is parked, by
	// *WaitError.
	Send(ctx context.Context, s Sending) (sent func(context.Context, Exit) error, err error)
}

// Entry asks for one call of a line.
type Entry struct {
	Key     breaker.Key
	NoProbe bool // the call may not be a breaker's probe
	// Ask is for the pace; its model is the key's. Its ticket names the call and,
	// while that waits, its place.
	Ask limit.Ask
	// Charge is for the guard. A gate may give it another ticket.
	Charge limit.Charge
	// Waiting says that the entry was asked for before and has a place.
	Waiting bool
}

// Pass is the right to make one call. It must be left once.
type Pass struct {
	breaker.Ticket
	entry Entry
	// lone says that it was granted from memory, since the stores could not be
	// asked: they are told of the call when they can.
	lone bool
}

// Exit is what became of a call.
type Exit struct {
	// Unsent says that it was not made: the guard's reservation and the slot are
	// given back.
	Unsent bool
	// Report is for the breaker; nil: the ticket is released.
	Report *breaker.Report
	// Vouched says that the breaker was told during the call.
	Vouched bool
	// Result is for the pace.
	Result limit.Result
	// USD is what the call cost.
	USD provider.USD
}

// WaitError says that a model's pace lets no call go now.
type WaitError struct {
	Key  breaker.Key
	Slot limit.Slot
}

// Error says what is waited for, and for how long.
func (e *WaitError) Error() string {
	return fmt.Sprintf("model %s has no slot for %s: %s", e.Key.Model, e.Slot.Wait, e.Slot.Reason)
}

// keepsPlace says that an entry was refused but has a place, by its ticket.
func keepsPlace(err error) bool {
	var wait *WaitError
	return errors.As(err, &wait) && wait.Slot.Verdict == limit.Wait
}

// ErrAlone says that the stores cannot be asked and that the attempt had its one
// call without them.
var ErrAlone = errors.New("the shared stores cannot be asked, and the attempt had its call without them")

func modelOf(k breaker.Key) limit.Model { return limit.Model{Provider: k.Provider, Model: k.Model} }

// Leaving is what an attempt's last call has yet to tell the gate. It rides in
// the party that ends the attempt. Its methods may be called of a nil one.
type Leaving struct {
	gate Gate
	pass Pass
	exit Exit
	done func() error
	warn func(error)
}

// Ride puts it into a party, once: a party after one that failed goes without it,
// since Done tells what is untold.
func (l *Leaving) Ride(party *convoy.Party) {
	if l != nil && l.done == nil {
		l.done = l.gate.LeaveIn(context.Background(), party, l.pass, l.exit)
	}
}

// Done follows the party's way, whatever became of it: what it did not bring is
// told now. Without a ride it tells everything.
func (l *Leaving) Done() {
	if l == nil {
		return
	}
	if l.done == nil {
		ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
		defer cancel()
		l.Tell(ctx)
		return
	}
	if err := l.done(); err != nil {
		l.warn(err)
	}
}

// Tell is Done without a ride, for as long as the context lets it take.
func (l *Leaving) Tell(ctx context.Context) {
	if l == nil {
		return
	}
	if _, err := l.gate.Leave(ctx, l.pass, l.exit); err != nil {
		l.warn(err)
	}
}
