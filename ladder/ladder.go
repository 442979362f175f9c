package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"nightshift/provider"
)

// Request is a line as an attempt sees it.
type Request struct {
	Batch      string
	Line       int64
	Generation int
	Producer   string // who submitted the batch, for the guard
	Queue      string // whose slot the attempt holds
	CustomID   string
	Endpoint   string
	Body       json.RawMessage
	// Size is the body's, where it is known (SizeOf, SizeOfTokens); the zero Size
	// has the attempt measure it.
	Size      Size
	Metadata  json.RawMessage // for text rungs; may be nil
	Schema    json.RawMessage // that the answer must satisfy, in place of the ladder's; may be nil
	Rung      int             // the first rung to try
	Goal      string          // the line's own; "": the ladder's
	Rehearsal bool            // the built-in simulator answers
	Deadline  time.Time       // zero: none
	// Margin is the time before Deadline at which an at_deadline rung must go.
	Margin time.Duration
	// NoProbe keeps the line's call from being the probe of a breaker, because
	// repeating it would do harm.
	NoProbe  bool
	Retries  int      // the queue's budget; with it, max_calls has its default
	Progress Progress // what earlier attempts did
	// Called is told of every call of the attempt, as an Observer is; nil: nobody.
	Called func(CallEvent)
	// Stop, once closed, ends the attempt softly: a call in flight finishes and
	// counts, but no further call, wait or rung starts. nil: it never stops.
	Stop <-chan struct{}
}

// Progress is what a line went through so far, over all attempts.
type Progress struct {
	Calls     []provider.Call
	Failures  int // attempts that really failed
	Deferrals int
	RuledOut  []int // rungs that cannot answer this line
	// FirstRefused is when an open breaker first refused the line; zero: never.
	FirstRefused time.Time
	// FirstLimited is when a rate limit first refused the line; zero: never.
	FirstLimited time.Time
	// Skipped says why the last attempt passed rungs over, in their order.
	Skipped []Skip
}

// Skip is a rung that an attempt passed over. It is no call: nothing was sent,
// and it counts for no limit.
type Skip struct {
	Model  string // the key of the configuration; "nightshift/text" for a text
	At     time.Time
	Detail string // why, in a few words
}

// Cost returns the sum of all calls.
func (p Progress) Cost() provider.USD {
	var sum provider.USD
	for _, c := range p.Calls {
		sum += c.Cost
	}
	return sum
}

// Usage returns the tokens of all calls.
func (p Progress) Usage() provider.Usage {
	var sum provider.Usage
	for _, c := range p.Calls {
		sum = sum.Plus(c.Usage)
	}
	return sum
}

// End says what an attempt ended in.
type End int

// The ends of an attempt.
const (
	// Answered: Outcome.Answer holds the answer.
	Answered End = iota + 1
	// Deferred: nothing could be tried; Outcome.Waits says for what it waits.
	Deferred
	// Failed: something was tried and failed; the queue's budget pays.
	Failed
	// Final: no later attempt can help; Outcome.Code says why.
	Final
	// Interrupted: the worker stops or the line is no longer ours; nothing is spent.
	Interrupted
)

// Outcome is the end of one attempt.
type Outcome struct {
	End      End
	Progress Progress // of the request, with this attempt's calls added

	Answer Answer // Answered

	Waits []Wait // Deferred: every reason met, each with its time

	// LastResort is when an at_deadline rung opens to the line, which goes back
	// to work no later than that; it is a whole second. Zero: none is to come
	// (Deferred, Failed).
	LastResort time.Time
	// NotBefore is the floor that a Retry-After sets to the next attempt (Failed).
	NotBefore time.Time
	// Code is the code of the result's error (Failed: the last kind; Final).
	Code string
	// Message is one line for people (Failed, Final).
	Message string
	// Response is the provider's own 4xx, status and body, where the final
	// error is the provider's word on this request.
	Response *Response
	// Err is why the attempt was interrupted.
	Err error
	// Leaving is what the last call has yet to tell breaker, pace and guard: it
	// rides in the pipeline that writes the outcome, and Leaving.Done must be
	// called in any case. nil: there is nothing.
	Leaving *Leaving
}

// Response is a provider's status and body.
type Response struct {
	StatusCode int
	RequestID  string
	Body       json.RawMessage
}

// Answer is an answer and who gave it.
type Answer struct {
	Response
	Provider string // "nightshift" for a text rung
	Model    string // the key of the configuration; "nightshift/text" for a text rung
	Tier     string
	Rung     int
	Degraded bool // answered below the ladder's first rung, or, with a goal, below the line's first choice
	// Truncated is how many messages of the request were left out, because it was
	// too long for every model.
	Truncated int
	// Output is the value that the output guard found valid; nil where it has no schema.
	Output json.RawMessage
	// Cached says that the answer was kept from an identical request: no call was
	// made for it, and nothing of it was bought.
	Cached bool
	Usage  provider.Usage
}

// CodeCallsExhausted is the code of a final error: the line spent its ladder's
// max_calls.
const CodeCallsExhausted = "calls_exhausted"

// CodeBudgetExhausted is the code of a final error: the line's batch spent its
// budget. Every other code is a kind of package provider.
const CodeBudgetExhausted = "budget_exhausted"

// ErrStopped is Outcome.Err of an attempt that Request.Stop ended.
var ErrStopped = errors.New("the worker is stopping")

// The reasons of a wait, as they stand in errors, metrics and waiting_for.
const (
	ReasonBreaker  = "breaker_open"
	ReasonLimited  = "rate_limited"
	ReasonGuard    = "guard"
	ReasonStore    = "redis_unreachable"
	ReasonDeadline = "deadline"
	ReasonRung     = "rung_after" // a rung becomes admissible
)

// Wait is one thing that an attempt found in its way.
type Wait struct {
	Model  string // "" where it is no model's
	Reason string
	Until  time.Time // by this process's clock
}

// Caller makes one call; it is an adapter of package provider.
type Caller interface {
	Call(ctx context.Context, r provider.Request) (provider.Answer, error)
}

// Journal keeps an attempt's progress.
type Journal interface {
	// Checkpoint writes the progress before a further call. An error ends the
	// attempt as Interrupted: the batch was cancelled, the line is another's.
	Checkpoint(ctx context.Context, p Progress) error
}

// Sleeper waits; tests and replay bring their own.
type Sleeper interface {
	// Sleep returns after d, or the context's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// timers is the Sleeper of real time.
type timers struct{}

// Sleep implements Sleeper.
func (timers) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
