package provider

import (
	"encoding/json"
	"slices"
)

// completion is what the adapter reads of a chat completion. Everything is raw
// or a scalar: aggregators put other types into most fields.
type completion struct {
	Error   json.RawMessage `json:"error"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
}

type choice struct {
	FinishReason scalar          `json:"finish_reason"`
	Message      message         `json:"message"`
	Text         json.RawMessage `json:"text"`  // in place of a message, where no chat is completed
	Error        json.RawMessage `json:"error"` // OpenRouter: the upstream failed in the middle
}

type message struct {
	Content      json.RawMessage `json:"content"` // a string, or a list of parts
	Refusal      json.RawMessage `json:"refusal"`
	ToolCalls    json.RawMessage `json:"tool_calls"`
	FunctionCall json.RawMessage `json:"function_call"`
	Audio        json.RawMessage `json:"audio"`
}

// verdict says what the choices of a 200 amount to.
type verdict int

const (
	empty    verdict = iota // nothing in it
	answered                // at least one choice with something in it
	withheld                // a filter or a refusal took it
	broken                  // an error in place of the rest
)

// judge looks for a choice with something in it; one is enough. The choice that
// decided comes back with the verdict.
func (c completion) judge() (verdict, choice) {
	best, by := empty, choice{}
	for _, ch := range c.Choices {
		v := ch.judge()
		if v == answered {
			if first := c.Choices[0]; first.FinishReason != "" {
				ch.FinishReason = first.FinishReason
			}
			return answered, ch
		}
		if v > best {
			best, by = v, ch
		}
	}
	return best, by
}

func (c choice) judge() verdict {
	m := c.Message
	switch {
	case !isEmpty(c.Error), c.FinishReason == "error":
		return broken // also with half an answer: it would pass for a whole one
	case !isEmpty(m.ToolCalls), !isEmpty(m.FunctionCall), !isEmpty(m.Audio), hasText(m.Content):
		return answered
	case !isEmpty(m.Refusal), hasRefusal(m.Content), c.FinishReason == "content_filter":
		return withheld
	case c.FinishReason == "length":
		// The token limit of the request was used up before the first visible
		// token, as reasoning models do: the model works, and a probe with a
		// tiny limit must be able to see that.
		return answered
	default:
		return empty
	}
}

// asError returns the choice's error in the shape of a refusal's body.
func (c choice) asError() []byte {
	b, err := json.Marshal(map[string]json.RawMessage{"error": c.Error})
	if err != nil || len(c.Error) == 0 {
		return nil
	}
	return b
}

// part is one of a content that is a list.
type part struct {
	Type scalar `json:"type"`
	Text scalar `json:"text"`
}

// hasText says that a content holds something: a string, or a list of parts of
// which one is more than an empty text or a refusal.
func hasText(raw json.RawMessage) bool {
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		return !isEmpty(raw)
	}
	return slices.ContainsFunc(parts, func(p part) bool {
		return p.Text != "" || p.Type != "" && !slices.Contains([]scalar{"text", "output_text", "refusal"}, p.Type)
	})
}

func hasRefusal(raw json.RawMessage) bool {
	var parts []part
	_ = json.Unmarshal(raw, &parts) // a string is no list, and no refusal
	return slices.ContainsFunc(parts, func(p part) bool { return p.Type == "refusal" })
}
