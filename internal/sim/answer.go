package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxEcho is how much of a message an answer repeats, in characters.
const maxEcho = 200

// charsPerToken is the usual rule of thumb for English.
const charsPerToken = 4

// chatRequest is what the simulator reads of a request.
type chatRequest struct {
	Model               string    `json:"model"`
	Messages            []message `json:"messages"`
	Stream              bool      `json:"stream"`
	MaxTokens           int       `json:"max_tokens"`
	MaxCompletionTokens int       `json:"max_completion_tokens"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string, or a list of parts
}

// text returns the content's text.
func (m message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts) // neither: no text
	var all []string
	for _, p := range parts {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, " ")
}

// problem says what a provider would refuse the request for; "" for nothing.
func (r chatRequest) problem() string {
	switch {
	case r.Model == "":
		return "you must provide a model parameter"
	case len(r.Messages) == 0:
		return "Missing required parameter: 'messages'."
	case r.Stream:
		return "this simulator does not stream"
	}
	return ""
}

// answer is a chat completion.
type answer struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      reply   `json:"message"`
	LogProbs     *string `json:"logprobs"` // always null
	FinishReason string  `json:"finish_reason"`
}

type reply struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"` // always null
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// echo answers a request with its last user message; tokens 0 counts them by
// the length. The request's own token limit cuts the answer off.
func (r chatRequest) echo(id string, created int64, tokens int) answer {
	prompt, last := 0, ""
	for _, m := range r.Messages {
		text := m.text()
		prompt += utf8.RuneCountInString(text)
		if m.Role == "user" {
			last = text
		}
	}
	content := []rune("echo: " + strings.ToValidUTF8(last, "\uFFFD"))
	if len(content) > maxEcho {
		content = append(content[:maxEcho-1], '…')
	}
	finish := "stop"
	if tokens == 0 {
		tokens = tokensOf(len(content))
	}
	if limit := max(r.MaxTokens, r.MaxCompletionTokens); limit > 0 && tokens > limit {
		tokens, finish = limit, "length"
		content = content[:min(len(content), limit*charsPerToken)]
	}
	u := usage{PromptTokens: tokensOf(prompt), CompletionTokens: tokens}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return answer{
		ID: "chatcmpl-" + id, Object: "chat.completion", Created: created, Model: r.Model, Usage: u,
		Choices: []choice{{Message: reply{Role: "assistant", Content: string(content)}, FinishReason: finish}},
	}
}

func tokensOf(chars int) int { return max(1, (chars+charsPerToken-1)/charsPerToken) }

// requestID names the n-th call of a server.
func requestID(n int64) string { return fmt.Sprintf("sim-%d", n) }
