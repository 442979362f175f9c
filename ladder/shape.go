package ladder

import (
	"encoding/json"
	"fmt"
	"time"

	"nightshift/provider"
)

// completion is a text in the shape of a completion, of a chat or of a text.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	} `json:"usage"`
}

type choice struct {
	Index        int             `json:"index"`
	Message      *spoken         `json:"message,omitempty"`
	Text         *string         `json:"text,omitempty"`
	LogProbs     json.RawMessage `json:"logprobs,omitempty"`
	FinishReason string          `json:"finish_reason"`
}

type spoken struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// response is a text in the shape of a response of the Responses API. What the
// API says of a request is left at its least: nobody was asked.
type response struct {
	ID                string         `json:"id"`
	Object            string         `json:"object"`
	CreatedAt         int64          `json:"created_at"`
	Status            string         `json:"status"`
	Error             *struct{}      `json:"error"`
	IncompleteDetails *struct{}      `json:"incomplete_details"`
	Instructions      *struct{}      `json:"instructions"`
	Metadata          map[string]any `json:"metadata"`
	Model             string         `json:"model"`
	Output            []outputItem   `json:"output"`
	ParallelToolCalls bool           `json:"parallel_tool_calls"`
	Temperature       *struct{}      `json:"temperature"`
	ToolChoice        string         `json:"tool_choice"`
	Tools             []struct{}     `json:"tools"`
	TopP              *struct{}      `json:"top_p"`
	Usage             struct {
		Input         int            `json:"input_tokens"`
		InputDetails  map[string]int `json:"input_tokens_details"`
		Output        int            `json:"output_tokens"`
		OutputDetails map[string]int `json:"output_tokens_details"`
		Total         int            `json:"total_tokens"`
	} `json:"usage"`
}

type outputItem struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Status  string       `json:"status"`
	Role    string       `json:"role"`
	Content []outputPart `json:"content"`
}

type outputPart struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
}

// textAnswer is the answer of a text rung, in the shape of the line's endpoint:
// no call, no cost, always degraded.
func textAnswer(r *rung, line Request, text string, now time.Time) (Answer, error) {
	id := fmt.Sprintf("nightshift-%s:%d.%d", line.Batch, line.Line, line.Generation)
	body, err := encode(textBody(line, id, text, now.Unix()))
	if err != nil {
		return Answer{}, fmt.Errorf("encode text: %w", err)
	}
	return Answer{
		Response: Response{StatusCode: 200, RequestID: id, Body: body},
		Provider: textProvider, Model: TextModel, Rung: r.index, Degraded: true,
	}, nil
}

func textBody(line Request, id, text string, now int64) any {
	switch line.Endpoint {
	case provider.Completions:
		c := completion{ID: id, Object: "text_completion", Created: now, Model: TextModel}
		for i := range promptsOf(line.Body) { // each prompt has an answer
			c.Choices = append(c.Choices, choice{Index: i, Text: &text, LogProbs: json.RawMessage("null"), FinishReason: "stop"})
		}
		return c
	case provider.Responses:
		return textResponse(id, text, now)
	}
	return completion{
		ID: id, Object: "chat.completion", Created: now, Model: TextModel,
		Choices: []choice{{Message: &spoken{"assistant", text}, FinishReason: "stop"}},
	}
}

func promptsOf(body json.RawMessage) []json.RawMessage {
	var b struct {
		Prompt json.RawMessage `json:"prompt"`
	}
	_ = json.Unmarshal(body, &b) // it was read when the line was submitted
	return inputsOf(b.Prompt)
}

func textResponse(id, text string, now int64) response {
	r := response{
		ID: id, Object: "response", CreatedAt: now, Status: "completed", Metadata: map[string]any{}, Model: TextModel,
		ToolChoice: "auto", Tools: []struct{}{},
		Output: []outputItem{{
			ID: id, Type: "message", Status: "completed", Role: "assistant",
			Content: []outputPart{{Type: "output_text", Text: text, Annotations: []struct{}{}}},
		}},
	}
	r.Usage.InputDetails = map[string]int{"cached_tokens": 0}
	r.Usage.OutputDetails = map[string]int{"reasoning_tokens": 0}
	return r
}
