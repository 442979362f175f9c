package provider

// Kind says what an outcome of a call means. The values appear in results,
// metrics and logs.
type Kind string

// The kinds, as docs/architecture.md lists them.
const (
	// OK is a parsed body with at least one choice that is not empty.
	OK Kind = "ok"
	// Unavailable is a provider that cannot serve: refused, reset, DNS, 5xx,
	// 529, a body that does not parse, 200 with HTML or no choices, a stream
	// that breaks off or holds an error.
	Unavailable Kind = "unavailable"
	// Timeout is silence for longer than a limit (see ErrStalled), or a call that
	// took too long in all.
	Timeout Kind = "timeout"
	// RateLimited is a 429 that passes.
	RateLimited Kind = "rate_limited"
	// QuotaExhausted is credit, quota or a spend limit used up: it does not pass by itself.
	QuotaExhausted Kind = "quota_exhausted"
	// Misconfigured is a refused key or an unknown model; Error.Scope says which.
	Misconfigured Kind = "misconfigured"
	// InvalidRequest is the request's own fault.
	InvalidRequest Kind = "invalid_request"
	// ContextExceeded is a request too long for the model.
	ContextExceeded Kind = "context_exceeded"
	// ContentFiltered is a filter's or the model's refusal.
	ContentFiltered Kind = "content_filtered"
	// InvalidOutput is an answer that fails the ladder's output guard.
	InvalidOutput Kind = "invalid_output"
	// Canceled is a call that we ended: the worker stops, the batch was cancelled.
	Canceled Kind = "canceled"
)

// Scope says which breaker a hard condition concerns.
type Scope string

// The scopes of a hard condition.
const (
	ScopeModel  Scope = "model"  // the model alone, e.g. it is unknown
	ScopeParent Scope = "parent" // all models that share the key, e.g. it is refused
)
