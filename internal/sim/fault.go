package sim

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of fault.
const (
	Unavailable  Kind = "503"
	ServerError  Kind = "500"
	Overloaded   Kind = "529"
	RateLimited  Kind = "429"
	Hang         Kind = "hang"          // silence until somebody goes away
	Reset        Kind = "reset"         // the connection breaks, without an answer
	Garbage      Kind = "garbage"       // 200 with half a JSON
	HTML         Kind = "html"          // 200 with a page
	EmptyChoices Kind = "empty_choices" // 200 without a choice
	Filter       Kind = "filter"        // 400 of a content filter
	Refusal      Kind = "refusal"       // 200 in which the model refuses
	Quota        Kind = "quota"         // 429 that does not pass
	Payment      Kind = "402"           // no credit is left
	SpendLimit   Kind = "spend_limit"   // 400: likewise, in other words
	Unauthorized Kind = "unauthorized"  // 401
	UnknownModel Kind = "unknown_model" // 404
	Context      Kind = "context"       // 400: too long
	BadRequest   Kind = "bad_request"   // 400
	Slow         Kind = "slow"          // an answer, but Delay later
	Says         Kind = "says"          // an answer of the script's own: Text and Finish

	// What can happen to a stream, each after AfterTokens. A plain answer meets
	// it after the head of the response, or half the body.
	Stall       Kind = "stall"        // silence but for KeepAlive, until somebody goes away
	CutOff      Kind = "cut_off"      // the connection breaks
	Unfinished  Kind = "unfinished"   // a clean end before the last words
	StreamError Kind = "stream_error" // an error in place of the rest

	// What only requests meet that ask for it.
	NoStream      Kind = "no_stream"       // 400: no streams
	NoStreamUsage Kind = "no_stream_usage" // 400: no stream_options
	NoFormat      Kind = "no_format"       // 400: no response_format
)

// look is how a kind of fault looks on the wire.
type look struct {
	status int
	body   string // with %s for the model, in a JSON string
	late   bool   // it comes after the model's latency, as an answer would
}

const refusalBody = `{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`

func errorBody(message, errType, code string) string {
	return fmt.Sprintf(refusalBody, message, errType, code)
}

// faults is every kind; those without a body are not an HTTP response.
var faults = map[Kind]look{
	Unavailable:  {status: 503, body: errorBody("The server is overloaded.", "service_unavailable_error", "server_is_overloaded")},
	ServerError:  {status: 500, body: errorBody("The server had an error.", "server_error", "")},
	Overloaded:   {status: 529, body: errorBody("Overloaded.", "overloaded_error", "")},
	RateLimited:  {status: 429, body: errorBody("Rate limit reached.", "requests", "rate_limit_exceeded")},
	Quota:        {status: 429, body: errorBody("The quota is used up.", "insufficient_quota", "insufficient_quota")},
	Payment:      {status: 402, body: errorBody("Insufficient Balance.", "unknown_error", "invalid_request_error")},
	SpendLimit:   {status: 400, body: errorBody("Organization has been blocked due to spend limit reached.", "invalid_request_error", "blocked_api_access")},
	Unauthorized: {status: 401, body: errorBody("Incorrect API key provided.", "invalid_request_error", "invalid_api_key")},
	UnknownModel: {status: 404, body: errorBody("The model does not exist.", "invalid_request_error", "model_not_found")},
	Context:      {status: 400, body: errorBody("The maximum context length is exceeded.", "invalid_request_error", "context_length_exceeded")},
	Filter:       {status: 400, body: errorBody("The prompt was filtered.", "invalid_request_error", "content_filter")},
	BadRequest:   {status: 400, body: errorBody("The request is invalid.", "invalid_request_error", "invalid_value")},
	Garbage:      {status: 200, late: true, body: `{"id":"chatcmpl-sim","object":"chat.completion","choices":[{"index":0,"mess`},
	HTML:         {status: 200, late: true, body: "<!DOCTYPE html>\n<html><body><h1>Maintenance</h1></body></html>\n"},
	EmptyChoices: {status: 200, late: true, body: `{"id":"chatcmpl-sim","object":"chat.completion","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1}}`},
	Refusal:      {late: true},
	Hang:         {},
	Reset:        {},
	Slow:         {late: true},
	Says:         {late: true},

	Stall:         {late: true},
	CutOff:        {late: true},
	Unfinished:    {late: true},
	StreamError:   {late: true, body: errorBody("The server had an error while processing your request.", "server_error", "")},
	NoStream:      {status: 400, body: errorBody("Streaming is not supported for this model.", "invalid_request_error", "unsupported_value")},
	NoStreamUsage: {status: 400, body: errorBody("Unrecognized request argument supplied: stream_options", "invalid_request_error", "")},
	NoFormat:      {status: 400, body: errorBody("Unrecognized request argument supplied: response_format", "invalid_request_error", "")},
}

// meets says whether a fault of this kind meets such a request at all.
func (k Kind) meets(r chatRequest) bool {
	switch k {
	case NoStream:
		return r.Stream
	case NoStreamUsage:
		return r.StreamOptions != nil
	case NoFormat:
		return r.ResponseFormat.Type != ""
	}
	return true
}

// inAnswer says that the fault meets an answer that has begun.
func (k Kind) inAnswer() bool {
	return k == Stall || k == CutOff || k == Unfinished || k == StreamError
}

// Kinds returns every kind of fault, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(faults)) }

// write sends a fault's response; now is for dates.
func (f Fault) write(w http.ResponseWriter, now time.Time) {
	s := faults[f.Kind]
	contentType := "application/json"
	if f.Kind == HTML {
		contentType = "text/html"
	}
	w.Header().Set("Content-Type", contentType)
	f.RetryAfter.set(w.Header(), f.RetryIn, now)
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body) // a client that went away is on the log anyway
}

// set tells a wait; every form rounds it up.
func (r RetryAfter) set(h http.Header, wait time.Duration, now time.Time) {
	if wait <= 0 {
		wait = time.Second
	}
	switch r {
	case RetrySeconds:
		h.Set("Retry-After", strconv.FormatInt(ceil(wait, time.Second), 10))
	case RetryDate:
		at := now.Add(wait + time.Second - 1).UTC()
		h.Set("Retry-After", at.Format(http.TimeFormat))
	case RetryMS:
		h.Set("Retry-After-Ms", strconv.FormatInt(ceil(wait, time.Millisecond), 10))
	}
}

func ceil(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

// breakConnection ends the connection under a response with an RST.
func breakConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: this resets the stream
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
