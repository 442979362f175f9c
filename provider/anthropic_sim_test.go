package provider_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// simulatedMessages is a simulator and an adapter for its Messages API.
func simulatedMessages(t *testing.T, script sim.Script) (*sim.Server, *provider.Anthropic) {
	t.Helper()
	s := running(t, script, sim.Options{})
	a := provider.NewAnthropic(provider.AnthropicOptions{BaseURL: s.URL()})
	t.Cleanup(a.Close)
	return s, a
}

func chat(model, body string) provider.Request {
	return provider.Request{Endpoint: "/v1/chat/completions", Model: model, Timeout: time.Minute, Body: []byte(body)}
}

// completion is a chat completion as a user of the results reads it.
type completion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int `json:"index"`
		Message struct {
			Role      string  `json:"role"`
			Content   *string `json:"content"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Type     string `json:"type"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
	} `json:"usage"`
}

func ask(t *testing.T, a *provider.Anthropic, r provider.Request) (completion, provider.Answer) {
	t.Helper()
	answer, err := a.Call(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var c completion
	if err := json.Unmarshal(answer.Body, &c); err != nil {
		t.Fatal(err)
	}
	if c.Object != "chat.completion" || c.ID == "" || c.Created < 1_700_000_000 || c.Model != r.Model || len(c.Choices) != 1 ||
		c.Choices[0].Message.Role != "assistant" || c.Usage.Total != c.Usage.Prompt+c.Usage.Completion || c.Usage.Prompt == 0 {
		t.Fatalf("not a chat completion: %s", answer.Body)
	}
	if answer.RequestID == "" || answer.Usage.InputTokens != c.Usage.Prompt || answer.FinishReason != c.Choices[0].FinishReason {
		t.Errorf("got %+v of %s", answer, answer.Body)
	}
	return c, answer
}

func TestRoundTripsThroughTheMessagesAPI(t *testing.T) {
	_, a := simulatedMessages(t, sim.Script{})
	long := strings.Repeat("日本語🎉", 40)
	for name, tt := range map[string]struct{ body, content, finish string }{
		"text":          {`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]}`, "echo: three", "stop"},
		"parts":         {`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"b"}]}]}`, "echo: a b", "stop"},
		"long Unicode":  {`{"messages":[{"role":"user","content":"` + long + `"}]}`, "echo: " + long, "stop"},
		"a tiny limit":  {`{"messages":[{"role":"user","content":"ping"}],"max_tokens":1}`, "echo", "length"},
		"all the knobs": {`{"messages":[{"role":"user","content":"x"}],"stop":["y"],"temperature":0.5,"top_p":0.9,"top_k":3,"user":"u","service_tier":"auto","reasoning_effort":"low","response_format":{"type":"json_object"}}`, "echo: x", "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := ask(t, a, chat("m", tt.body))
			first := c.Choices[0]
			if first.Message.Content == nil || *first.Message.Content != tt.content || first.FinishReason != tt.finish || first.Message.ToolCalls != nil {
				t.Errorf("got %+v", first)
			}
		})
	}
}

func TestToolsThroughTheMessagesAPI(t *testing.T) {
	_, a := simulatedMessages(t, sim.Script{})
	c, _ := ask(t, a, chat("m", `{"messages":[{"role":"user","content":"Köln"}],"tools":[{"type":"function","function":{"name":"weather"}}],"tool_choice":"required"}`))
	first := c.Choices[0]
	if first.FinishReason != "tool_calls" || len(first.Message.ToolCalls) != 1 {
		t.Fatalf("got %+v", first)
	}
	call := first.Message.ToolCalls[0]
	var input struct{ Echo string }
	if call.Type != "function" || call.ID == "" || call.Function.Name != "weather" || json.Unmarshal([]byte(call.Function.Arguments), &input) != nil || !strings.Contains(input.Echo, "Köln") {
		t.Errorf("got %+v", call)
	}
	again, _ := json.Marshal(map[string]any{"messages": []any{
		map[string]any{"role": "user", "content": "Köln"},
		map[string]any{"role": "assistant", "content": nil, "tool_calls": first.Message.ToolCalls},
		map[string]any{"role": "tool", "tool_call_id": call.ID, "content": "sunny"},
		map[string]any{"role": "user", "content": "and tomorrow?"},
	}})
	if c, _ := ask(t, a, chat("m", string(again))); c.Choices[0].Message.Content == nil {
		t.Errorf("got %+v", c)
	}
}

// The simulator's answers and errors are what the API's own SDK takes them for.
func TestSimulatorSpeaksTheMessagesAPI(t *testing.T) {
	s, _ := simulatedMessages(t, sim.Script{Models: map[string]sim.Behaviour{"down": {Faults: []sim.Fault{{Kind: sim.Overloaded}}}}})
	client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithAPIKey("k"),
		option.WithBaseURL(strings.TrimSuffix(s.URL(), "/v1")), option.WithMaxRetries(0))
	params := anthropic.MessageNewParams{
		Model: "m", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
	}
	m, err := client.Messages.New(t.Context(), params)
	if err != nil || len(m.Content) != 1 || m.Content[0].Text != "echo: hello" || m.StopReason != anthropic.StopReasonEndTurn || m.Usage.OutputTokens == 0 {
		t.Errorf("got %+v, %v", m, err)
	}
	params.Model = "down"
	var e *anthropic.Error
	if _, err := client.Messages.New(t.Context(), params); !errors.As(err, &e) || e.Type() != "overloaded_error" || e.StatusCode != 529 || e.RequestID == "" {
		t.Errorf("got %v", err)
	}
}

// What the API refuses the simulator refuses, so that a translation which sends
// it shows.
func TestSimulatorRefusesWhatTheMessagesAPIRefuses(t *testing.T) {
	s, _ := simulatedMessages(t, sim.Script{})
	pinned := provider.NewAnthropic(provider.AnthropicOptions{BaseURL: s.URL(), Headers: map[string]string{"anthropic-version": "2026-10-21"}})
	defer pinned.Close()
	_, err := pinned.Call(t.Context(), chat("m", `{"messages":[{"role":"user","content":"x"}],"temperature":0.2}`))
	var e *provider.Error
	if !errors.As(err, &e) || e.Kind != provider.InvalidRequest || e.Parameter != "temperature" {
		t.Errorf("got %+v", err)
	}
}
