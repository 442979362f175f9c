package replay

import (
	"errors"
	"fmt"
	"time"

	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
)

// Version is the schema of the records that this program writes. Every older one
// can be read; docs/formats.md says what changed.
const Version = 1

// Type says what a record is about.
type Type string

// The types of records.
const (
	TypeCall     Type = "call"     // one call that was made
	TypeDeferral Type = "deferral" // a line that went back to wait
	TypeGap      Type = "gap"      // records that were dropped before this one
)

// Record is one line of a call log.
type Record struct {
	V    int  `json:"v"`
	Type Type `json:"type"`
	// Time is when the call was sent, or the line deferred, in UTC to the millisecond.
	Time time.Time `json:"time"`
	// Worker names the process; Seq counts its records from 1, so the two together
	// name the record.
	Worker string `json:"worker"`
	Seq    int64  `json:"seq"`

	// The line; all are empty of a synthetic probe.
	Queue      string `json:"queue,omitempty"`
	Producer   string `json:"producer,omitempty"`
	Batch      string `json:"batch,omitempty"`
	Line       int64  `json:"line,omitempty"`
	Generation int    `json:"generation,omitempty"`
	Ladder     string `json:"ladder,omitempty"`
	Rung       int    `json:"rung,omitempty"` // from 0

	// Model is its key in the configuration. A deferral has the one that it waits for.
	Model    string `json:"model,omitempty"`
	Provider string `json:"provider,omitempty"`
	Region   string `json:"region,omitempty"`

	// Of a call.
	Purpose      ladder.Purpose `json:"purpose,omitempty"`
	Kind         provider.Kind  `json:"kind,omitempty"`
	Status       int            `json:"status,omitempty"` // of HTTP; 0: no response
	LatencyMS    int64          `json:"latency_ms,omitempty"`
	FirstTokenMS int64          `json:"first_token_ms,omitempty"` // 0: not known
	Input        int64          `json:"input_tokens,omitempty"`
	Cached       int64          `json:"cached_tokens,omitempty"` // of the input
	Output       int64          `json:"output_tokens,omitempty"`
	Cost         provider.USD   `json:"cost_usd,omitempty"`
	// Breaker is the state of the breaker that let the call through: half_open of a
	// probe, whose Scope is the level that it probes.
	Breaker      breaker.State `json:"breaker,omitempty"`
	Probe        bool          `json:"probe,omitempty"`
	Scope        breaker.Scope `json:"scope,omitempty"`
	RetryAfterMS int64         `json:"retry_after_ms,omitempty"`

	// Of a deferral.
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`

	// Dropped is how many records of the worker are missing before a gap.
	Dropped int64 `json:"dropped,omitempty"`
}

// callRecord is the record of a call.
func callRecord(e *ladder.CallEvent) Record {
	state := breaker.Closed
	if e.Scope != "" {
		state = breaker.HalfOpen
	}
	return Record{
		Type: TypeCall, Time: e.Call.StartedAt,
		Queue: e.Queue, Producer: e.Producer, Batch: e.Batch, Line: e.Line, Generation: e.Generation, Ladder: e.Ladder, Rung: e.Rung,
		Model: e.Key.Model, Provider: e.Key.Provider, Region: e.Key.Region,
		Purpose: e.Purpose, Kind: e.Call.Kind, Status: e.StatusCode,
		LatencyMS: e.Latency.Milliseconds(), FirstTokenMS: e.FirstToken.Milliseconds(),
		Input: e.Call.Usage.InputTokens, Cached: e.Call.Usage.CachedInputTokens, Output: e.Call.Usage.OutputTokens,
		Cost: e.Call.Cost, Breaker: state, Probe: e.Scope != "", Scope: e.Scope, RetryAfterMS: e.RetryAfter.Milliseconds(),
	}
}

// deferralRecord is the record of a deferral.
func deferralRecord(e *ladder.DeferralEvent) Record {
	return Record{
		Type: TypeDeferral, Time: e.At, Queue: e.Queue, Producer: e.Producer, Batch: e.Batch, Line: e.Line, Generation: e.Generation,
		Model: e.Model, Reason: e.Reason, Until: e.Until,
	}
}

// kinds are those that a call of a log can have.
var kinds = map[provider.Kind]bool{
	provider.OK: true, provider.Unavailable: true, provider.Timeout: true, provider.RateLimited: true,
	provider.QuotaExhausted: true, provider.Misconfigured: true, provider.InvalidRequest: true,
	provider.ContextExceeded: true, provider.ContentFiltered: true, provider.InvalidOutput: true, provider.Canceled: true,
}

// firstTime and lastTime bound the times of records: others are a mistake, and a
// simulation from one to the next would have no end.
var firstTime, lastTime = time.Unix(0, 0), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// errUnknown marks what is well formed, but not known to this program.
var errUnknown = errors.New("unknown")

// check says what of a record cannot be used.
func (r *Record) check() error {
	switch {
	case r.V < 1:
		return errors.New("no v")
	case r.V > Version:
		return fmt.Errorf("%w version %d", errUnknown, r.V)
	case r.Type == "":
		return errors.New("no type")
	case r.Time.IsZero():
		return errors.New("no time")
	case r.Time.Before(firstTime) || r.Time.After(lastTime):
		return errors.New("a time before 1970 or after 2200")
	case r.Type == TypeCall:
		return r.checkCall()
	case r.Type == TypeDeferral && r.Reason == "":
		return errors.New("no reason")
	case r.Type != TypeDeferral && r.Type != TypeGap:
		return fmt.Errorf("%w type %q", errUnknown, r.Type)
	}
	return nil
}

func (r *Record) checkCall() error {
	switch {
	case r.Model == "":
		return errors.New("no model")
	case r.Kind == "":
		return errors.New("no kind")
	case !kinds[r.Kind]:
		return fmt.Errorf("%w kind %q", errUnknown, r.Kind)
	case !r.Probe && r.Purpose != ladder.ForProbe && (r.Batch == "" || r.Line == 0):
		return errors.New("no batch or line")
	case r.LatencyMS < 0 || r.Input < 0 || r.Output < 0 || r.Cached < 0 || r.Cost < 0 || r.RetryAfterMS < 0:
		return errors.New("a figure below 0")
	}
	return nil
}

// end is when a call ended.
func (r *Record) end() time.Time { return r.Time.Add(time.Duration(r.LatencyMS) * time.Millisecond) }
