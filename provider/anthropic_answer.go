package provider

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// anthropicMessage is what the adapter reads of an answer of the Messages API.
type anthropicMessage struct {
	ID          scalar          `json:"id"`
	Model       scalar          `json:"model"`
	Content     []answerBlock   `json:"content"`
	StopReason  scalar          `json:"stop_reason"`
	StopDetails json.RawMessage `json:"stop_details"`
	Usage       messageUsage    `json:"usage"`
	Error       json.RawMessage `json:"error"`
}

type answerBlock struct {
	Type     scalar          `json:"type"`
	Text     scalar          `json:"text"`
	Thinking scalar          `json:"thinking"`
	ID       scalar          `json:"id"`
	Name     scalar          `json:"name"`
	Input    json.RawMessage `json:"input"`
}

// messageUsage is a usage of the API. A field that is missing stays "", so that
// the usages of a stream's events can be put over each other.
type messageUsage struct {
	Input      scalar `json:"input_tokens"` // without the two below
	CacheWrite scalar `json:"cache_creation_input_tokens"`
	CacheRead  scalar `json:"cache_read_input_tokens"`
	Output     scalar `json:"output_tokens"`
	Details    struct {
		Thinking scalar `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// chatCompletion is an answer in OpenAI's shape.
type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"` // in seconds since 1970
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   chatUsage    `json:"usage"`
}

type chatChoice struct {
	Index        int       `json:"index"`
	Message      chatReply `json:"message"`
	LogProbs     *string   `json:"logprobs"` // always null
	FinishReason string    `json:"finish_reason"`
}

type chatReply struct {
	Role      string         `json:"role"`
	Content   *string        `json:"content"`
	Refusal   *string        `json:"refusal"`
	Reasoning string         `json:"reasoning_content,omitempty"`
	ToolCalls []chatToolCall `json:"tool_calls,omitempty"`
}

type chatToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Input      struct {
		Cached  int64 `json:"cached_tokens"`
		Created int64 `json:"cache_creation_tokens,omitempty"`
	} `json:"prompt_tokens_details"`
	Output struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// readMessage makes an answer in OpenAI's shape or a classified error of a
// response that came whole (a refusal may be cut off).
func readMessage(status int, h http.Header, body []byte, now time.Time) (Answer, *Error) {
	if status < 200 || status > 299 {
		return Answer{}, refuseMessage(status, h, body, Usage{}, now)
	}
	var m anthropicMessage
	err := json.Unmarshal(body, &m)
	if err == nil && !isEmpty(m.Error) {
		return Answer{}, refuseMessage(status, h, body, m.Usage.usage(), now)
	}
	if err != nil || TooDeep(body) || m.Content == nil {
		return Answer{}, unusable(status, h, body, m.Usage.usage(), "the body is not the JSON of an answer")
	}
	return m.answer(status, h, body, now)
}

// answer is the message in OpenAI's shape, judged as an answer of that family
// is. body is what the provider sent, which an error keeps.
func (m anthropicMessage) answer(status int, h http.Header, body []byte, now time.Time) (Answer, *Error) {
	c := m.completion(responseTime(h, now))
	if m.StopReason == "model_context_window_exceeded" && c.Choices[0].Message.empty() {
		e := unusable(status, h, body, m.Usage.usage(), "the context window was full before the answer began")
		e.Kind = ContextExceeded
		return Answer{}, e
	}
	text, err := encodeJSON(c)
	if err != nil {
		return Answer{}, unusable(status, h, body, m.Usage.usage(), "the body is not the JSON of an answer")
	}
	a, e := readResponse(status, h, text, now)
	if e != nil {
		e.Body = kept(body)
	}
	return a, e
}

func (m anthropicMessage) completion(created time.Time) chatCompletion {
	c := chatCompletion{
		ID: m.ID.String(), Object: "chat.completion", Created: created.Unix(), Model: m.Model.String(),
		Choices: []chatChoice{{Message: m.reply(), FinishReason: finishReason(m.StopReason.String())}},
	}
	u := m.Usage.usage()
	c.Usage.Prompt, c.Usage.Completion, c.Usage.Total = u.InputTokens, u.OutputTokens, u.InputTokens+u.OutputTokens
	c.Usage.Input.Cached, c.Usage.Input.Created = u.CachedInputTokens, count(m.Usage.CacheWrite)
	c.Usage.Output.Reasoning = min(u.OutputTokens, count(m.Usage.Details.Thinking))
	return c
}

// usage: the API counts what was read from and written to its cache apart.
func (u messageUsage) usage() Usage {
	cached := count(u.CacheRead)
	return Usage{
		InputTokens:       count(u.Input) + cached + count(u.CacheWrite),
		CachedInputTokens: cached, OutputTokens: count(u.Output),
	}
}

func (m anthropicMessage) reply() chatReply {
	r := chatReply{Role: "assistant"}
	var text, thoughts strings.Builder
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			text.WriteString(b.Text.String())
		case "thinking":
			thoughts.WriteString(b.Thinking.String())
		case "tool_use":
			r.ToolCalls = append(r.ToolCalls, b.call())
		}
	}
	if s := text.String(); s != "" {
		r.Content = &s
	}
	r.Reasoning = thoughts.String()
	if m.StopReason == "refusal" && r.Content == nil {
		s := m.explanation()
		r.Refusal = &s
	}
	return r
}

func (r chatReply) empty() bool { return r.Content == nil && len(r.ToolCalls) == 0 }

// explanation is why the model refuses, as far as it says.
func (m anthropicMessage) explanation() string {
	var d struct {
		Explanation scalar `json:"explanation"`
	}
	_ = json.Unmarshal(m.StopDetails, &d) // what is odd about it leaves ""
	return d.Explanation.String()
}

func (b answerBlock) call() chatToolCall {
	c := chatToolCall{ID: b.ID.String(), Type: "function"}
	c.Function.Name = b.Name.String()
	c.Function.Arguments = arguments(b.Input)
	return c
}

// arguments is the input of a tool as text. That of an answer which was cut off
// is no object: its text is passed on as it is, as OpenAI does.
func arguments(input json.RawMessage) string {
	var compact bytes.Buffer
	var text string
	switch {
	case isEmpty(input):
		return "{}"
	case json.Unmarshal(input, &text) == nil:
		return text
	}
	_ = json.Compact(&compact, input) // it was read as a part of a body, and so is valid
	return compact.String()
}

// finishReason is OpenAI's word for why an answer ended. One that has none
// passes as it is.
func finishReason(stop string) string {
	switch stop {
	case "end_turn", "stop_sequence":
		return "stop"
	case "max_tokens", "model_context_window_exceeded", "pause_turn":
		return "length" // what is there is not the whole
	case "tool_use":
		return "tool_calls"
	case "refusal":
		return "content_filter"
	}
	return stop
}
