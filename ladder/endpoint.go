package ladder

import (
	"encoding/json"
	"fmt"
	"strings"

	"nightshift/provider"
)

// serves says whether a rung can answer lines of an endpoint: a model by its
// provider's API, a text where the answer is one.
func (r *rung) serves(endpoint string) bool {
	if r.Model == "" {
		return provider.HasText(endpoint)
	}
	return provider.Serves(r.api, endpoint)
}

// unserved passes over a rung that has not the line's endpoint.
func (a *attempt) unserved(r *rung) move {
	if r.Model == "" {
		return a.skip(r, "a text cannot stand in for the answer of "+a.r.Endpoint)
	}
	return a.skip(r, fmt.Sprintf("its provider %s does not have %s", r.model.Provider, a.r.Endpoint))
}

// firstServing is the first of some rungs that has an endpoint; where none has,
// the first.
func (l *Ladder) firstServing(order []int, endpoint string) int {
	for _, i := range order {
		if l.rungs[i].serves(endpoint) {
			return i
		}
	}
	return order[0]
}

// inputsOf are the prompts of a completion or the inputs of embeddings: texts,
// or lists of tokens. Each is taken by itself.
func inputsOf(raw json.RawMessage) []json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil || len(all) == 0 {
		return []json.RawMessage{raw}
	}
	if c := all[0][0]; c != '"' && c != '[' { // one list of tokens
		return []json.RawMessage{raw}
	}
	return all
}

// inputText is the text of one of them; "": it is a list of tokens.
func inputText(raw json.RawMessage) string {
	var text string
	_ = json.Unmarshal(raw, &text)
	return text
}

// itemsOf are the items of a response's input; a text is a message of the user.
func itemsOf(raw json.RawMessage) []json.RawMessage {
	var all []json.RawMessage
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return encodeAll(map[string]any{"role": "user", "content": text})
	}
	_ = json.Unmarshal(raw, &all) // neither: no items
	return all
}

// lastInput is what rules are matched against: the prompts of a completion, else
// the text of the last message of the user, "" where there is none. The whole
// prompt would match by the system message, which is the same in every line, or
// by an example in it.
func lastInput(endpoint string, body json.RawMessage) string {
	var b struct {
		Messages []message       `json:"messages"`
		Prompt   json.RawMessage `json:"prompt"`
		Input    json.RawMessage `json:"input"`
	}
	if json.Unmarshal(body, &b) != nil {
		return ""
	}
	switch endpoint {
	case provider.Completions:
		var texts []string
		for _, raw := range inputsOf(b.Prompt) {
			texts = append(texts, inputText(raw))
		}
		return strings.Join(texts, "\n")
	case provider.Responses:
		b.Messages = nil
		for _, raw := range itemsOf(b.Input) {
			var m message
			_ = json.Unmarshal(raw, &m) // what does not fit has no role
			b.Messages = append(b.Messages, m)
		}
	}
	for i := len(b.Messages) - 1; i >= 0; i-- {
		if b.Messages[i].Role == "user" {
			return b.Messages[i].text()
		}
	}
	return ""
}
