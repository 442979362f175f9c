package ladder

import (
	"encoding/json"
	"strings"

	"nightshift/provider"
)

// readAnswer reads the choices of an answer in the shape of its endpoint.
func readAnswer(endpoint string, body []byte) ([]answerChoice, error) {
	switch endpoint {
	case provider.Completions:
		return readTexts(body)
	case provider.Responses:
		return readResponse(body)
	}
	return readChoices(body)
}

// readTexts reads the completion of a text.
func readTexts(body []byte) ([]answerChoice, error) {
	var completion struct {
		Choices []struct {
			FinishReason json.RawMessage `json:"finish_reason"`
			Text         json.RawMessage `json:"text"`
		} `json:"choices"`
	}
	err := json.Unmarshal(body, &completion)
	var all []answerChoice
	for _, c := range completion.Choices {
		all = append(all, answerChoice{c.FinishReason, reply{Content: c.Text}})
	}
	return all, err
}

// answerItem is an item of a response's output; other items than messages and
// calls of the user's own tools have nothing that is looked at.
type answerItem struct {
	Type      string          `json:"type"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"` // of a function
	Input     string          `json:"input"`     // of a custom tool
}

// readResponse reads a response as one choice: all of its text, and its calls.
func readResponse(body []byte) ([]answerChoice, error) {
	var r struct {
		Status     string `json:"status"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Output []json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	var text strings.Builder
	calls := []toolCall{}
	for _, raw := range r.Output {
		var i answerItem
		_ = json.Unmarshal(raw, &i) // what does not fit is nothing
		switch i.Type {
		case "message":
			text.WriteString(reply{Content: i.Content}.text())
		case "function_call", "custom_tool_call":
			c := toolCall{ID: i.CallID, Type: i.Type}
			c.Function.Name, c.Function.Arguments = i.Name, i.Arguments+i.Input
			calls = append(calls, c)
		}
	}
	c := answerChoice{}
	var err error
	if c.Message.Content, err = encode(text.String()); err == nil && len(calls) > 0 {
		c.Message.ToolCalls, err = encode(calls)
	}
	if r.Status == "incomplete" && r.Incomplete.Reason != "content_filter" {
		c.FinishReason = json.RawMessage(`"length"`)
	}
	return []answerChoice{c}, err
}
