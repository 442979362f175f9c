package provider

import (
	"encoding/json"
	"fmt"
	"time"
)

// Request is one call as an adapter sends it.
type Request struct {
	// Endpoint is the path of the request, e.g. "/v1/chat/completions".
	Endpoint string
	// Model is the name that is sent in place of the body's own.
	Model string
	// Body is the line's JSON body. The adapter changes Model, Set and Drop in
	// it and leaves every other byte as it is.
	Body json.RawMessage
	// Set replaces or adds top-level fields of the body; Drop removes some.
	Set  map[string]any
	Drop []string
	// IdempotencyKey is sent to the providers that honour one; "" sends none.
	IdempotencyKey string
	// Timeout limits the whole call; it must be positive.
	Timeout time.Duration
	// FirstToken and Idle limit silence: the time to the first token, and the
	// time between one token and the next. 0: no limit of this kind. Where both
	// are 0 the call is not streamed.
	FirstToken, Idle time.Duration
}

// Answer is a response that carries an answer.
type Answer struct {
	StatusCode int
	RequestID  string // the provider's, from its headers; may be ""
	// Body is the provider's body, unchanged but for the API key, which no response
	// keeps; of a stream, or where the provider has another shape, the chat
	// completion that a plain call would have brought.
	Body         json.RawMessage
	Usage        Usage
	FinishReason string // of the first choice, e.g. "stop", "length"
	// FirstToken is how long the first token took; 0: not known, as of an
	// answer that was not streamed.
	FirstToken time.Duration
	// RateLimit is what the response's headers told.
	RateLimit RateLimit
}

// Usage counts tokens as the provider reported them; zero where it did not.
type Usage struct {
	InputTokens       int64 `json:"input_tokens"` // CachedInputTokens included
	CachedInputTokens int64 `json:"cached_input_tokens,omitempty"`
	OutputTokens      int64 `json:"output_tokens"`
}

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.InputTokens + v.InputTokens, u.CachedInputTokens + v.CachedInputTokens, u.OutputTokens + v.OutputTokens}
}

// Error is a call that brought no answer, classified.
type Error struct {
	Kind       Kind
	Scope      Scope         // with Misconfigured and QuotaExhausted
	StatusCode int           // 0 where no response came
	Type, Code string        // the provider's own error type and code; may be ""
	Parameter  string        // the field that this model does not take and another may ("body" where the provider names none); else ""
	Tier       bool          // with RateLimited: the service tier that the request asks for has no capacity; the model may have
	Message    string        // one line of our own words; never the provider's text, which may repeat a prompt or a key
	RetryAfter time.Duration // what the provider asked for; 0 where it did not
	RateLimit  RateLimit     // what the response's headers told; of a refusal too
	RequestID  string
	Body       []byte // the provider's body as it came, at most 64 KiB; nil where none came
	Usage      Usage  // what was billed all the same
	Err        error  // the cause, may be nil
}

// Error says the kind, the status and the message.
func (e *Error) Error() string {
	if e.StatusCode != 0 {
		return fmt.Sprintf("%s: status %d: %s", e.Kind, e.StatusCode, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Call is the record of one call, as it stands in a line's progress and in the
// attempts of its result.
type Call struct {
	Model     string    `json:"model"` // the key of the configuration
	Kind      Kind      `json:"kind"`
	StartedAt time.Time `json:"started_at"`
	LatencyMS int64     `json:"latency_ms"`
	Cost      USD       `json:"cost_usd"`
	RequestID string    `json:"request_id,omitempty"`
	Usage     Usage     `json:"usage,omitzero"`
	// Detail is the classified error in a few words; "" for an answer.
	Detail string `json:"detail,omitempty"`
}
