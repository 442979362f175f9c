package ladder

import (
	"encoding/json"
	"fmt"
	"testing"

	"nightshift/provider"
)

// responded is a response with items in its output.
func responded(status string, items ...string) string {
	body := `{"status":"` + status + `","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"sk-secret"}]}`
	for _, i := range items {
		body += "," + i
	}
	return body + "]}"
}

func spokenItem(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":%s}]}`, b)
}

func texts(all ...string) string {
	body := `{"object":"text_completion","choices":[`
	for i, text := range all {
		if i > 0 {
			body += ","
		}
		b, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		body += fmt.Sprintf(`{"index":%d,"text":%s,"finish_reason":"stop"}`, i, b)
	}
	return body + "]}"
}

func TestGuard_LooksAtTheTextOfEachEndpoint(t *testing.T) {
	const called = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"n\":4}"}`
	for name, tt := range map[string]struct{ endpoint, answer, output, code string }{
		"a text":                {provider.Completions, texts(`{"n":1}`), `{"n":1}`, ""},
		"the second text":       {provider.Completions, texts(`no`, "```\n{\"n\":2}\n```"), `{"n":2}`, ""},
		"no JSON":               {provider.Completions, texts(`no`), "", "invalid_output"},
		"denied":                {provider.Completions, texts(`{"n":1}`, `sk-abc`), "", "invalid_output"},
		"a response":            {provider.Responses, responded("completed", spokenItem(`{"n":3}`)), `{"n":3}`, ""},
		"in two messages":       {provider.Responses, responded("completed", spokenItem(`{"n":`), spokenItem(`3}`)), `{"n":3}`, ""},
		"a call":                {provider.Responses, responded("completed", called), `{"n":4}`, ""},
		"a response without":    {provider.Responses, responded("completed", spokenItem("no")), "", "invalid_output"},
		"a response cut off":    {provider.Responses, responded("incomplete", spokenItem(`{"n":3}`)), "", "invalid_output"},
		"a response denied":     {provider.Responses, responded("completed", spokenItem(`{"n":3,"k":"sk-abc"}`)), "", "invalid_output"},
		"a denied call":         {provider.Responses, responded("completed", spokenItem(`{"n":3}`), `{"type":"custom_tool_call","call_id":"c","name":"f","input":"sk-abc"}`), "", "invalid_output"},
		"embeddings have none":  {provider.Embeddings, `{"data":[{"embedding":[1],"note":"sk-abc"}]}`, "", ""},
		"odd items are nothing": {provider.Responses, `{"status":7,"output":[1]}`, "", "invalid_output"},
	} {
		b := setup(t, "a")
		b.says("a", tt.answer)
		out := b.run(b.ladder(guarded(0, anAnswer, []string{"sk-[a-z]"}, "a")), to(tt.endpoint, `{"input":"x","prompt":"x"}`))
		end := Answered
		if tt.code != "" {
			end = Final
		}
		if out.End != end || out.Code != tt.code || string(out.Answer.Output) != tt.output {
			t.Errorf("%s: ended in %d with %q and %s (%s)", name, out.End, out.Code, out.Answer.Output, out.Message)
		}
		if _, told := b.request("a", 0).Set["response_format"]; told {
			t.Errorf("%s: a response_format was sent", name)
		}
	}
}

func TestGuard_ASchemaOfAResponsesOwn(t *testing.T) {
	strict := `{"input":"x","text":{"format":{"type":"json_schema","name":"a","strict":true,"schema":` + anAnswer + `}}}`
	for body, code := range map[string]string{
		strict: "invalid_output",
		`{"input":"x","text":{"format":{"type":"json_schema","name":"a","schema":` + anAnswer + `}}}`: "",
		`{"input":"x","text":{"format":{"type":"text"}}}`:                                             "",
		`{"input":"x"}`: "",
	} {
		b := setup(t, "a")
		b.says("a", responded("completed", spokenItem("no")))
		out := b.run(b.ladder(guarded(0, "", []string{"never"}, "a")), to(provider.Responses, body))
		same(t, body, out.Code, code)
	}
}

// A response is asked for again as a chat is, with items in place of messages.
func TestGuard_RepairsOfAResponse(t *testing.T) {
	const called = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}`
	const custom = `{"type":"custom_tool_call","call_id":"c2","name":"g","input":"x"}`
	for name, tt := range map[string]struct{ body, answer, want string }{
		"a text": {`{"input":"give n"}`, responded("completed", spokenItem("no")), `[{"content":"give n","role":"user"},{"content":"no","role":"assistant"},{"content":"?","role":"user"}]`},
		"items":  {`{"input":[{"role":"user","content":"a"}]}`, responded("completed", spokenItem("no")), `[{"role":"user","content":"a"},{"content":"no","role":"assistant"},{"content":"?","role":"user"}]`},
		"calls": {
			`{"input":"a"}`, responded("completed", called, custom),
			`[{"content":"a","role":"user"},{"arguments":"{}","call_id":"c1","name":"f","type":"function_call"},{"call_id":"c2","input":"x","name":"g","type":"custom_tool_call"},{"call_id":"c1","output":"?","type":"function_call_output"},{"call_id":"c2","output":"?","type":"custom_tool_call_output"}]`,
		},
	} {
		b := setup(t, "a")
		b.says("a", tt.answer, responded("completed", spokenItem(`{"n":1}`)))
		out := b.run(b.ladder(guarded(1, anAnswer, nil, "a")), to(provider.Responses, tt.body))
		wantEnd(t, out, Answered, "")
		same(t, name+": output", string(out.Answer.Output), `{"n":1}`)
		got := b.request("a", 1).Set["input"]
		if _, chat := b.request("a", 1).Set["messages"]; chat {
			t.Errorf("%s: messages were sent", name)
		}
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, withoutReasons(t, raw), withoutReasons(t, []byte(tt.want)))
	}
}

// withoutReasons writes "?" for what a repair says, and the rest in one form.
func withoutReasons(t *testing.T, raw []byte) string {
	t.Helper()
	var items []map[string]any
	if err := json.Unmarshal(raw, &items); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	for _, i := range items {
		for _, field := range []string{"content", "output"} {
			if s, _ := i[field].(string); len(s) > 40 {
				i[field] = "?"
			}
		}
	}
	b, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The completion of a text is no conversation in which it could be asked again.
func TestGuard_ATextIsNotRepaired(t *testing.T) {
	b := setup(t, "a", "b")
	b.says("a", texts("no"))
	b.says("b", texts(`{"n":1}`))
	out := b.run(b.ladder(guarded(3, anAnswer, nil, "a", "b")), to(provider.Completions, `{"prompt":"x"}`))
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, "p/b")
	same(t, "calls of the first", b.calls("a"), 1)
}

func TestCache_KeepsWholeAnswersOfEachEndpoint(t *testing.T) {
	rdb := redisClient(t)
	for name, tt := range map[string]struct {
		endpoint, answer string
		want             bool
	}{
		"a text":           {provider.Completions, texts("hi"), true},
		"a text cut off":   {provider.Completions, `{"choices":[{"text":"h","finish_reason":"length"}]}`, false},
		"embeddings":       {provider.Embeddings, `{"data":[{"embedding":[1]}]}`, true},
		"a response":       {provider.Responses, responded("completed", spokenItem("hi")), true},
		"one cut off":      {provider.Responses, responded("incomplete", spokenItem("h")), false},
		"a chat's answer":  {provider.Responses, whole, false},
		"no chat's answer": {provider.ChatCompletions, `{"data":[{"embedding":[1]}],"status":"completed"}`, false},
	} {
		b := setupCached(t, rdb, "a")
		b.says("a", tt.answer)
		l := b.ladder(kept("a"))
		for _, want := range []bool{false, tt.want} {
			out := b.run(l, to(tt.endpoint, `{"input":"x","prompt":"x","messages":[{"role":"user","content":"x"}]}`))
			wantEnd(t, out, Answered, "")
			same(t, name+": cached", out.Answer.Cached, want)
		}
	}
}

// FuzzEndpointBodies: whatever is read of requests and answers, nothing panics,
// and texts and repairs are JSON.
func FuzzEndpointBodies(f *testing.F) {
	f.Add(`{"prompt":["a",[1]],"input":[{"role":"user","content":[{"text":"a"}]},null,1],"instructions":1,"n":"x"}`)
	f.Add(responded("incomplete", spokenItem("a"), `{"type":"function_call","arguments":"{}"}`))
	f.Add(texts("a", "b"))
	f.Fuzz(func(t *testing.T, body string) {
		for _, endpoint := range provider.Endpoints() {
			SizeOf(endpoint, json.RawMessage(body)).size.window()
			isWhole(endpoint, json.RawMessage(body))
			formatOf(endpoint, []byte(body))
			if b, err := encode(textBody(to(endpoint, body), "id", "text", 1)); err != nil || !json.Valid(b) {
				t.Fatalf("%s: %s, %v", endpoint, b, err)
			}
			choices, err := readAnswer(endpoint, []byte(body))
			if err != nil {
				continue
			}
			for _, c := range choices {
				c.texts()
				if b, err := encode((&fault{message: c.Message}).askItems(nil)); err != nil || !json.Valid(b) {
					t.Fatalf("%s: %s, %v", endpoint, b, err)
				}
			}
		}
	})
}
