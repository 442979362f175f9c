package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// responseShape is that of responses.
type responseShape struct {
	begun bool
	whole answer // of a stream, so far; of one choice
}

type responseRequest struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Instructions string          `json:"instructions"`
	MaxOutput    int             `json:"max_output_tokens"`
	Stream       bool            `json:"stream"`
	Tools        []function      `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Text         struct {
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

func (*responseShape) parse(body []byte) (chatRequest, string) {
	var r responseRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return chatRequest{}, "the body is not the JSON of a request"
	}
	req := chatRequest{Model: r.Model, MaxTokens: r.MaxOutput, Stream: r.Stream, ToolChoice: r.ToolChoice, tellsUsage: true}
	req.ResponseFormat.Type, req.ResponseFormat.Schema.Schema = r.Text.Format.Type, r.Text.Format.Schema
	for _, t := range r.Tools {
		req.Tools = append(req.Tools, offered{t})
	}
	if r.Instructions != "" {
		content, _ := json.Marshal(r.Instructions) // a text
		req.Messages = append(req.Messages, message{Role: "system", Content: content})
	}
	var text string
	var items []message
	switch {
	case json.Unmarshal(r.Input, &text) == nil:
		req.Messages = append(req.Messages, user(text))
	case json.Unmarshal(r.Input, &items) == nil && len(items) > 0:
		req.Messages = append(req.Messages, items...)
	default:
		return req, "Missing required parameter: 'input'."
	}
	return req, req.problem()
}

func (*responseShape) answer(a answer) any {
	output := []any{}
	finish := "stop"
	for _, c := range a.Choices {
		finish = c.FinishReason
		for _, call := range c.Message.ToolCalls {
			output = append(output, map[string]any{
				"type": "function_call", "id": "fc_" + call.ID, "call_id": call.ID, "name": call.Function.Name,
				"arguments": call.Function.Arguments, "status": "completed",
			})
		}
		switch {
		case c.Message.Refusal != nil:
			output = append(output, said(a.ID, map[string]any{"type": "refusal", "refusal": *c.Message.Refusal}))
		case c.Message.Content != nil:
			output = append(output, said(a.ID, outputText(*c.Message.Content)))
		}
	}
	return responseOf(a.ID, a.Model, a.Created, finish, output, &a.Usage)
}

func said(id string, part any) any {
	return map[string]any{"type": "message", "id": "msg_" + id, "status": "completed", "role": "assistant", "content": []any{part}}
}

func outputText(text string) any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
}

// responseOf is a whole response.
func responseOf(id, model string, created int64, finish string, output []any, u *usage) map[string]any {
	r := map[string]any{
		"id": "resp_" + id, "object": "response", "created_at": created, "model": model, "status": "completed", "error": nil,
		"incomplete_details": nil, "instructions": nil, "metadata": map[string]any{}, "output": output,
		"parallel_tool_calls": false, "temperature": 1, "tool_choice": "auto", "tools": []any{}, "top_p": 1, "usage": nil,
	}
	if finish == "length" {
		r["status"], r["incomplete_details"] = "incomplete", map[string]any{"reason": "max_output_tokens"}
	}
	if u != nil {
		r["usage"] = map[string]any{
			"input_tokens": u.PromptTokens, "input_tokens_details": map[string]int{"cached_tokens": 0},
			"output_tokens": u.CompletionTokens, "output_tokens_details": map[string]int{"reasoning_tokens": 0}, "total_tokens": u.TotalTokens,
		}
	}
	return r
}

// event makes the pieces of a text of one chunk; a call of a tool comes whole at
// the end.
func (s *responseShape) event(c chunk) (out string) {
	if !s.begun {
		s.begun = true
		begun := responseOf(c.ID, c.Model, c.Created, "", []any{}, nil)
		begun["status"] = "in_progress"
		out = responseEvent("response.created", map[string]any{"response": begun})
	}
	s.whole.ID, s.whole.Model, s.whole.Created = c.ID, c.Model, c.Created
	if c.Usage != nil {
		s.whole.Usage = *c.Usage
	}
	for _, d := range c.Choices {
		out += s.add(d)
	}
	return out
}

// add adds a piece of a choice.
func (s *responseShape) add(d delta) string {
	if s.whole.Choices == nil {
		s.whole.Choices = []choice{{}}
	}
	c := &s.whole.Choices[0]
	if d.FinishReason != nil {
		c.FinishReason = *d.FinishReason
	}
	var piece reply
	raw, _ := json.Marshal(d.Delta) // it was JSON
	_ = json.Unmarshal(raw, &piece) // of the simulator's own
	for _, call := range piece.ToolCalls {
		if call.ID != "" {
			c.Message.ToolCalls = append(c.Message.ToolCalls, call)
			continue
		}
		last := &c.Message.ToolCalls[len(c.Message.ToolCalls)-1]
		last.Function.Arguments += call.Function.Arguments
	}
	c.Message.Refusal = joined(c.Message.Refusal, piece.Refusal)
	if piece.Content == nil || *piece.Content == "" {
		return ""
	}
	c.Message.Content = joined(c.Message.Content, piece.Content)
	return responseEvent("response.output_text.delta", map[string]any{
		"item_id": "msg_" + s.whole.ID, "output_index": 0, "content_index": 0, "delta": *piece.Content,
	})
}

// joined is a text with its next piece.
func joined(text, piece *string) *string {
	if text == nil || piece == nil {
		return cmp.Or(text, piece)
	}
	whole := *text + *piece
	return &whole
}

func (s *responseShape) end() string {
	whole, _ := s.answer(s.whole).(map[string]any)
	return responseEvent("response."+whole["status"].(string), map[string]any{"response": whole})
}

func responseEvent(name string, fields map[string]any) string {
	fields["type"] = name
	data, _ := json.Marshal(fields) // plain values
	return fmt.Sprintf("event: %s\ndata: %s\n\n", name, data)
}
