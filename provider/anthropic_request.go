package provider

import (
	"encoding/json"
	"errors"
	"strings"
)

// defaultMaxTokens is sent where a request gives no limit: the Messages API
// demands one. Every current model takes as many, and an answer that needs more
// comes back as cut off by length.
const defaultMaxTokens = 16_000

// messages is a request as the Messages API takes it.
type messages struct {
	body     []byte
	sampling bool // it needs a version of the API that takes sampling parameters
	streamed bool
}

// messagesBody is the body of such a request. What is passed on as it came is raw.
type messagesBody struct {
	Model         string          `json:"model"`
	MaxTokens     int64           `json:"max_tokens"`
	System        []block         `json:"system,omitempty"`
	Messages      []turn          `json:"messages"`
	StopSequences []string        `json:"stop_sequences,omitempty"`
	Temperature   json.RawMessage `json:"temperature,omitempty"`
	TopP          json.RawMessage `json:"top_p,omitempty"`
	TopK          json.RawMessage `json:"top_k,omitempty"`
	Tools         []tool          `json:"tools,omitempty"`
	ToolChoice    *toolChoice     `json:"tool_choice,omitempty"`
	Metadata      *userMetadata   `json:"metadata,omitempty"`
	OutputConfig  *outputConfig   `json:"output_config,omitempty"`
	Thinking      json.RawMessage `json:"thinking,omitempty"`
	ServiceTier   string          `json:"service_tier,omitempty"`
	CacheControl  json.RawMessage `json:"cache_control,omitempty"`
	InferenceGeo  json.RawMessage `json:"inference_geo,omitempty"`
	Speed         json.RawMessage `json:"speed,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
}

type userMetadata struct {
	UserID string `json:"user_id"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"` // always json_schema
	Schema json.RawMessage `json:"schema"`
}

// translation is a request under way from one API to the other.
type translation struct {
	out           messagesBody
	limits        map[string]int64 // max_tokens and max_completion_tokens
	users         map[string]string
	asJSON        bool // an object is asked for, of no schema
	noParallel    bool
	choice        *toolChoice
	toolsRequired bool // the choice makes no sense without tools
}

// messagesRequest translates the body of a chat completion, with what a rung
// sets and drops.
func messagesRequest(r Request) (messages, *Error) {
	p, err := newParcel(r)
	if err != nil {
		return messages{}, &Error{Kind: InvalidRequest, Message: "the body of the request cannot be sent", Err: err}
	}
	if r.Endpoint != ChatCompletions {
		return messages{}, &Error{Kind: InvalidRequest, Parameter: "url", Message: "the Messages API serves chat completions alone"}
	}
	t := translation{limits: map[string]int64{}, users: map[string]string{}}
	if err := t.read(p.encode(variant{mode: asItCame})); err != nil {
		return messages{}, notCarried(err)
	}
	t.out.Stream = p.streams
	out, err := encodeJSON(t.out)
	if err != nil {
		return messages{}, &Error{Kind: InvalidRequest, Message: "the body of the request cannot be sent", Err: err}
	}
	sampling := len(t.out.Temperature)+len(t.out.TopP)+len(t.out.TopK) > 0
	return messages{body: out, sampling: sampling, streamed: t.out.Stream}, nil
}

// fieldError is a field that cannot be carried over. Both texts are our own
// words but for the field's name.
type fieldError struct{ field, why string }

func (e *fieldError) Error() string { return e.field + ": " + e.why }

// notCarried is the refusal of a request before it is sent. It names the field,
// so that the next rung is tried, whose API may well take it.
func notCarried(err error) *Error {
	var f *fieldError
	if !errors.As(err, &f) {
		return &Error{Kind: InvalidRequest, Message: "the body of the request cannot be sent", Err: err}
	}
	e := &Error{Kind: InvalidRequest, Parameter: safeWord(f.field), Err: err}
	if e.Parameter == "" {
		e.Parameter, e.Err = "body", nil // a name that is not ours to repeat
	}
	e.Message = e.Parameter + " " + f.why
	return e
}

// Reasons of refusals.
const (
	noCounterpart = "has no counterpart in the Messages API"
	badType       = "is not of the type that it should be"
)

// handlers are what becomes of each field of an object.
type handlers map[string]func(json.RawMessage) error

// readFields hands every field of an object to its handler and refuses those
// that have none. A field that is null counts as absent. at is where the object
// stands, with a dot at its end; "" is the top level.
func readFields(raw json.RawMessage, at string, h handlers) error {
	obj, err := scanObject(raw)
	if err != nil {
		return &fieldError{strings.TrimSuffix(at, "."), badType}
	}
	for _, m := range obj.members {
		value := json.RawMessage(raw[m.value:m.end])
		if string(value) == "null" {
			continue
		}
		handle, known := h[m.key]
		if !known {
			return &fieldError{at + m.key, noCounterpart}
		}
		if err := handle(value); err != nil {
			return err
		}
	}
	return nil
}

// into reads a value of a certain type.
func into[T any](at string, v *T) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var zero T
		*v = zero
		if json.Unmarshal(raw, v) != nil {
			return &fieldError{at, badType}
		}
		return nil
	}
}

// keep passes a value on as it came.
func keep(v *json.RawMessage) func(json.RawMessage) error {
	return func(raw json.RawMessage) error { *v = raw; return nil }
}

// leaveOut is for what has no bearing on the answer.
func leaveOut(json.RawMessage) error { return nil }

// elements calls f with each element of a list.
func elements(raw json.RawMessage, at string, f func(raw json.RawMessage, i int) error) error {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return &fieldError{at, badType}
	}
	for i, e := range list {
		if err := f(e, i); err != nil {
			return err
		}
	}
	return nil
}

// withText returns an object with a further field.
func withText(raw json.RawMessage, obj object, key, text string) json.RawMessage {
	return splice(raw, obj, edit{values: map[string][]byte{key: encodeString(text)}})
}
