package ladder

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nightshift/provider"
)

// decoded is measure, by decoding the request and counting its texts.
func decoded(endpoint string, body string) *size {
	var c struct {
		Messages                                 json.RawMessage
		Tools, Functions, N, Prompt, Input, Text json.RawMessage
		Format                                   json.RawMessage `json:"response_format"`
		Max                                      json.RawMessage `json:"max_tokens"`
		MaxCompletion                            json.RawMessage `json:"max_completion_tokens"`
		MaxOutput                                json.RawMessage `json:"max_output_tokens"`
		Instructions                             json.RawMessage
	}
	s := &size{endpoint: endpoint}
	if json.Unmarshal([]byte(body), &c) != nil {
		return s
	}
	text := func(raw json.RawMessage) int { return tokens([]byte(inputText(raw))) }
	part := func(raw json.RawMessage, item bool) int {
		var m struct {
			message
			Arguments, Output json.RawMessage
		}
		_ = json.Unmarshal(raw, &m)
		n := perMessage + tokens([]byte(m.text())) + tokens(m.ToolCalls) + tokens(m.FunctionCall)
		if item {
			n += tokens(m.Arguments) + tokens(m.Output)
		}
		return n
	}
	each := func(raw json.RawMessage) {
		for _, one := range inputsOf(raw) {
			var ids []json.RawMessage
			if json.Unmarshal(one, &ids) == nil && len(ids) > 0 {
				s.inputs = append(s.inputs, len(ids))
				continue
			}
			s.inputs = append(s.inputs, text(one))
		}
	}
	switch endpoint {
	case provider.Completions:
		each(c.Prompt)
		s.answer, s.n = number(c.Max), choicesOf(c.N)
	case provider.Embeddings:
		each(c.Input)
	case provider.Responses:
		s.rest, s.answer = tokens(c.Tools)+tokens(c.Text)+text(c.Instructions), number(c.MaxOutput)
		for _, raw := range itemsOf(c.Input) {
			s.messages = append(s.messages, part(raw, true))
		}
	default:
		s.rest, s.n = tokens(c.Tools)+tokens(c.Functions)+tokens(c.Format), choicesOf(c.N)
		var all []json.RawMessage
		if c.Messages != nil && json.Unmarshal(c.Messages, &all) != nil {
			return &size{endpoint: endpoint}
		}
		for _, raw := range all {
			s.messages = append(s.messages, part(raw, false))
		}
		if c.MaxCompletion == nil {
			c.MaxCompletion = c.Max
		}
		s.answer = number(c.MaxCompletion)
	}
	return s
}

// sizeText is what is read of a size.
func sizeText(s *size) string {
	return fmt.Sprint(s.messages, s.rest, s.window(), s.prompt(), max(len(s.inputs), 1), s.answer, max(s.n, 1))
}

var allEndpoints = []string{provider.ChatCompletions, provider.Completions, provider.Embeddings, provider.Responses}

// What is counted where it stands is what would be counted of it decoded.
func TestCountsWithoutDecoding(t *testing.T) {
	texts := rapid.SampledFrom([]string{
		`""`, `"hi"`, `"Привет"`, `"为这款"`, `"😀"`, `"\u043f\u4e3a"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ude00\ud83d\u0061"`,
		`"a\n\t\\\"\/"`, "\"\xff\"", `"\ud83d\n"`, `null`, `7`, `true`, `{}`, `[]`, `["a","bc"]`, `[1,2,3]`, `[[1,2],[3]]`, `[null,"a"]`, `["a",1]`,
		`[{"text":"one"},{"text":"\u4e3a"},{"type":"image_url"},{"text":""}]`, `[{"text":1}]`, `[{"text":null,"text":"x"}]`, `[{"text":"x","text":null}]`, `[null]`,
	})
	fields := rapid.SampledFrom([]string{"content", "role", "tool_calls", "function_call", "arguments", "output", "Content"})
	names := rapid.SampledFrom([]string{
		"prompt", "input", "tools", "functions", "response_format", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "text", "instructions", "PROMPT",
	})
	object := func(rt *rapid.T, names *rapid.Generator[string], more ...string) string {
		for range rapid.IntRange(0, 4).Draw(rt, "fields") {
			more = append(more, fmt.Sprintf("%q: %s", names.Draw(rt, "name"), texts.Draw(rt, "value")))
		}
		return "{" + strings.Join(more, ",") + "}"
	}
	rapid.Check(t, func(rt *rapid.T) {
		var messages []string
		for range rapid.IntRange(0, 3).Draw(rt, "messages") {
			if messages = append(messages, object(rt, fields)); rapid.Bool().Draw(rt, "none") {
				messages = append(messages, texts.Draw(rt, "message"))
			}
		}
		list := "[" + strings.Join(messages, ",") + "]"
		body := object(rt, names, `"messages":`+list, `"input":`+list)
		for _, endpoint := range allEndpoints {
			if got, want := sizeText(measure(endpoint, json.RawMessage(body))), sizeText(decoded(endpoint, body)); got != want {
				rt.Fatalf("%s %s\n%s, want\n%s", endpoint, body, got, want)
			}
		}
	})
}

// A request may be long: it is counted in its place.
func TestALongRequestIsCountedWithoutACopy(t *testing.T) {
	const long = 1 << 20
	text := strings.Repeat(`word \u00fc `, long/11)
	for endpoint, body := range map[string]string{
		provider.ChatCompletions: `{"messages":[{"role":"user","content":"` + text + `"},{"role":"user","content":[{"type":"text","text":"` + text + `"}]}]}`,
		provider.Completions:     `{"prompt":["` + text + `"]}`,
		provider.Responses:       `{"input":[{"role":"user","content":"` + text + `"}],"instructions":"` + text + `"}`,
	} {
		raw := json.RawMessage(body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		measure(endpoint, raw)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > long/10 {
			t.Errorf("%s: %d bytes for a request of %d", endpoint, n, len(body))
		}
	}
}
