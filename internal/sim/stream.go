package sim

import (
	"encoding/json"
	"net/http"
	"time"
)

// event is one of a streamed answer.
type event struct {
	data  string
	token bool // it holds a piece of the answer
	late  bool // it comes after the last of them
}

// chunk is the data of an event.
type chunk struct {
	ID      string  `json:"id"`
	Object  string  `json:"object"`
	Created int64   `json:"created"`
	Model   string  `json:"model"`
	Choices []delta `json:"choices"`
	Usage   *usage  `json:"usage,omitempty"`
}

type delta struct {
	Index        int            `json:"index"`
	Delta        map[string]any `json:"delta"`
	LogProbs     *logprobs      `json:"logprobs"`
	FinishReason *string        `json:"finish_reason"`
}

// events is an answer as a stream of chunks, the choices taking turns.
func (a answer) events(withUsage bool) []event {
	var all []event
	add := func(e event, u *usage, choices ...delta) {
		c := chunk{ID: a.ID, Object: "chat.completion.chunk", Created: a.Created, Model: a.Model, Choices: choices, Usage: u}
		if choices == nil {
			c.Choices = []delta{}
		}
		data, _ := json.Marshal(c) // plain values
		e.data = string(data)
		all = append(all, e)
	}
	turns := make([][]delta, len(a.Choices))
	longest := 0
	for i, c := range a.Choices {
		add(event{}, nil, c.opening())
		turns[i] = c.pieces()
		longest = max(longest, len(turns[i]))
	}
	for turn := range longest {
		for _, pieces := range turns {
			if turn < len(pieces) {
				add(event{token: true}, nil, pieces[turn])
			}
		}
	}
	for _, c := range a.Choices {
		add(event{late: true}, nil, delta{Index: c.Index, Delta: map[string]any{}, FinishReason: &c.FinishReason})
	}
	if withUsage {
		add(event{late: true}, &a.Usage)
	}
	return append(all, event{late: true, data: "[DONE]"})
}

// opening is the first piece, which says only who speaks.
func (c choice) opening() delta {
	d := delta{Index: c.Index, Delta: map[string]any{"role": c.Message.Role, "content": "", "refusal": nil}}
	if c.Message.ToolCalls != nil {
		d.Delta["content"] = nil
	}
	if c.LogProbs != nil {
		d.LogProbs = &logprobs{Content: []logprob{}}
	}
	return d
}

// pieces are the tokens of a choice.
func (c choice) pieces() []delta {
	var all []delta
	add := func(key string, v any) {
		all = append(all, delta{Index: c.Index, Delta: map[string]any{key: v}})
	}
	for _, t := range tokensIn(c.Message.Reasoning) {
		add("reasoning_content", t)
	}
	if c.Message.Refusal != nil {
		for _, t := range tokensIn(*c.Message.Refusal) {
			add("refusal", t)
		}
	}
	if c.Message.Content != nil {
		for i, t := range tokensIn(*c.Message.Content) {
			add("content", t)
			if c.LogProbs != nil {
				all[len(all)-1].LogProbs = &logprobs{Content: c.LogProbs.Content[i : i+1]}
			}
		}
	}
	for i, call := range c.Message.ToolCalls {
		add("tool_calls", []any{map[string]any{
			"index": i, "id": call.ID, "type": call.Type, "function": function{Name: call.Function.Name},
		}})
		for _, t := range tokensIn(call.Function.Arguments) {
			add("tool_calls", []any{map[string]any{"index": i, "function": map[string]string{"arguments": t}}})
		}
	}
	return all
}

// stream sends an answer as it comes into being; a fault that meets it there
// ends it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, all []event, p plan, call *Call) {
	w.Header().Set("Content-Type", "text/event-stream")
	call.Status = http.StatusOK
	wait, sent := p.firstToken, 0
	for _, e := range all {
		if e.token && s.pause(r.Context(), wait) != nil {
			s.cut(call)
		}
		if p.fault != nil && (e.token || e.late) && (e.late || sent == p.fault.AfterTokens) {
			s.breakOff(w, r, p.fault, call)
			return
		}
		if err := send(w, "data: "+e.data+"\n\n"); err != nil {
			s.cut(call)
		}
		if e.token {
			wait, sent = p.interval, sent+1
		}
	}
}

// breakOff ends a stream as its fault says.
func (s *Server) breakOff(w http.ResponseWriter, r *http.Request, f *Fault, call *Call) {
	switch f.Kind {
	case Stall:
		s.stall(w, r, f.KeepAlive, ": keep-alive\n\n")
		s.cut(call)
	case StreamError:
		_ = send(w, "data: "+faults[f.Kind].body+"\n\n") // a client that went away is on the log anyway
	case CutOff:
		breakConnection(w)
	}
}

// stall says nothing, or nothing but keep-alives, until somebody goes away.
func (s *Server) stall(w http.ResponseWriter, r *http.Request, every time.Duration, keepAlive string) {
	_ = http.NewResponseController(w).Flush()
	if every <= 0 {
		_ = s.await(r.Context(), nil)
		return
	}
	for s.pause(r.Context(), every) == nil && send(w, keepAlive) == nil {
	}
}

// send writes and flushes, so that the client sees it at once.
func send(w http.ResponseWriter, text string) error {
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
