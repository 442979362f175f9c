package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotDue says that a breaker needs no probe now: it is closed, its cooldown
// has not passed, or nobody waits for it.
var ErrNotDue = errors.New("breaker is not due for a probe")

// Key names one breaker. Model is the configuration's key, "provider/name"; it
// alone tells breakers of one provider apart.
type Key struct {
	Provider string
	Model    string
	Region   string // "" where the model names none
}

// Parent returns the name of the breaker above: the provider, or provider@region.
func (k Key) Parent() string {
	if k.Region == "" {
		return k.Provider
	}
	return k.Provider + "@" + k.Region
}

// State is a breaker's state.
type State string

// The states.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half_open"
)

// Scope says which level rejected a call.
type Scope string

// The levels.
const (
	ScopeModel  Scope = "model"
	ScopeParent Scope = "parent"
)

// Outcome is what a call says about the dependency.
type Outcome int

// The outcomes.
const (
	// None is no evidence: the caller's own error, a cancellation.
	None Outcome = iota
	// Success is an answer.
	Success
	// Failure is a dependency that could not serve.
	Failure
	// Limited is a 429: no evidence for the window, but an open door to a probe.
	Limited
)

// Report is the outcome of an admitted call.
type Report struct {
	Outcome Outcome
	// Hard opens the breaker at once for the longest cooldown.
	Hard bool
	// Reason is a few words for people, e.g. "unavailable: status 503".
	Reason string
	// RetryAfter is the provider's own; it can lengthen a cooldown, up to the cap.
	RetryAfter time.Duration
}

// Ticket is the right to make one call. It carries the epoch of the breaker at
// admission, so that a late result never counts.
type Ticket struct {
	Key   Key
	ID    uint64 // unique, never 0; a report is idempotent by it
	Epoch int64
	Probe bool
	// Lease is how long a probe may take from now on; 0 for other tickets. A
	// report after it counts for nothing.
	Lease time.Duration
}

// OpenError says that a breaker rejects calls.
type OpenError struct {
	Key    Key
	Scope  Scope
	State  State // Open or HalfOpen
	Reason string
	// Until is when the breaker lets a probe through (Open), or when the lease
	// of the probe under way ends (HalfOpen). It is the store's time.
	Until time.Time
	// RetryAfter is the wait from now until an admission can be answered
	// differently: Until, plus the lease of the probe that must come first.
	// It is a duration so that the caller's clock need not agree with the store's.
	RetryAfter time.Duration
}

// Error names the breaker, the reason and the time.
func (e *OpenError) Error() string {
	return fmt.Sprintf("breaker %s is %s until %s: %s", e.Key.Model, e.State, e.Until.Format(time.RFC3339), e.Reason)
}

// Store admits calls and takes reports. Implementations are safe for concurrent
// use; any error but *OpenError means that the store could not answer.
type Store interface {
	// Admit lets one call of a task through, or returns *OpenError.
	Admit(ctx context.Context, key Key) (Ticket, error)
	// AdmitProbe takes the probe lease of a breaker that is due and whose
	// probing somebody wants, or returns *OpenError, or ErrNotDue.
	AdmitProbe(ctx context.Context, key Key) (Ticket, error)
	// Report gives the outcome of an admitted call. It is idempotent, and a
	// no-op for a ticket of an earlier epoch or of a lease that ended.
	Report(ctx context.Context, t Ticket, r Report) error
	// Release gives a ticket back whose call was never sent.
	Release(ctx context.Context, t Ticket) error
	// Due returns the breakers of a provider whose probe is due and wanted:
	// a task was rejected by them and has work waiting.
	Due(ctx context.Context, provider string) ([]Key, error)
	// List returns the state of the given breakers, in their order.
	List(ctx context.Context, keys []Key) ([]Status, error)
}

// Status is a breaker as people see it.
type Status struct {
	Key         Key
	Scope       Scope
	State       State
	Reason      string        // why it is not closed
	Until       time.Time     // zero when closed
	Cooldown    time.Duration // the next, when it opens or reopens
	Failures    int           // in the ring
	Results     int           // in the ring
	Window      int
	Transitions []Transition // the last few, newest first
}

// Transition is one change of state.
type Transition struct {
	Key    Key
	Scope  Scope
	From   State
	To     State
	Reason string
	At     time.Time
}
