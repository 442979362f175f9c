package ladder

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"nightshift/config"
)

// preset is one text of a rung without a model.
type preset struct {
	match *regexp.Regexp // what the line must match; nil: nothing
	text  *template.Template
}

// compilePresets makes the texts of a rung: its one text, or one a rule.
func compilePresets(i int, c config.Rung) ([]preset, error) {
	if c.Text != "" {
		text, err := compileText(i, c.Text)
		return []preset{{text: text}}, err
	}
	var all []preset
	var problems []error
	for n, rule := range c.Rules {
		match, err1 := regexp.Compile(rule.Match)
		text, err2 := compileText(i, rule.Text)
		if err := errors.Join(err1, err2); err != nil {
			problems = append(problems, fmt.Errorf("rule %d: %w", n+1, err))
			continue
		}
		all = append(all, preset{match, text})
	}
	return all, errors.Join(problems...)
}

// matcher finds the texts of one line; it reads the line's prompt once, if at all.
type matcher struct {
	endpoint string
	body     json.RawMessage
	prompt   *string
}

// preset returns the first text of a rung that the line matches, or nil.
func (m *matcher) preset(r *rung) *template.Template {
	for _, p := range r.presets {
		if p.match == nil {
			return p.text
		}
		if m.prompt == nil {
			text := lastInput(m.endpoint, m.body)
			m.prompt = &text
		}
		if p.match.MatchString(*m.prompt) {
			return p.text
		}
	}
	return nil
}

// message is what we read of a message of a chat.
type message struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	ToolCalls    json.RawMessage `json:"tool_calls"`
	FunctionCall json.RawMessage `json:"function_call"`
}

// text is the message's text; parts of it are joined by newlines, and what is
// no text is left out.
func (m message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
