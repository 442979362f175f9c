package ladder

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"nightshift/config"
	"nightshift/provider"
)

// size is about how many tokens a request has. It is no tokenizer's count: text
// in ASCII counts a token for four bytes, which is English and code; other
// alphabets one for two letters; ideographs, kana, hangul and emoji one each.
// Tools and schemas count as text, every message four more. Images count
// nothing, since providers price them by rules of their own.
type size struct {
	messages []int // of each message
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
	return n
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

// chat is what we read of a request.
type chat struct {
	Messages       []json.RawMessage `json:"messages"`
	Tools          json.RawMessage   `json:"tools"`
	Functions      json.RawMessage   `json:"functions"`
	ResponseFormat json.RawMessage   `json:"response_format"`
	MaxTokens      json.RawMessage   `json:"max_tokens"`
	MaxCompletion  json.RawMessage   `json:"max_completion_tokens"`
	N              json.RawMessage   `json:"n"`
}

// measure returns the size of a body; what is no chat has none.
func measure(body json.RawMessage) *size {
	var c chat
	if json.Unmarshal(body, &c) != nil {
		return &size{}
	}
	s := &size{rest: tokens(c.Tools) + tokens(c.Functions) + tokens(c.ResponseFormat), n: c.N}
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

// answerTokens is how long the answer may become by the request, as a rung sends it.
func (a *attempt) answerTokens(r *rung) int { return a.size().answerTokens(r.Rung) }

func (s *size) answerTokens(r config.Rung) int {
	limit := s.answer
	for _, field := range []string{"max_tokens", "max_completion_tokens"} {
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
		a.measured = measure(a.r.Body)
	}
	return a.measured
}

// tooLarge says that a request is clearly too large for a rung's context: with a
// fifth less than our count of the prompt, and the answer that it asks for. In
// doubt the provider decides; a refusal of that kind costs nothing.
func (a *attempt) tooLarge(r *rung) bool { return a.size().tooLarge(r.Rung, r.model) }

func (s *size) tooLarge(r config.Rung, m config.Model) bool {
	return r.Model != "" && m.Context > 0 && s.prompt()*4/5+s.answerTokens(r) > m.Context
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
	why := fmt.Sprintf("the request has about %d tokens", a.size().prompt())
	if n := a.answerTokens(r); n > 0 {
		why += fmt.Sprintf(" and asks for an answer of %d", n)
	}
	why += fmt.Sprintf("; its context is %d", r.model.Context)
	a.refusal = &provider.Error{Kind: provider.ContextExceeded, Message: why}
	return a.skip(r, why)
}
