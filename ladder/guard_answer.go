package ladder

import (
	"encoding/json"
	"strings"
)

// answerChoice is what the guard reads of a choice of an answer.
type answerChoice struct {
	FinishReason json.RawMessage `json:"finish_reason"`
	Message      reply           `json:"message"`
}

// reply is what a model said. Fields of an odd type are as good as absent.
type reply struct {
	Content      json.RawMessage `json:"content"` // a string, or a list of parts
	ToolCalls    json.RawMessage `json:"tool_calls"`
	FunctionCall json.RawMessage `json:"function_call"` // before there were tool calls
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func readChoices(body []byte) ([]answerChoice, error) {
	var completion struct {
		Choices []answerChoice `json:"choices"`
	}
	err := json.Unmarshal(body, &completion)
	return completion.Choices, err
}

// isCut says that a choice was cut off by a token limit.
func (c answerChoice) isCut() bool {
	var reason string
	_ = json.Unmarshal(c.FinishReason, &reason)
	reason = strings.ToLower(reason)
	return reason == "length" || reason == "max_tokens"
}

// value is the text that should be the value: what the model said, or, where it
// said nothing and calls a tool, the arguments of the first call.
func (c answerChoice) value() string {
	text := c.Message.text()
	if arguments := c.Message.arguments(); strings.TrimSpace(text) == "" && len(arguments) > 0 {
		return arguments[0]
	}
	return text
}

// texts are all texts of a choice that somebody will read or run, and those
// within their JSON as who reads it will have them, without escapes.
func (c answerChoice) texts() []string {
	all := append(c.Message.arguments(), c.Message.text())
	for _, text := range all {
		all = append(all, unescaped(text)...)
	}
	return all
}

// unescaped are the texts within the JSON of an answer, if it has escapes.
func unescaped(text string) []string {
	if !strings.Contains(text, `\`) {
		return nil
	}
	var all []string
	for _, value := range candidates(text).texts {
		d := json.NewDecoder(strings.NewReader(value))
		d.UseNumber() // any number is read
		for {
			token, err := d.Token()
			if err != nil { // the end: it is JSON
				break
			}
			if s, isText := token.(string); isText {
				all = append(all, s)
			}
		}
	}
	return all
}

// text is the visible text: a string, or the texts of all parts.
func (m reply) text() string {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []struct {
		Text json.RawMessage `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts) // neither: no text
	var all strings.Builder
	for _, p := range parts {
		var part string
		_ = json.Unmarshal(p.Text, &part)
		all.WriteString(part)
	}
	return all.String()
}

// calls are the tool calls of a message.
func (m reply) calls() []toolCall {
	var calls []toolCall
	_ = json.Unmarshal(m.ToolCalls, &calls)
	return calls
}

// arguments are the arguments of all its calls.
func (m reply) arguments() []string {
	var all []string
	for _, c := range m.calls() {
		all = append(all, c.Function.Arguments)
	}
	var old struct{ Arguments string }
	if json.Unmarshal(m.FunctionCall, &old) == nil && old.Arguments != "" {
		all = append(all, old.Arguments)
	}
	return all
}
