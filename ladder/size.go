package ladder

import (
	"encoding/json"
	"fmt"
	"slices"

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
	answer   int   // the most tokens that the request allows; 0: any
	n        int   // choices that it asks for
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
	var c count
	c.text(text)
	return c.tokens()
}

// measure returns the size of a body; what is no request has none.
func measure(endpoint string, body json.RawMessage) *size {
	s := &size{endpoint: endpoint}
	var err error
	switch endpoint {
	case provider.Completions, provider.Embeddings:
		err = s.measureInputs(body)
	case provider.Responses:
		err = s.measureResponse(body)
	default:
		err = s.measureChat(body)
	}
	if err != nil {
		return &size{endpoint: endpoint}
	}
	return s
}

func (s *size) measureChat(body json.RawMessage) error {
	var c struct {
		Messages       []messageTokens `json:"messages"`
		Tools          rawTokens       `json:"tools"`
		Functions      rawTokens       `json:"functions"`
		ResponseFormat rawTokens       `json:"response_format"`
		MaxTokens      json.RawMessage `json:"max_tokens"`
		MaxCompletion  json.RawMessage `json:"max_completion_tokens"`
		N              json.RawMessage `json:"n"`
	}
	err := json.Unmarshal(body, &c)
	s.rest, s.n = int(c.Tools+c.Functions+c.ResponseFormat), choicesOf(c.N)
	for _, n := range c.Messages {
		s.messages = append(s.messages, int(n))
	}
	if c.MaxCompletion == nil {
		c.MaxCompletion = c.MaxTokens
	}
	s.answer = number(c.MaxCompletion)
	return err
}

// measureInputs is for completions and embeddings.
func (s *size) measureInputs(body json.RawMessage) error {
	var c struct {
		Prompt    inputs          `json:"prompt"`
		Input     inputs          `json:"input"`
		MaxTokens json.RawMessage `json:"max_tokens"`
		N         json.RawMessage `json:"n"`
	}
	err := json.Unmarshal(body, &c)
	all := c.Input
	if s.endpoint == provider.Completions {
		all, s.answer, s.n = c.Prompt, number(c.MaxTokens), choicesOf(c.N)
	}
	for _, i := range all {
		s.inputs = append(s.inputs, i.n)
	}
	return err
}

func (s *size) measureResponse(body json.RawMessage) error {
	var c struct {
		Input        items           `json:"input"`
		Instructions textTokens      `json:"instructions"`
		Tools        rawTokens       `json:"tools"`
		Text         rawTokens       `json:"text"`
		MaxOutput    json.RawMessage `json:"max_output_tokens"`
	}
	err := json.Unmarshal(body, &c)
	s.rest, s.answer = int(c.Tools+c.Text)+int(c.Instructions), number(c.MaxOutput)
	for _, n := range c.Input {
		s.messages = append(s.messages, int(n))
	}
	return err
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
func (a *attempt) answerTokens(r *rung) int { return a.size().answerTokens(&r.Rung) }

func (s *size) answerTokens(r *config.Rung) int {
	if len(r.Set) == 0 {
		return s.answer
	}
	n := s.answer
	for _, field := range limits(s.endpoint) {
		if v, ok := r.Set[field]; ok {
			text, _ := json.Marshal(v)
			n = number(text)
		}
	}
	return n
}

// number is a count of tokens as JSON has it; what is none is 0.
func number(text json.RawMessage) (n int) {
	if len(text) == 0 || json.Unmarshal(text, &n) != nil {
		return 0
	}
	return max(n, 0)
}

// choicesOf are those that a request asks for, as JSON has it; what is none is 1.
func choicesOf(text json.RawMessage) (n int) {
	if len(text) == 0 || json.Unmarshal(text, &n) != nil {
		return 1
	}
	return n
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
func (a *attempt) tooLarge(r *rung) bool { return a.size().tooLarge(&r.Rung, &r.model) }

func (s *size) tooLarge(r *config.Rung, m *config.Model) bool {
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
