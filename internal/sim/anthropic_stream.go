package sim

import (
	"encoding/json"
	"strings"
)

// messageStream makes the events of the Messages API of OpenAI's, one by one.
type messageStream struct {
	model  string
	prompt int // tokens

	begun   bool
	block   string // the type of the open block; "" for none
	index   int    // of the open block, or of the next
	reason  string
	refusal string
	usage   messageUsage
}

// streamed is a chunk as the simulator sends it.
type streamed struct {
	ID      string `json:"id"`
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			Refusal   string `json:"refusal"`
			Reasoning string `json:"reasoning_content"`
			ToolCalls []struct {
				ID       string   `json:"id"`
				Function function `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// translate returns the events that stand for one of OpenAI's.
func (s *messageStream) translate(event string) string {
	data, isData := strings.CutPrefix(strings.TrimSpace(event), "data: ")
	if !isData { // a comment that keeps the connection alive
		return messageEvent("ping", map[string]any{})
	}
	if data == "[DONE]" {
		return s.end()
	}
	var c streamed
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return event
	}
	if c.Error != nil {
		return "event: error\ndata: " + string(messageError([]byte(data), 0, s.model, "")) + "\n\n"
	}
	out := s.begin(c.ID)
	if c.Usage != nil {
		s.usage = messageUsage{Input: c.Usage.PromptTokens, Output: c.Usage.CompletionTokens}
	}
	for _, ch := range c.Choices {
		if ch.FinishReason != "" {
			s.reason = stopReasons[ch.FinishReason]
		}
		d := ch.Delta
		s.refusal += d.Refusal
		out += s.text("thinking", "thinking_delta", d.Reasoning) + s.text("text", "text_delta", d.Content)
		for _, call := range d.ToolCalls {
			if call.ID != "" {
				out += s.open(contentBlock{Type: "tool_use", ID: "toolu_" + call.ID, Name: call.Function.Name, Input: json.RawMessage("{}")})
			}
			out += s.delta("input_json_delta", "partial_json", call.Function.Arguments)
		}
	}
	return out
}

// begin is what comes before everything else.
func (s *messageStream) begin(id string) string {
	if s.begun {
		return ""
	}
	s.begun = true
	m := messageAnswer{
		ID: "msg_" + id, Type: "message", Role: "assistant", Model: s.model, Content: []contentBlock{},
		Usage: messageUsage{Input: s.prompt, Output: 1},
	}
	return messageEvent("message_start", map[string]any{"message": m}) + messageEvent("ping", map[string]any{})
}

// text is a piece of a text or a thought, which opens its block where it is the
// first.
func (s *messageStream) text(block, delta, piece string) string {
	if piece == "" {
		return ""
	}
	out, empty := "", ""
	if s.block != block {
		b := contentBlock{Type: block, Text: &empty}
		if block == "thinking" {
			b = contentBlock{Type: block, Thinking: &empty, Signature: &empty}
		}
		out = s.open(b)
	}
	return out + s.delta(delta, block, piece)
}

func (s *messageStream) delta(kind, field, piece string) string {
	if piece == "" {
		return ""
	}
	return messageEvent("content_block_delta", map[string]any{"index": s.index, "delta": map[string]string{"type": kind, field: piece}})
}

// open begins a block, after the one that is open.
func (s *messageStream) open(b contentBlock) string {
	out := s.shut()
	s.block = b.Type
	return out + messageEvent("content_block_start", map[string]any{"index": s.index, "content_block": b})
}

func (s *messageStream) shut() string {
	if s.block == "" {
		return ""
	}
	out := ""
	if s.block == "thinking" {
		out = s.delta("signature_delta", "signature", simSignature)
	}
	out += messageEvent("content_block_stop", map[string]any{"index": s.index})
	s.block = ""
	s.index++
	return out
}

// end is what comes last.
func (s *messageStream) end() string {
	delta := map[string]any{"stop_reason": s.reason, "stop_sequence": nil, "stop_details": nil}
	if s.refusal != "" {
		delta["stop_reason"], delta["stop_details"] = "refusal", stopDetails{"refusal", s.refusal}
	}
	return s.shut() + messageEvent("message_delta", map[string]any{"delta": delta, "usage": s.usage}) +
		messageEvent("message_stop", map[string]any{})
}

func messageEvent(name string, fields map[string]any) string {
	fields["type"] = name
	data, _ := json.Marshal(fields) // plain values
	return "event: " + name + "\ndata: " + string(data) + "\n\n"
}
