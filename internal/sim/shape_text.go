package sim

import (
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
)

// textShape is that of completions. Each prompt has n choices, which echo it.
type textShape struct{ refused bool }

type textRequest struct {
	chatRequest
	Prompt   json.RawMessage `json:"prompt"`
	LogProbs *int            `json:"logprobs"`
}

func (*textShape) parse(body []byte) (chatRequest, string) {
	var r textRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return r.chatRequest, "the body is not the JSON of a request"
	}
	prompts := inputs(r.Prompt)
	if len(prompts) == 0 {
		return r.chatRequest, "Missing required parameter: 'prompt'."
	}
	req := r.chatRequest
	req.N, req.Messages, req.prompts = max(req.N, 1)*len(prompts), nil, prompts
	for _, p := range prompts {
		req.Messages = append(req.Messages, user(p))
	}
	return req, req.problem()
}

type textAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []textChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

// filtered is how a completion says that it was refused.
var filtered = "content_filter"

type textChoice struct {
	Text         string    `json:"text"`
	Index        int       `json:"index"`
	LogProbs     *struct{} `json:"logprobs"` // always null
	FinishReason *string   `json:"finish_reason"`
}

func (*textShape) answer(a answer) any {
	t := textAnswer{ID: "cmpl-" + a.ID, Object: "text_completion", Created: a.Created, Model: a.Model, Choices: []textChoice{}, Usage: &a.Usage}
	for _, c := range a.Choices {
		choice := textChoice{Index: c.Index, FinishReason: &c.FinishReason}
		if c.Message.Content != nil {
			choice.Text = *c.Message.Content
		}
		if c.Message.Refusal != nil {
			choice.FinishReason = &filtered
		}
		t.Choices = append(t.Choices, choice)
	}
	return t
}

func (s *textShape) event(c chunk) string {
	t := textAnswer{ID: "cmpl-" + c.ID, Object: "text_completion", Created: c.Created, Model: c.Model, Choices: []textChoice{}, Usage: c.Usage}
	for _, d := range c.Choices {
		choice := textChoice{Index: d.Index, FinishReason: d.FinishReason}
		choice.Text, _ = d.Delta["content"].(string)
		if text, _ := d.Delta["refusal"].(string); text != "" {
			s.refused = true
		}
		if s.refused && d.FinishReason != nil {
			choice.FinishReason = &filtered
		}
		t.Choices = append(t.Choices, choice)
	}
	data, _ := json.Marshal(t) // plain values
	return "data: " + string(data) + "\n\n"
}

func (*textShape) end() string { return "data: [DONE]\n\n" }

// vectorShape is that of embeddings, which are the same for the same input.
type vectorShape struct{ inputs []string }

// dimensions of an embedding.
const dimensions = 8

func (v *vectorShape) parse(body []byte) (chatRequest, string) {
	var r struct {
		Model string          `json:"model"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return chatRequest{}, "the body is not the JSON of a request"
	}
	req := chatRequest{Model: r.Model}
	if v.inputs = inputs(r.Input); len(v.inputs) == 0 {
		return req, "Missing required parameter: 'input'."
	}
	for _, text := range v.inputs {
		req.Messages = append(req.Messages, user(text))
	}
	return req, req.problem()
}

func (v *vectorShape) answer(a answer) any {
	type vector struct {
		Object    string    `json:"object"`
		Embedding []float64 `json:"embedding"`
		Index     int       `json:"index"`
	}
	all := []vector{}
	for i, text := range v.inputs {
		if len(a.Choices) > 0 { // else a fault left them out
			all = append(all, vector{"embedding", embed(text), i})
		}
	}
	return map[string]any{
		"object": "list", "data": all, "model": a.Model,
		"usage": map[string]int{"prompt_tokens": a.Usage.PromptTokens, "total_tokens": a.Usage.PromptTokens},
	}
}

// embed is the embedding of a text.
func embed(text string) []float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	chance := rand.New(rand.NewPCG(h.Sum64(), 0))
	v := make([]float64, dimensions)
	for i := range v {
		v[i] = chance.Float64()*2 - 1
	}
	return v
}

func (*vectorShape) event(chunk) string { return "" } // never streamed
func (*vectorShape) end() string        { return "" }
