package ladder

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"nightshift/config"
	"nightshift/provider"
)

// size is about how many tokens a request has. It is no tokenizer's count: text
// in ASCII counts a token for four bytes, which is English and code; other
// alphabets one for two letters; ideographs, kana, hangul and emoji one each; a
// list of tokens counts as it is. Tools and schemas count as text, every message
// four more. Images count nothing, since providers price them by rules of their
// own.
type size struct {
	endpoint string
	messages []int // of each message, or item of a response's input
	inputs   []int // of each prompt of a completion or input of embeddings, which the model takes one by one
	rest     int   // tools and schemas
	answer   json.RawMessage
	n        json.RawMessage
}

// perMessage is what the frame of a message takes.
const perMessage = 4

func (s *size) prompt() int {
	n := s.rest
	for _, m := range s.messages {
		n += m
	}
	for _, i := range s.inputs {
		n += i
	}
	return n
}

// window is what the model takes at a time.
func (s *size) window() int {
	if len(s.inputs) > 0 {
		return slices.Max(s.inputs)
	}
	return s.prompt()
}

// tokens counts a text.
func tokens(text []byte) int {
	ascii, letters, signs := 0, 0, 0
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r < utf8.RuneSelf:
			ascii++
		case r < 0x1100: // up to here, alphabets; behind, hangul and the ideographs
			letters++
		default:
			signs++
		}
		text = text[n:]
	}
	return (ascii+3)/4 + (letters+1)/2 + signs
}

// chat is what we read of a request, whatever its endpoint.
type chat struct {
	Messages       []json.RawMessage `json:"messages"`
	Tools          json.RawMessage   `json:"tools"`
	Functions      json.RawMessage   `json:"functions"`
	ResponseFormat json.RawMessage   `json:"response_format"`
	MaxTokens      json.RawMessage   `json:"max_tokens"`
	MaxCompletion  json.RawMessage   `json:"max_completion_tokens"`
	N              json.RawMessage   `json:"n"`
	Prompt         json.RawMessage   `json:"prompt"`       // of a completion
	Input          json.RawMessage   `json:"input"`        // of embeddings, or a response
	Instructions   json.RawMessage   `json:"instructions"` // of a response, from here on
	Text           json.RawMessage   `json:"text"`
	MaxOutput      json.RawMessage   `json:"max_output_tokens"`
}

// measure returns the size of a body; what is no request has none.
func measure(endpoint string, body json.RawMessage) *size {
	var c chat
	if json.Unmarshal(body, &c) != nil {
		return &size{endpoint: endpoint}
	}
	switch endpoint {
	case provider.Completions:
		return &size{endpoint: endpoint, inputs: countInputs(c.Prompt), answer: c.MaxTokens, n: c.N}
	case provider.Embeddings:
		return &size{endpoint: endpoint, inputs: countInputs(c.Input)}
	case provider.Responses:
		return c.measureResponse()
	}
	s := &size{endpoint: endpoint, rest: tokens(c.Tools) + tokens(c.Functions) + tokens(c.ResponseFormat), n: c.N}
	for _, raw := range c.Messages {
		var m message
		_ = json.Unmarshal(raw, &m) // what does not fit counts nothing
		s.messages = append(s.messages, perMessage+tokens([]byte(m.text()))+tokens(m.ToolCalls)+tokens(m.FunctionCall))
	}
	if s.answer = c.MaxCompletion; s.answer == nil {
		s.answer = c.MaxTokens
	}
	return s
}

func countInputs(raw json.RawMessage) (all []int) {
	for _, input := range inputsOf(raw) {
		all = append(all, inputTokens(input))
	}
	return all
}

// measureResponse is measure for a response.
func (c chat) measureResponse() *size {
	s := &size{endpoint: provider.Responses, answer: c.MaxOutput}
	s.rest = tokens(c.Tools) + tokens(c.Text) + tokens([]byte(inputText(c.Instructions)))
	for _, raw := range itemsOf(c.Input) {
		var i item
		_ = json.Unmarshal(raw, &i) // what does not fit counts nothing
		s.messages = append(s.messages, perMessage+tokens([]byte(i.text()))+tokens(i.Arguments)+tokens(i.Output))
	}
	return s
}

// limits are the names that an endpoint has for the most tokens of an answer.
func limits(endpoint string) []string {
	switch endpoint {
	case provider.Responses:
		return []string{"max_output_tokens"}
	case provider.Embeddings:
		return nil
	}
	return []string{"max_tokens", "max_completion_tokens"}
}

// answerTokens is how long the answer may become by the request, as a rung sends it.
func (a *attempt) answerTokens(r *rung) int { return a.size().answerTokens(r.Rung) }

func (s *size) answerTokens(r config.Rung) int {
	limit := s.answer
	for _, field := range limits(s.endpoint) {
		if v, ok := r.Set[field]; ok {
			limit, _ = json.Marshal(v)
		}
	}
	var n int
	if json.Unmarshal(limit, &n) != nil {
		return 0
	}
	return max(n, 0)
}

// size is that of the request as it stands; it is measured once.
func (a *attempt) size() *size {
	if a.measured == nil {
		a.measured = a.r.Size.size
	}
	if a.measured == nil {
		a.measured = measure(a.r.Endpoint, a.r.Body)
	}
	return a.measured
}

// tooLarge says that a request is clearly too large for a rung's context: with a
// fifth less than our count of the prompt, and the answer that it asks for. In
// doubt the provider decides; a refusal of that kind costs nothing.
func (a *attempt) tooLarge(r *rung) bool { return a.size().tooLarge(r.Rung, r.model) }

func (s *size) tooLarge(r config.Rung, m config.Model) bool {
	return r.Model != "" && m.Context > 0 && s.window()*4/5+s.answerTokens(r) > m.Context
}

// fits says whether the request may go to a rung, shortened where the ladder
// truncates and no other model of it takes more.
func (a *attempt) fits(r *rung) bool {
	if !a.tooLarge(r) {
		return true
	}
	return a.mayShorten(r) && a.shorten(r, r.model.Context-a.answerTokens(r))
}

// oversized passes a rung over whose context is too small.
func (a *attempt) oversized(r *rung) move {
	why := fmt.Sprintf("the request has about %d tokens", a.size().window())
	if n := a.answerTokens(r); n > 0 {
		why += fmt.Sprintf(" and asks for an answer of %d", n)
	}
	why += fmt.Sprintf("; its context is %d", r.model.Context)
	a.refusal = &provider.Error{Kind: provider.ContextExceeded, Message: why}
	return a.skip(r, why)
}
