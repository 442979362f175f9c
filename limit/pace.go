package limit

import (
	"context"
	"time"
)

// Limits are what the configuration says of a model; 0: nothing.
type Limits struct {
	RPM         int // calls a minute
	TPM         int // tokens a minute, input and output
	Concurrency int // calls in flight
}

// Ask asks for one call.
type Ask struct {
	Model Model
	// Lane is "" or a service tier that is parked apart, e.g. "flex".
	Lane string
	// Ticket is unique to the call. The same one asks again while it waits; a
	// repeat of a question whose answer was lost does no harm.
	Ticket string
	// Tokens is the estimate of input and output together. Nonsense is clamped.
	Tokens int64
	// Patience is the longest wait that is worth a place. Defaults to 30 s.
	Patience time.Duration
	// Lease is how long the call may be in flight: its timeout and a margin.
	// After it a dead worker's slot is free by itself. Defaults to 10 min, at most 24 h.
	Lease time.Duration
	// Alone says that the attempt had no call yet without the shared store's
	// leave; it gets at most one. Only a Fallback reads it.
	Alone bool
}

// Verdict is what becomes of an Ask.
type Verdict int

const (
	// Go lets the call begin: it is in flight until Settle, Cancel or its lease's end.
	Go Verdict = iota + 1
	// Wait holds a place: ask again, with the same ticket, after Slot.Wait. Who
	// comes seconds late has lost it.
	Wait
	// Refuse holds nothing: a slot is likely after Slot.Wait, beyond the patience.
	Refuse
)

// Reason is what stands in the way of a call.
type Reason string

const (
	ReasonParked      Reason = "parked"      // after a 429, or because the provider said so in its headers
	ReasonRequests    Reason = "requests"    // calls a minute
	ReasonTokens      Reason = "tokens"      // tokens a minute
	ReasonConcurrency Reason = "concurrency" // calls in flight
	ReasonShare       Reason = "share"       // this worker's slots, see Share; no Pacer's
)

// Slot is the answer to an Ask. Wait and Reason are zero for Go.
type Slot struct {
	Verdict Verdict
	Wait    time.Duration
	Reason  Reason
	Parked  time.Duration // what is left of the park, where that is the reason
}

// ResultKind is what a call says about the provider's limits.
type ResultKind int

const (
	// Passed: the provider took the call, whatever came of it: an answer, an
	// invalid output, an error of the request itself.
	Passed ResultKind = iota + 1
	// Limited: it answered 429.
	Limited
	// Unclear: 5xx, timeout, canceled.
	Unclear
)

// Result is what became of a call.
type Result struct {
	Kind       ResultKind
	RetryAfter time.Duration // Limited; 0: none
	Lane       string        // Limited: the lane that has no capacity; "": the model
	Tokens     int64         // input and output; 0: unknown, the estimate stands
	Latency    time.Duration // of the whole call; 0: unknown
	Told       Told
	// Alone: the call went out without the shared store's leave and is booked now.
	Alone bool
}

// Told is what a response's rate-limit headers said; zero: nothing.
type Told struct{ Requests, Tokens Budget }

// Budget is one limit of a provider. Nonsense is ignored: it neither opens the
// gate wider than without headers nor shuts it for longer than a minute.
type Budget struct {
	Limit     int64 // a minute
	Remaining int64
	Reset     time.Duration // until Remaining is Limit again, or, where it is 0, until there is some
	Known     bool
}

// Pace is how fast a model is called. Rates are calls a minute in thousandths.
type Pace struct {
	Model  Model
	Limits Limits // configured

	Rate        int64 // that counts at this moment, of all below; 0: none
	Concurrency int64 // likewise
	TPM         int64 // likewise, tokens a minute

	LearnedRate        int64 // by 429s; 0: none
	LearnedConcurrency int64 // likewise
	ToldRate           int64 // by headers; 0: none
	ToldTPM            int64 // likewise
	Starting           bool  // no limit is known yet, or its breaker closed a moment ago

	Parked   time.Duration // the model; 0: it is not
	InFlight int64
	Waiting  int64 // places
	Calls    int64 // taken by the provider, ever
	Limited  int64 // refused with a 429, ever
	Latency  time.Duration
}

// Pacer says when a model may be called. *Memory, *Redis and *Fallback are
// pacers; all are safe for concurrent use.
type Pacer interface {
	// Reserve asks for one call.
	Reserve(ctx context.Context, a Ask) (Slot, error)
	// Settle says what became of a call that was let go, once; a repeat does no
	// harm. It returns for how long a Limited one parked the model or its lane.
	Settle(ctx context.Context, m Model, ticket string, r Result) (parked time.Duration, err error)
	// Cancel gives back the place or the slot of a call that was not sent.
	Cancel(ctx context.Context, m Model, ticket string) error
	// Park parks the model, or its lane, after a 429 that no ticket stands for,
	// such as a probe's, and returns for how long.
	Park(ctx context.Context, m Model, lane string, retryAfter time.Duration) (time.Duration, error)
	// Restart says that the model's breaker closed: it starts slowly and doubles.
	Restart(ctx context.Context, m Model) error
	// List returns the pace of the models, in their order.
	List(ctx context.Context, models []Model) ([]Pace, error)
}
