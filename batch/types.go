package batch

import (
	"encoding/json"
	"errors"
	"time"

	"nightshift/provider"
)

// Ref names one line of one batch in one generation; it is what a task carries.
type Ref struct {
	Batch      string
	Line       int64 // physical line number, from 1
	Generation int   // 0 first; raised by a retry of the line
}

// Line is one request of a batch.
type Line struct {
	Number   int64
	CustomID string
	Endpoint string          // e.g. "/v1/chat/completions"
	Body     json.RawMessage // as it came in; for short lines, as it was made from them
	Metadata json.RawMessage // nil where the line has none
	Schema   json.RawMessage // of a short line, that the answer must satisfy; nil where it has none
	Digest   string          // the first 16 hex digits of the input line's SHA-256
	Rung     int             // where it starts on its ladder
	NoProbe  bool            // its call must not be the probe of a breaker
	Model    string          // the body's, as a Reader found it; "" where it names none. It is not kept: Rung is
	Goal     string          // orders the rungs for this line; "": the ladder's goal does
}

// Description is what is known of a batch when it is submitted.
type Description struct {
	ID        string
	Producer  string
	Queue     string
	CreatedAt time.Time
	Deadline  time.Time // zero: none
	// NotBefore is when its first line may begin; zero: at once.
	NotBefore time.Time `json:",omitzero"`
	// Priority orders the batches of a queue before all else, the higher first;
	// from -MaxPriority to MaxPriority.
	Priority int `json:",omitempty"`
	// Notify is the URL that is told of the batch's end; "": none.
	Notify    string `json:",omitempty"`
	Total     int64
	Digest    string // SHA-256 of the content, hex
	Rehearsal bool   // the built-in simulator answers
	// Forecast is what it was thought to take; nil: nobody asked.
	Forecast *Forecast `json:",omitempty"`
	// Budget is the most that it may cost; 0: no cap.
	Budget provider.USD `json:",omitzero"`
	// Allowance is how many calls of its own it was granted, which its producer's
	// guard does not count, and AllowedBy who granted them.
	Allowance int64  `json:",omitempty"`
	AllowedBy string `json:",omitempty"`
	// Trace is what its submission was traced as, a W3C traceparent; "": it was not.
	Trace string `json:",omitempty"`
	// Again submits the batch though the same content was submitted within the
	// last 24 h; it is not kept.
	Again bool `json:"-"`
}

// MaxPriority bounds Description.Priority.
const MaxPriority = 100

// State is a batch's state as users see it.
type State string

// The states of a batch.
const (
	Enqueuing  State = "enqueuing"
	Scheduled  State = "scheduled"
	Running    State = "running"
	Waiting    State = "waiting"
	Cancelling State = "cancelling"
	Done       State = "done"
)

// Outcome is how a line ended, as the counters name it.
type Outcome string

// The outcomes of a line.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	Expired   Outcome = "expired"
	Cancelled Outcome = "cancelled"
)

// Codes of a result's error that are ours and not a kind of package provider.
const (
	CodeRetriesExhausted = "retries_exhausted"
	CodeCallsExhausted   = "calls_exhausted"
	CodeBudgetExhausted  = "budget_exhausted"
	CodeExpired          = "batch_expired"
	CodeCancelled        = "batch_cancelled"
	CodeLost             = "task_lost"
	CodeInvalid          = string(provider.InvalidRequest) // the line was no request when it was submitted
)

// Progress is what a line went through so far, as it is kept in Redis.
type Progress struct {
	Calls        []provider.Call `json:"calls,omitempty"`
	Failures     int             `json:"failures,omitempty"`
	Deferrals    int             `json:"deferrals,omitempty"`
	RuledOut     []int           `json:"ruled_out,omitempty"`
	FirstRefused time.Time       `json:"first_refused,omitzero"`
	FirstLimited time.Time       `json:"first_limited,omitzero"`
	Skipped      []Skip          `json:"skipped,omitempty"` // by the last attempt
	Trace        string          `json:"trace,omitempty"`   // what the last attempt was traced as, a W3C traceparent; "": it was not
}

// Skip is a rung that an attempt passed over: no call, but worth an entry among
// the result's attempts.
type Skip struct {
	Model  string    `json:"model"`
	At     time.Time `json:"at"`
	Detail string    `json:"detail"`
}

// Lease is the right of one attempt to a line.
type Lease struct {
	Ref   Ref
	Token string // unique to the attempt
}

// Verdict is what Begin says about a line.
type Verdict int

// The verdicts of Begin.
const (
	// Granted: the lease is taken, the line is in Begun.
	Granted Verdict = iota + 1
	// Over: the line has a record, was retried under a higher generation, or
	// its batch is gone; there is nothing to do.
	Over
	// Held: another attempt holds a live lease until Begun.HeldFor has passed.
	Held
	// BatchCancelled: the batch was cancelled; the line was ended as such.
	BatchCancelled
	// DeadlinePassed: the line was ended as expired.
	DeadlinePassed
	// Lost: it was begun too often without an end; the line was ended as task_lost.
	Lost
)

// Begun is the answer of Begin.
type Begun struct {
	Verdict     Verdict
	Now         time.Time     // the clock of Redis at the begin, by which the deadline passes
	HeldFor     time.Duration // Held
	Line        Line          // Granted
	Progress    Progress      // Granted
	Description Description   // Granted
	Crashes     int           // begins that never ended, so far
	Outstanding int64         // Granted: lines of the batch without a record, this one included
}

// Wait says what a suspended line waits for.
type Wait struct {
	Model  string
	Reason string
	Until  time.Time
	// Open are the models whose breakers refused the line, by key, separated by
	// spaces: the first that closes wakes it.
	Open string `json:",omitempty"`
	// Guard: the hourly guard refused the line; room of it wakes the line.
	Guard bool `json:",omitempty"`
	// NoProbe is the line's own; see Line.
	NoProbe bool `json:",omitempty"`
	// Deferral is its number among those of the line: a line that is deferred
	// twice until the same second waits twice.
	Deferral int `json:",omitempty"`
}

// Result is one line of the output, in the shape of OpenAI's Batch API plus
// the field nightshift.
type Result struct {
	ID         string         `json:"id"`
	CustomID   string         `json:"custom_id"`
	Response   *Response      `json:"response"`
	Error      *ResultError   `json:"error"`
	Nightshift NightshiftInfo `json:"nightshift"`
}

// Response is the provider's answer as it came.
type Response struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"`
}

// ResultError says why a line has no answer.
type ResultError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// NightshiftInfo is what Nightshift adds to a result.
type NightshiftInfo struct {
	Line       int64           `json:"line"`
	Generation int             `json:"generation,omitempty"` // how often it was retried
	Provider   string          `json:"provider"`
	Model      string          `json:"model"`
	Tier       string          `json:"tier"`
	Degraded   bool            `json:"degraded"`
	Cached     bool            `json:"cached"`
	Truncated  int             `json:"truncated,omitempty"` // messages that were left out of the request
	Output     json.RawMessage `json:"output"`              // the value that satisfied a schema; null without one
	Attempts   []provider.Call `json:"attempts"`
	Deferrals  int             `json:"deferrals"`
	Usage      provider.Usage  `json:"usage"`
	CostUSD    provider.USD    `json:"cost_usd"`
	Metadata   json.RawMessage `json:"metadata"` // null where the line has none
	Request    string          `json:"request"`
	Rehearsal  bool            `json:"rehearsal"`
	FinishedAt time.Time       `json:"finished_at"`
}

// Status is the answer to "how far is it": the JSON of `enqueue status`.
type Status struct {
	ID            string       `json:"id"`
	State         State        `json:"state"`
	Queue         string       `json:"queue"`
	Producer      string       `json:"producer"`
	Total         int64        `json:"total"`
	Succeeded     int64        `json:"succeeded"`
	Failed        int64        `json:"failed"`
	Expired       int64        `json:"expired"`
	Cancelled     int64        `json:"cancelled"`
	Outstanding   int64        `json:"outstanding"`
	Degraded      int64        `json:"degraded"`
	Cached        int64        `json:"cached"`
	Calls         int64        `json:"calls"`
	Deferrals     int64        `json:"deferrals"`
	CostUSD       provider.USD `json:"cost_usd"`
	WastedUSD     provider.USD `json:"wasted_usd"`
	RatePerMinute float64      `json:"rate_per_minute"`
	ETA           *time.Time   `json:"eta"`
	OnTime        *bool        `json:"on_time"` // null where it cannot be told
	WaitingFor    []WaitingFor `json:"waiting_for"`
	CreatedAt     time.Time    `json:"created_at"`
	Deadline      *time.Time   `json:"deadline"`
	FinishedAt    *time.Time   `json:"finished_at"`
	// AnsweredBy is how many of the succeeded lines each model answered, by its
	// key; nightshift/text stands for all texts. An answer of the cache counts for
	// the model that gave it first.
	AnsweredBy map[string]int64 `json:"answered_by"`
	// EndedAs is how many of the failed, expired and cancelled lines have each code;
	// "-" stands for none. DeferredFor is how many deferrals had each reason. Both have
	// names of a fixed set alone. They are for pages.
	EndedAs map[string]int64 `json:"-"`
	// PassedOver is how many lines were no requests: they failed at the submission, as
	// invalid_request, and cannot be retried.
	PassedOver  int64            `json:"-"`
	DeferredFor map[string]int64 `json:"-"`
	// NotBefore is when its first line may begin; absent: at once.
	NotBefore *time.Time `json:"not_before,omitempty"`
	// Priority goes before all else among the batches of its queue.
	Priority int `json:"priority,omitempty"`
	// Out is how many lines are released, and Idle says that none of them is under
	// way. They are for AtGuards, AtHours and AtPause.
	Out  int64 `json:"-"`
	Idle bool  `json:"-"`
	// Forecast is what it was thought to take when it was submitted; null: nobody asked.
	Forecast *Forecast `json:"forecast"`
	// BudgetUSD is the most that it may cost; null: no cap.
	BudgetUSD *provider.USD `json:"budget_usd"`
	// Allowance is how many calls of its own it was granted, and AllowedBy who did.
	Allowance int64  `json:"allowance,omitempty"`
	AllowedBy string `json:"allowed_by,omitempty"`
	// Notify is whether its URL was told of its end; null: nobody is to be told.
	Notify *Notified `json:"notify"`
}

// WaitingFor is one reason why lines of a batch wait.
type WaitingFor struct {
	Model  string    `json:"model"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until"` // zero, null in JSON: nobody knows
	// HeldBy is the operator who holds the breaker open; "": it opened by itself.
	HeldBy string `json:"held_by,omitempty"`
	// Parent is whose breaker keeps calls away where it is not the model's own: the
	// provider, or a region of it.
	Parent string `json:"parent,omitempty"`
	// Lines is how many lines wait for it; absent where none was begun. It is an
	// estimate where more than a thousand lines of the batch wait.
	Lines int64 `json:"lines,omitempty"`
}

// MarshalJSON writes an unknown time as null.
func (w WaitingFor) MarshalJSON() ([]byte, error) {
	type plain WaitingFor
	return json.Marshal(struct {
		plain
		Until *time.Time `json:"until"`
	}{plain(w), timePtr(w.Until)})
}

// Errors that callers decide on.
var (
	// ErrNotFound: there is no such batch.
	ErrNotFound = errors.New("no such batch")
	// ErrFenced: the lease is no longer ours, or the keeper's epoch is old.
	ErrFenced = errors.New("fenced off: another holds it now")
	// ErrCancelled: the batch was cancelled; no further call may start.
	ErrCancelled = errors.New("the batch was cancelled")
	// ErrDone: all lines of the batch have their records.
	ErrDone = errors.New("the batch is done")
	// ErrDeadline: the deadline has passed.
	ErrDeadline = errors.New("the deadline has passed")
	// ErrBeforeStart: a deadline would pass before the first line of the batch begins.
	ErrBeforeStart = errors.New("the deadline is before the start")
	// ErrEnqueuing: the batch is not submitted completely.
	ErrEnqueuing = errors.New("the batch is not submitted completely")
	// ErrRunning: the batch is neither done nor cancelled.
	ErrRunning = errors.New("the batch is not over")
	// ErrDeleting: a batch of that ID is deleted, but not all of it is freed yet.
	ErrDeleting = errors.New("a batch of this ID is being deleted")
	// ErrExists: a batch of that ID exists with other content.
	ErrExists = errors.New("a batch of this ID exists with other content")
	// ErrDuplicate: the same content was submitted within the last 24 h.
	ErrDuplicate = errors.New("the same content was submitted already")
)
