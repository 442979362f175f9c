package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// currentVersion is the version of the Messages API that takes no sampling
// parameters; olderVersion takes them.
const (
	currentVersion = "2026-10-21"
	olderVersion   = "2023-06-01"
)

// messagesRequest is what the simulator reads of a request to the Messages API.
// It knows the fields of the API, so that any other is refused as there.
type messagesRequest struct {
	Model         string          `json:"model"`
	MaxTokens     *int            `json:"max_tokens"`
	Messages      []message       `json:"messages"`
	System        json.RawMessage `json:"system"`
	Stream        bool            `json:"stream"`
	StopSequences json.RawMessage `json:"stop_sequences"`
	Temperature   json.RawMessage `json:"temperature"`
	TopP          json.RawMessage `json:"top_p"`
	TopK          json.RawMessage `json:"top_k"`
	Tools         []struct {
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"input_schema"`
		Strict       bool            `json:"strict"`
		CacheControl json.RawMessage `json:"cache_control"`
	} `json:"tools"`
	ToolChoice struct {
		Type       string `json:"type"`
		Name       string `json:"name"`
		NoParallel bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Metadata     json.RawMessage `json:"metadata"`
	OutputConfig struct {
		Effort string `json:"effort"`
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Thinking     json.RawMessage `json:"thinking"`
	ServiceTier  json.RawMessage `json:"service_tier"`
	CacheControl json.RawMessage `json:"cache_control"`
	InferenceGeo json.RawMessage `json:"inference_geo"`
	Speed        json.RawMessage `json:"speed"`
}

// messages serves the Messages API: the same behaviour and faults as the chat
// completions, in the other shape.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	m := &messagesWriter{ResponseWriter: w}
	s.serve(m, r, func(body []byte) (chatRequest, string) {
		problem := m.req.parse(body, r.Header.Get("anthropic-version"))
		return m.req.chat(), problem
	})
	m.finish()
}

// parse reads a request and returns what the API would refuse it for.
func (m *messagesRequest) parse(body []byte, version string) string {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		if _, field, unknown := strings.Cut(err.Error(), "unknown field "); unknown {
			return strings.Trim(field, `"`) + ": Extra inputs are not permitted"
		}
		return "The request body is not valid JSON"
	}
	sampled := len(m.Temperature)+len(m.TopP)+len(m.TopK) > 0
	switch {
	case version != currentVersion && version != olderVersion:
		return "anthropic-version: header is required"
	case sampled && version == currentVersion:
		return "temperature: Extra inputs are not permitted"
	case m.Model == "":
		return "model: Field required"
	case m.MaxTokens == nil:
		return "max_tokens: Field required"
	case *m.MaxTokens < 1:
		return "max_tokens: Input should be greater than or equal to 1"
	case len(m.Messages) == 0:
		return "messages: at least one message is required"
	}
	return m.badMessage()
}

// badMessage finds a message that the API would not take.
func (m *messagesRequest) badMessage() string {
	for i, msg := range m.Messages {
		if !slices.Contains([]string{"user", "assistant"}, msg.Role) {
			return fmt.Sprintf("messages.%d: Unexpected role %q", i, msg.Role)
		}
		var blocks []struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if json.Unmarshal(msg.Content, &blocks) == nil && len(blocks) == 0 {
			return fmt.Sprintf("messages.%d: all messages must have non-empty content", i)
		}
		for _, b := range blocks {
			if b.Type == "text" && (b.Text == nil || strings.TrimSpace(*b.Text) == "") {
				return "messages: text content blocks must contain non-whitespace text"
			}
		}
	}
	return ""
}

// chat is the request as the simulator answers it.
func (m *messagesRequest) chat() chatRequest {
	req := chatRequest{
		Model: m.Model, Stream: m.Stream, ParallelCalls: !m.ToolChoice.NoParallel,
		ReasoningEffort: m.OutputConfig.Effort, tellsUsage: true,
	}
	req.ResponseFormat.Type = m.OutputConfig.Format.Type
	req.ResponseFormat.Schema.Schema = m.OutputConfig.Format.Schema
	if m.MaxTokens != nil {
		req.MaxTokens = *m.MaxTokens
	}
	if len(m.System) > 0 {
		req.Messages = []message{{Role: "system", Content: m.System}}
	}
	for _, msg := range m.Messages {
		if msg.isToolResult() {
			msg.Role = "tool"
		}
		req.Messages = append(req.Messages, msg)
	}
	for _, t := range m.Tools {
		req.Tools = append(req.Tools, offered{function{Name: t.Name}})
	}
	switch m.ToolChoice.Type {
	case "none":
		req.ToolChoice = json.RawMessage(`"none"`)
	case "tool":
		req.ToolChoice, _ = json.Marshal(offered{function{Name: m.ToolChoice.Name}}) // plain values
	}
	return req
}

// isToolResult says that a message ends in what a tool returned.
func (m message) isToolResult() bool {
	var blocks []struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(m.Content, &blocks) == nil && len(blocks) > 0 && blocks[len(blocks)-1].Type == "tool_result"
}
