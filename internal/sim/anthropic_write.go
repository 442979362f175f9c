package sim

import (
	"encoding/json"
	"net/http"
	"strings"
)

// messagesWriter takes a response in OpenAI's shape and sends it in that of the
// Messages API: a stream as it comes, everything else at finish. What is no JSON
// passes as it is.
type messagesWriter struct {
	http.ResponseWriter
	req    messagesRequest
	status int
	body   []byte
	stream *messageStream // nil until one begins
}

// Unwrap lets the connection be flushed and broken through it.
func (m *messagesWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// WriteHeader keeps the status for finish.
func (m *messagesWriter) WriteHeader(status int) { m.status = status }

// Write keeps the body for finish, but for an event of a stream.
func (m *messagesWriter) Write(b []byte) (int, error) {
	if !strings.HasPrefix(m.Header().Get("Content-Type"), "text/event-stream") {
		m.body = append(m.body, b...)
		return len(b), nil
	}
	if m.stream == nil {
		m.nameRequest()
		m.stream = &messageStream{model: m.req.Model, prompt: tokensOf(m.req.chat().promptLength())}
	}
	if _, err := m.ResponseWriter.Write([]byte(m.stream.translate(string(b)))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// nameRequest calls the request's ID what the API calls it.
func (m *messagesWriter) nameRequest() (id string) {
	id = m.Header().Get("X-Request-Id")
	m.Header().Del("X-Request-Id")
	m.Header().Set("Request-Id", id)
	return id
}

// finish sends what was kept.
func (m *messagesWriter) finish() {
	if m.stream != nil || m.status == 0 && m.body == nil { // sent, or the connection was broken
		return
	}
	if m.status == 0 {
		m.status = http.StatusOK
	}
	id, out := m.nameRequest(), m.body
	var a struct {
		answer
		Error json.RawMessage `json:"error"`
	}
	switch {
	case json.Unmarshal(m.body, &a) != nil:
	case a.Error != nil:
		out = messageError(m.body, m.status, m.req.Model, id)
	default:
		out, _ = json.Marshal(a.message()) // plain values
	}
	m.ResponseWriter.WriteHeader(m.status)
	_, _ = m.ResponseWriter.Write(out) // a client that went away is on the log anyway
}

// messageAnswer is an answer of the Messages API.
type messageAnswer struct {
	ID           string         `json:"id"`
	Type         string         `json:"type"`
	Role         string         `json:"role"`
	Model        string         `json:"model"`
	Content      []contentBlock `json:"content"`
	StopReason   *string        `json:"stop_reason"`
	StopSequence *string        `json:"stop_sequence"` // always null
	StopDetails  *stopDetails   `json:"stop_details"`
	Usage        messageUsage   `json:"usage"`
}

type contentBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

type stopDetails struct {
	Type        string `json:"type"`
	Explanation string `json:"explanation"`
}

type messageUsage struct {
	Input      int `json:"input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	Output     int `json:"output_tokens"`
}

// message is the answer in the API's shape.
func (a answer) message() messageAnswer {
	m := messageAnswer{
		ID: "msg_" + a.ID, Type: "message", Role: "assistant", Model: a.Model, Content: []contentBlock{},
		Usage: messageUsage{Input: a.Usage.PromptTokens, Output: a.Usage.CompletionTokens},
	}
	reason := "end_turn"
	for _, c := range a.Choices {
		m.Content = append(m.Content, c.Message.blocks()...)
		reason = stopReasons[c.FinishReason]
		if c.Message.Refusal != nil {
			reason, m.StopDetails = "refusal", &stopDetails{"refusal", *c.Message.Refusal}
		}
	}
	m.StopReason = &reason
	return m
}

// stopReasons are the API's words for why an answer ended.
var stopReasons = map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}

func (r reply) blocks() []contentBlock {
	var all []contentBlock
	if r.Reasoning != "" {
		signature := simSignature
		all = append(all, contentBlock{Type: "thinking", Thinking: &r.Reasoning, Signature: &signature})
	}
	if r.Content != nil && *r.Content != "" {
		all = append(all, contentBlock{Type: "text", Text: r.Content})
	}
	for _, call := range r.ToolCalls {
		all = append(all, contentBlock{
			Type: "tool_use", ID: "toolu_" + call.ID, Name: call.Function.Name, Input: json.RawMessage(call.Function.Arguments),
		})
	}
	return all
}

const simSignature = "c2ltdWxhdGVk"

// messageErrorTypes are the API's names of its errors by their status.
var messageErrorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
	404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

// messageError translates an error. The API tells most of its 400s apart by
// their wording alone.
func messageError(body []byte, status int, model, id string) []byte {
	var e struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &e) // the simulator's own
	kind := messageErrorTypes[status]
	if kind == "" {
		kind = "api_error"
	}
	detail := map[string]any{"type": kind, "message": e.Error.Message}
	switch e.Error.Code {
	case "context_length_exceeded":
		detail["message"] = "prompt is too long: 208310 tokens > 200000 maximum"
	case "content_filter":
		detail["message"] = "Output blocked by content filtering policy"
	case "model_not_found":
		detail["message"] = "model: " + model
	case "insufficient_quota":
		detail["details"] = map[string]string{"error_code": "contract_spend_limit_reached"}
	}
	out, _ := json.Marshal(map[string]any{"type": "error", "error": detail, "request_id": id}) // plain values
	return out
}
