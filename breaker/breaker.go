package breaker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrNotDue says that a breaker needs no probe now: it is closed, its cooldown
// has not passed, or nobody waits for it.
var ErrNotDue = errors.New("breaker is not due for a probe")

// Key names one breaker: a model's, or, without a Model, the parent of all
// models of a provider and region.
type Key struct {
	Provider string
	// Model is the configuration's key, "provider/name", without a line break;
	// it alone tells the models of one provider apart.
	Model  string
	Region string // "" where the model names none
}

// ErrNoModel says that a key names no model that could be called.
var ErrNoModel = errors.New("key names no model")

// check returns what keeps a key from being called or probed, or nil: a parent
// is asked by its models, and a line break would end a name in Redis.
func (k Key) check() error {
	if k.Model == "" || strings.Contains(k.Model, "\n") {
		return fmt.Errorf("%w: %+q of provider %+q", ErrNoModel, k.Model, k.Provider)
	}
	return nil
}

// Parent returns the key of the breaker above a model's: the provider, or,
// where the model names a region, the provider in that region.
func (k Key) Parent() Key { return Key{Provider: k.Provider, Region: k.Region} }

// Scope returns the level of the breaker that the key names.
func (k Key) Scope() Scope {
	if k.Model == "" {
		return ScopeParent
	}
	return ScopeModel
}

// String returns the model, or of a parent "provider" or "provider@region".
func (k Key) String() string {
	switch {
	case k.Model != "":
		return k.Model
	case k.Region == "":
		return k.Provider
	}
	return k.Provider + "@" + k.Region
}

// Parents returns the keys of the parents of the given models, each once, in
// the order in which they come.
func Parents(models []Key) []Key {
	var parents []Key
	for _, k := range models {
		if p := k.Parent(); !slices.Contains(parents, p) {
			parents = append(parents, p)
		}
	}
	return parents
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
	// Output is what the caller's own checks say of the answer. It moves no
	// breaker; it is counted beside the model's, see [Outputs].
	Output OutputVerdict
	// Hard opens a breaker at once for the longest cooldown. Scope says which:
	// the parent's where what is refused is shared, such as a key or a credit;
	// "" is the model's. The other level takes it for no evidence.
	Hard  bool
	Scope Scope
	// Reason is a few words for people, e.g. "unavailable: status 503".
	Reason string
	// RetryAfter is the provider's own; it can lengthen a cooldown, up to the cap.
	RetryAfter time.Duration
	// Latency is how long the call took; 0: not known. A success slower than
	// Settings.SlowCall is a failure.
	Latency time.Duration
	// Unfit says that the dependency refused the probe for what it asks, not
	// for what the dependency can do: no evidence, and the next probe is a
	// task's call. Only for outcome None of a probe.
	Unfit bool
}

// Ticket is the right to make one call. It carries the epochs of both levels at
// admission, so that a late result never counts; each is checked by itself.
type Ticket struct {
	Key         Key    // of the model to call
	ID          uint64 // unique, never 0; a report is idempotent by it
	Epoch       int64  // of the model's breaker
	ParentEpoch int64
	Probe       bool
	// Scope is the level that the call probes; "" for other tickets.
	Scope Scope
	// Lease is how long a probe may take from now on; 0 for other tickets. A
	// report after it counts for nothing.
	Lease time.Duration

	local shadow // of a Fallback
	cell  *cell  // of the Memory that granted it, which need not look for it again
}

// OpenError says that a breaker rejects calls. Where both levels do, it is the
// one with the longer wait.
type OpenError struct {
	Key    Key   // of the model that was asked for
	Scope  Scope // the level that rejects
	State  State // Open or HalfOpen
	Reason string
	// Until is when the breaker lets a probe through (Open), or when the lease
	// of the probe under way ends (HalfOpen). It is the store's time.
	Until time.Time
	// RetryAfter is the wait from now until an admission can be answered
	// differently: Until, plus the lease of the probe that must come first,
	// unless the call asked for would be that probe.
	// It is a duration so that the caller's clock need not agree with the store's.
	RetryAfter time.Duration
}

// Error names the breaker, the reason and the time.
func (e *OpenError) Error() string {
	k := e.Key
	if e.Scope == ScopeParent {
		k = k.Parent()
	}
	return fmt.Sprintf("breaker %s is %s until %s: %s", k, e.State, e.Until.Format(time.RFC3339), e.Reason)
}

// AdmitOption says how a call may be admitted.
type AdmitOption uint8

// NoProbe keeps a call from being a probe, because repeating it would do harm:
// where Settings.TaskProbes would have it probe, it is rejected. Calls of this
// kind alone never get the breaker probed: who makes them should then be admitted
// without it and send something harmless in their place.
const NoProbe AdmitOption = 1

// Store admits calls and takes reports. Implementations are safe for concurrent
// use; any error but *OpenError means that the store could not answer.
type Store interface {
	// Admit lets one call of a task to a model through, or returns *OpenError.
	// With Settings.TaskProbes, the call may be a probe: Ticket.Probe says so.
	// A key without a model is ErrNoModel.
	Admit(ctx context.Context, key Key, opts ...AdmitOption) (Ticket, error)
	// AdmitProbe takes a probe's lease of the model's breaker, or of its parent
	// where that is not closed, if it is due and somebody wants it probed;
	// else it returns *OpenError or ErrNotDue. Keys come from Due.
	AdmitProbe(ctx context.Context, key Key) (Ticket, error)
	// Report gives the outcome of an admitted call. It is idempotent, and a
	// no-op for a ticket of an earlier epoch or of a lease that ended.
	Report(ctx context.Context, t Ticket, r Report) error
	// Release gives a ticket back whose call was never sent.
	Release(ctx context.Context, t Ticket) error
	// Due returns the models of a provider to probe: those whose own breaker is
	// due and wanted (a task was rejected and waits), and, for a parent that is
	// due, the one of its models whose turn it is.
	Due(ctx context.Context, provider string) ([]Key, error)
	// List returns the state of the given breakers, models or parents, in their
	// order.
	List(ctx context.Context, keys []Key) ([]Status, error)
	// Force does what an operator wants of a breaker, a model's or a parent's.
	Force(ctx context.Context, key Key, f Force) error
}

// Status is a breaker as people see it.
type Status struct {
	Key         Key
	Scope       Scope
	State       State
	Reason      string        // why it is not closed
	Until       time.Time     // zero when closed, or held open for good
	Cooldown    time.Duration // the next, when it opens or reopens
	Failures    int           // in the ring
	Results     int           // in the ring
	Ring        []bool        // its results, the oldest first; true: failed
	Window      int
	Judged      int          // of the model's last answers, at most 50; see [Outputs]
	Invalid     int          // of those
	Probing     int          // probes under way
	Wanted      bool         // work waits for it, so that it is probed when due; false when closed
	TaskProbes  bool         // the probe is the first call that asks when it is due
	TaskDue     bool         // with TaskProbes: it is due, and has room for a probe
	Held        Held         // by an operator
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
