package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxEcho is how much of a message an answer repeats, in characters.
const maxEcho = 200

// charsPerToken is the usual rule of thumb for English.
const charsPerToken = 4

// chatRequest is what the simulator reads of a request.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	N                   int             `json:"n"`
	LogProbs            bool            `json:"logprobs"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	Tools               []offered       `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelCalls       bool            `json:"parallel_tool_calls"`
	ResponseFormat      struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`

	Stream        bool `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	tellsUsage bool     // its streams tell what they used, unasked
	prompts    []string // of a completion: each has choices of its own
}

// wantsUsage says whether a stream tells what it used.
func (r chatRequest) wantsUsage() bool {
	return r.tellsUsage || r.StreamOptions != nil && r.StreamOptions.IncludeUsage
}

// offered is a tool that may be called.
type offered struct {
	Function function `json:"function"`
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
	case r.N < 0 || r.N > maxChoices:
		return "Invalid value: 'n' must be between 1 and 128."
	case r.StreamOptions != nil && !r.Stream:
		return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
	}
	return ""
}

// maxChoices is the largest n.
const maxChoices = 128

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
	Index        int       `json:"index"`
	Message      reply     `json:"message"`
	LogProbs     *logprobs `json:"logprobs"`
	FinishReason string    `json:"finish_reason"`
}

type reply struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type logprobs struct {
	Content []logprob `json:"content"`
	Refusal []logprob `json:"refusal"` // always null
}

type logprob struct {
	Token   string    `json:"token"`
	LogProb float64   `json:"logprob"`
	Bytes   []int     `json:"bytes"`
	Top     []logprob `json:"top_logprobs"` // always empty
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// echo answers a request with its last user message: as a text, as JSON where
// that is asked for (of a schema, where there is one), or in the arguments of the tools that are offered. tokens 0
// counts them by the length. The request's own token limit cuts the answer off.
func (r chatRequest) echo(id string, created int64, tokens int) answer {
	a := answer{ID: "chatcmpl-" + id, Object: "chat.completion", Created: created, Model: r.Model}
	for i := range max(1, r.N) {
		c, spent := r.choice(id, i, tokens)
		a.Choices = append(a.Choices, c)
		a.Usage.CompletionTokens += spent
	}
	a.Usage.PromptTokens = tokensOf(r.promptLength())
	a.Usage.TotalTokens = a.Usage.PromptTokens + a.Usage.CompletionTokens
	return a
}

// refuse makes the answer a refusal by the model.
func (a *answer) refuse() {
	for i := range a.Choices {
		text := "I cannot help with that."
		a.Choices[i] = choice{Index: i, Message: reply{Role: "assistant", Refusal: &text}, FinishReason: "stop"}
	}
}

// say makes the answer one text, with a finish reason.
func (a *answer) say(text, finish string) {
	a.Choices = []choice{{Message: reply{Role: "assistant", Content: &text}, FinishReason: cmp.Or(finish, "stop")}}
}

// choice is the i-th one, with what it costs.
func (r chatRequest) choice(id string, i, tokens int) (c choice, spent int) {
	c = choice{Index: i, Message: reply{Role: "assistant"}, FinishReason: "stop"}
	if r.callsTools() {
		c.FinishReason = "tool_calls"
		for k, name := range r.toolNames() {
			args, _ := json.Marshal(map[string]string{"echo": cutAt(maxEcho, r.lastMessage())})
			call := toolCall{ID: fmt.Sprintf("call_%s_%d_%d", id, i, k), Type: "function"}
			call.Function = function{Name: name, Arguments: string(args)}
			c.Message.ToolCalls = append(c.Message.ToolCalls, call)
			spent += tokensOf(len(args))
		}
		return c, max(spent, tokens)
	}
	thought, content := r.thought(), r.content(i)
	spent = tokens
	if spent == 0 {
		spent = tokensOf(len(thought) + len(content))
	}
	if limit := max(r.MaxTokens, r.MaxCompletionTokens); limit > 0 && spent > limit {
		spent, c.FinishReason = limit, "length"
		left := limit * charsPerToken
		thought = thought[:min(len(thought), left)]
		content = content[:min(len(content), left-len(thought))]
	}
	text := string(content)
	c.Message.Reasoning, c.Message.Content = string(thought), &text
	if r.LogProbs {
		c.LogProbs = &logprobs{Content: logprobsOf(text)}
	}
	return c, spent
}

// content is the text of the i-th choice.
func (r chatRequest) content(i int) []rune {
	asked := r.asked(i)
	if text, ok := exampleOf(r.ResponseFormat.Schema.Schema, asked); ok {
		return []rune(string(text))
	}
	if strings.HasPrefix(r.ResponseFormat.Type, "json") {
		text, _ := json.Marshal(map[string]any{"echo": cutAt(maxEcho, asked), "choice": i})
		return []rune(string(text))
	}
	text := []rune("echo: " + asked)
	if i > 0 {
		text = []rune(fmt.Sprintf("echo %d: %s", i+1, asked))
	}
	return []rune(cutAt(maxEcho, string(text)))
}

// cutAt returns a text of at most n characters.
func cutAt(n int, s string) string {
	text := []rune(s)
	if len(text) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	return string(text[:n-1]) + "…"
}

// thought is what a model that is asked to reason says before its answer.
func (r chatRequest) thought() []rune {
	if r.ReasoningEffort == "" || r.ReasoningEffort == "none" {
		return nil
	}
	return []rune(fmt.Sprintf("The user sent %d characters.", r.promptLength()))
}

func (r chatRequest) callsTools() bool {
	return len(r.Tools) > 0 && string(r.ToolChoice) != `"none"` && r.Messages[len(r.Messages)-1].Role != "tool"
}

// toolNames are the functions to call: the one that is chosen, or the first, or
// all where they may be called in parallel.
func (r chatRequest) toolNames() []string {
	var chosen struct{ Function function }
	if json.Unmarshal(r.ToolChoice, &chosen) == nil && chosen.Function.Name != "" {
		return []string{chosen.Function.Name}
	}
	var all []string
	for _, t := range r.Tools {
		all = append(all, t.Function.Name)
	}
	if !r.ParallelCalls {
		return all[:1]
	}
	return all
}

// asked is what the i-th choice echoes.
func (r chatRequest) asked(i int) string {
	if len(r.prompts) == 0 {
		return r.lastMessage()
	}
	return strings.ToValidUTF8(r.prompts[i*len(r.prompts)/max(r.N, len(r.prompts))], "\uFFFD")
}

// lastMessage is the last of the user's.
func (r chatRequest) lastMessage() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			return strings.ToValidUTF8(m.text(), "\uFFFD")
		}
	}
	return ""
}

// promptLength is that of all messages, in characters.
func (r chatRequest) promptLength() (n int) {
	for _, m := range r.Messages {
		n += utf8.RuneCountInString(m.text())
	}
	return n
}

func logprobsOf(text string) []logprob {
	all := []logprob{}
	for _, token := range tokensIn(text) {
		l := logprob{Token: token, LogProb: -float64(len(token)) / 8, Top: []logprob{}}
		for _, b := range []byte(token) {
			l.Bytes = append(l.Bytes, int(b))
		}
		all = append(all, l)
	}
	return all
}

func tokensOf(chars int) int { return max(1, (chars+charsPerToken-1)/charsPerToken) }

// tokensIn divides a text into tokens.
func tokensIn(text string) []string {
	var all []string
	for part := range slices.Chunk([]rune(text), charsPerToken) {
		all = append(all, string(part))
	}
	return all
}

// requestID names the n-th call of a server.
func requestID(n int64) string { return fmt.Sprintf("sim-%d", n) }
