package limit

import (
	"context"
	"fmt"
	"time"
)

// System is the producer of calls that no producer asked for: probes. It has no
// limit.
const System = "system"

// GuardLimits are what an hour may hold; 0: no limit.
type GuardLimits struct {
	Calls int64
	USD   int64 // nano-dollars
}

// Charge is one call before the guard.
type Charge struct {
	Producer string
	Batch    string // "": of no batch
	Line     string // who gets a place, unique to the line, e.g. "<batch>:<line>"; "": nobody
	// Ticket is unique to the call: a repeat of a question whose answer was lost
	// does no harm.
	Ticket string
	// USD is the estimate, in nano-dollars. Nonsense is clamped to 0 .. a million dollars.
	USD int64
	// Always has the call counted and never refused: a probe, or a rung without a
	// price while the producer is over its limit.
	Always bool
}

// GuardScope says whose limit a call is over.
type GuardScope string

// The scopes.
const (
	GuardProducer GuardScope = "producer"
	GuardGlobal   GuardScope = "global"
	GuardBudget   GuardScope = "budget" // the batch's
)

// OverError says that a call is over a limit. Nothing was counted.
type OverError struct {
	Scope    GuardScope
	Producer string
	Batch    string
	// Wait is how long until the line's place falls due. 0, with GuardBudget: the
	// budget is spent, and waiting does not help.
	Wait time.Duration
}

// Error names who is over what.
func (e *OverError) Error() string {
	switch {
	case e.Scope == GuardBudget && e.Wait == 0:
		return fmt.Sprintf("the budget of batch %s is spent", e.Batch)
	case e.Scope == GuardBudget:
		return fmt.Sprintf("the budget of batch %s may be spent by its calls under way", e.Batch)
	case e.Scope == GuardGlobal:
		return fmt.Sprintf("the hourly limit of all producers is reached, a place is free in %s", e.Wait)
	}
	return fmt.Sprintf("the hourly limit of producer %s is reached, a place is free in %s", e.Producer, e.Wait)
}

// Grant is an allowance: calls of a batch's own, which are used first and do not
// count against its producer's calls.
type Grant struct {
	Calls int64
	By    string // who granted it
	At    time.Time
}

// Guarder counts calls by the hour. Implementations are safe for concurrent use;
// any error but *OverError means that the store could not answer.
type Guarder interface {
	// Reserve counts one call before it is sent, or returns *OverError.
	Reserve(ctx context.Context, c Charge) error
	// Settle corrects the estimate by what the call cost, in nano-dollars. It is
	// idempotent by ticket. A call that nobody settles stays counted as estimated.
	Settle(ctx context.Context, c Charge, usd int64) error
	// Release gives back a call that was not sent; nothing else does.
	Release(ctx context.Context, c Charge) error
}

// Room is what the guard leaves to new lines, beyond those that have places.
type Room struct {
	// Calls is how many more calls fit into the hour; negative where lines wait
	// for places. Unlimited: calls have no limit, and that of USD is not reached.
	Calls     int64
	Unlimited bool
	// Ready is how many of the lines that have places would be let in now.
	Ready int64
	// Allowance is what is left of a batch's own calls, and Spent says that its
	// budget is used up. Of producers they are zero.
	Allowance int64
	Spent     bool
}

// GuardStatus is a producer's guard as people see it.
type GuardStatus struct {
	Producer string // "*": all of them together
	Open     bool
	Calls    int64 // of the last hour, up to a minute more
	USD      int64 // likewise, nano-dollars
	Limits   GuardLimits
	Until    time.Time // Open: when a new call is let in
	Waiting  int64     // lines with a place
	// Released is when a person last set the count to nothing, and who; zero: never.
	Released   time.Time
	ReleasedBy string
}

// GuardChange is a guard that opened or closed.
type GuardChange struct {
	Producer string // "*": all of them together
	Open     bool
	Until    time.Time // Open: when a new call is let in
	Limits   GuardLimits
}

// AllProducers is the name of the guard over all producers.
const AllProducers = "*"
