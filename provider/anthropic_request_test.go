package provider

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// translations are bodies of both APIs; out lacks model and, where it is the
// default, max_tokens.
var translations = map[string]struct{ in, out string }{
	"a question": {
		`{"messages":[{"role":"user","content":"hi"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
	},
	"limits": {
		`{"messages":[{"role":"user","content":"hi"}],"max_tokens":7,"max_completion_tokens":7,"stop":"END","temperature":0.25,"top_p":0.5,"top_k":40}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":7,"stop_sequences":["END"],"temperature":0.25,"top_p":0.5,"top_k":40}`,
	},
	"stop sequences": {
		`{"messages":[{"role":"user","content":"hi"}],"stop":["a","\n\nb"]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stop_sequences":["a","\n\nb"]}`,
	},
	"no stop sequences": {
		`{"messages":[{"role":"user","content":"hi"}],"stop":[]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
	},
	"what asks for nothing": {
		`{"messages":[{"role":"user","content":"hi"}],"n":1,"logprobs":false,"top_logprobs":0,"logit_bias":{},"frequency_penalty":0,"presence_penalty":0.0,"modalities":["text"],"verbosity":"medium","functions":[],"seed":null,"temperature":1,"top_p":1,"stream":false,"stream_options":{"include_usage":true},"store":true,"metadata":{"k":"v"},"prompt_cache_key":"k","response_format":{"type":"text"},"tool_choice":"auto","parallel_tool_calls":true,"audio":null}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
	},
	"system and developer": {
		`{"messages":[{"role":"system","content":"a"},{"role":"user","content":"hi"},{"role":"developer","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]}]}`,
		`{"system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
	},
	"turns of one role in a row": {
		`{"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]},{"role":"user","content":[{"type":"text","text":"e"}]}]}`,
	},
	"empty and blank content": {
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":""},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"\n"},{"type":"text","text":"c"},{"type":"text","text":""}]},{"role":"assistant","content":null}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b\n"},{"type":"text","text":"c"}]}]}`,
	},
	"an answer to go on with": {
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b \n"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b"}]}]}`,
	},
	"an answer that was refused": {
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"refusal":"no","annotations":[],"reasoning_content":"hm","audio":null,"function_call":null},{"role":"user","content":"b"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"no"}]},{"role":"user","content":[{"type":"text","text":"b"}]}]}`,
	},
	"images and a document": {
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,AAAA","detail":"high"}},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,BBBB"}},{"type":"text","text":"what is it?"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://x.example/a.png"}},{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"BBBB"}},{"type":"text","text":"what is it?"}]}]}`,
	},
	"tools": {
		`{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"number","minimum":1.50}}}}},{"type":"function","function":{"name":"g","strict":false}},{"type":"function","function":{"name":"h","parameters":{"properties":{}}}}],"tool_choice":"required","parallel_tool_calls":false}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"name":"f","description":"d","strict":true,"input_schema":{"type":"object","properties":{"x":{"type":"number","minimum":1.50}}}},{"name":"g","input_schema":{"type":"object","properties":{}}},{"name":"h","input_schema":{"properties":{},"type":"object"}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`,
	},
	"one tool": {
		`{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"tool","name":"f"}}`,
	},
	"no parallel calls": {
		`{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}],"parallel_tool_calls":false}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`,
	},
	"no tool": {
		`{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none","parallel_tool_calls":false}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"none"}}`,
	},
	"calls and their results": {
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"I look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":" {\"x\": 1.50} "}},{"id":"functions.g:0","type":"function","function":{"name":"g","arguments":""}}]},{"role":"tool","tool_call_id":"call_1","content":"one"},{"role":"tool","tool_call_id":"functions.g:0","content":[{"type":"text","text":"two"}]},{"role":"tool","tool_call_id":"call_3","content":""},{"role":"user","content":"and?"}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"call_1","name":"f","input":{"x":1.50}},{"type":"tool_use","id":"functions_g_0","name":"g","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"one"}]},{"type":"tool_result","tool_use_id":"functions_g_0","content":[{"type":"text","text":"two"}]},{"type":"tool_result","tool_use_id":"call_3"},{"type":"text","text":"and?"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]}`,
	},
	"a schema": {
		`{"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"description":"d","schema":{"type":"object","additionalProperties":false}}}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"output_config":{"format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false,"description":"d"}}}}`,
	},
	"an object of no schema": {
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"response_format":{"type":"json_object"}}`,
		`{"system":[{"type":"text","text":"s"},{"type":"text","text":"` + jsonInstruction + `"}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
	},
	"effort, tier and user": {
		`{"messages":[{"role":"user","content":"hi"}],"reasoning_effort":"high","service_tier":"default","user":"u","safety_identifier":"s"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"output_config":{"effort":"high"},"service_tier":"standard_only","metadata":{"user_id":"s"}}`,
	},
	"no reasoning": {
		`{"messages":[{"role":"user","content":"hi"}],"reasoning_effort":"none","service_tier":"auto"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"thinking":{"type":"disabled"},"service_tier":"auto"}`,
	},
	"the API's own": {
		`{"messages":[{"role":"user","content":"hi"}],"thinking":{"type":"enabled","budget_tokens":2000},"cache_control":{"type":"ephemeral"},"inference_geo":"us","speed":"fast"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"thinking":{"type":"enabled","budget_tokens":2000},"cache_control":{"type":"ephemeral"},"inference_geo":"us","speed":"fast"}`,
	},
}

func TestTranslations(t *testing.T) {
	for name, tt := range translations {
		t.Run(name, func(t *testing.T) {
			r := request()
			r.Body = []byte(tt.in)
			m, refused := messagesRequest(r)
			if refused != nil {
				t.Fatal(refused)
			}
			want, err := spliceBody([]byte(tt.out), "m", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(tt.out, "max_tokens") {
				want, _ = spliceBody(want, "", map[string]any{"max_tokens": defaultMaxTokens}, nil)
			}
			if !sameJSON(t, string(m.body), string(want)) {
				t.Errorf("got  %s\nwant %s", m.body, want)
			}
		})
	}
}

// sameJSON compares two texts of JSON, numbers by their digits.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	for text, v := range map[string]*any{a: &x, b: &y} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	return reflect.DeepEqual(x, y) || a == b
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

func withParts(parts string) string { return `"messages":[{"role":"user","content":[` + parts + `]}]` }

// Whatever has no counterpart is refused, by its name, before it is sent.
func TestWhatCannotBeCarriedOverIsRefusedByName(t *testing.T) {
	tests := []struct{ body, field string }{
		{hi + `,"n":2`, "n"},
		{hi + `,"n":"1"`, "n"},
		{hi + `,"logprobs":true`, "logprobs"},
		{hi + `,"top_logprobs":2`, "top_logprobs"},
		{hi + `,"logit_bias":{"50256":-100}`, "logit_bias"},
		{hi + `,"frequency_penalty":0.5`, "frequency_penalty"},
		{hi + `,"presence_penalty":-1`, "presence_penalty"},
		{hi + `,"seed":7`, "seed"},
		{hi + `,"audio":{"voice":"alloy"}`, "audio"},
		{hi + `,"modalities":["text","audio"]`, "modalities"},
		{hi + `,"verbosity":"low"`, "verbosity"},
		{hi + `,"functions":[{"name":"f"}]`, "functions"},
		{hi + `,"function_call":"auto"`, "function_call"},
		{hi + `,"web_search_options":{}`, "web_search_options"},
		{hi + `,"some_new_thing":1`, "some_new_thing"},
		{hi + `,"My secret is 42":1`, "body"},
		{hi + `,"temperature":1.5`, "temperature"},
		{hi + `,"temperature":"hot"`, "temperature"},
		{hi + `,"max_tokens":0`, "max_tokens"},
		{hi + `,"max_tokens":1.5`, "max_tokens"},
		{hi + `,"max_completion_tokens":-1`, "max_completion_tokens"},
		{hi + `,"max_tokens":5,"max_completion_tokens":6`, "max_tokens"},
		{hi + `,"stop":["a"," "]`, "stop"},
		{hi + `,"stop":7`, "stop"},
		{hi + `,"user":7`, "user"},
		{hi + `,"reasoning_effort":"minimal"`, "reasoning_effort"},
		{hi + `,"service_tier":"flex"`, "service_tier"},
		{hi + `,"response_format":{"type":"grammar"}`, "response_format.type"},
		{hi + `,"response_format":{"type":"json_schema"}`, "response_format.type"},
		{hi + `,"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`, "response_format.json_schema.schema"},
		{hi + `,"response_format":"json"`, "response_format"},
		{hi + `,"tools":{}`, "tools"},
		{hi + `,"tools":[{"type":"custom","custom":{}}]`, "tools[0].custom"},
		{hi + `,"tools":[{"type":"web_search"}]`, "tools[0].type"},
		{hi + `,"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`, "tools[0].function.parameters"},
		{hi + `,"tool_choice":"required"`, "tool_choice"},
		{hi + `,"tool_choice":"some"`, "tool_choice"},
		{hi + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{}}`, "tool_choice.allowed_tools"},
		{hi + `,"parallel_tool_calls":"no"`, "parallel_tool_calls"},
		{`"messages":"hi"`, "messages"},
		{`"messages":[]`, "messages"},
		{`"messages":[7]`, "messages[0]"},
		{`"messages":[{"role":"system","content":"s"}]`, "messages"},
		{`"messages":[{"role":"user","content":""}]`, "messages"},
		{`"messages":[{"role":"robot","content":"x"}]`, "messages[0].role"},
		{`"messages":[{"role":"user","content":7}]`, "messages[0].content"},
		{`"messages":[{"role":"user","content":"x","name":"Ann"}]`, "messages[0].name"},
		{`"messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]`, "messages[0].content"},
		{`"messages":[{"role":"assistant","audio":{"id":"a"}}]`, "messages[0].audio"},
		{`"messages":[{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}]`, "messages[0].function_call"},
		{`"messages":[{"role":"tool","content":"x"}]`, "messages[0].tool_call_id"},
		{`"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}]`, "messages[0].tool_calls[0].id"},
		{`"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"custom"}]}]`, "messages[0].tool_calls[0].type"},
		{`"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"[1]"}}]}]`, "messages[0].tool_calls[0].function.arguments"},
		{withParts(`{"type":"input_audio","input_audio":{"data":"x"}}`), "messages[0].content[0].input_audio"},
		{withParts(`{"type":"text","text":"x"},{"type":"video_url"}`), "messages[0].content[1].type"},
		{withParts(`{"type":"image_url","image_url":{"url":"data:image/bmp;base64,AA"}}`), "messages[0].content[0].image_url.url"},
		{withParts(`{"type":"image_url","image_url":{"url":"data:image/png,AA"}}`), "messages[0].content[0].image_url.url"},
		{withParts(`{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}`), "messages[0].content[0].image_url.url"},
		{withParts(`{"type":"file","file":{"file_id":"f"}}`), "messages[0].content[0].file.file_id"},
		{withParts(`{"type":"file","file":{"file_data":"data:text/csv;base64,AA"}}`), "messages[0].content[0].file.file_data"},
	}
	for _, tt := range tests {
		r := request()
		r.Body = []byte(`{` + tt.body + `}`)
		_, e := messagesRequest(r)
		if e == nil {
			t.Errorf("%s: not refused", tt.body)
			continue
		}
		if e.Kind != InvalidRequest || e.Parameter != tt.field || !strings.HasPrefix(e.Message, tt.field+" ") || strings.Contains(e.Error(), "secret") {
			t.Errorf("%s: %s %q: %s; want the field %s", tt.body, e.Kind, e.Parameter, e.Message, tt.field)
		}
	}
}

func TestAnthropicServesChatCompletionsAlone(t *testing.T) {
	r := request()
	r.Endpoint = "/v1/embeddings"
	if _, e := messagesRequest(r); e == nil || e.Kind != InvalidRequest {
		t.Errorf("got %+v", e)
	}
}

// Every text that is more than white space arrives, whole and in its order.
func TestTranslationLosesNoText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var said []string
		text := func(label string) string {
			s := rapid.String().Draw(t, label)
			s = strings.ToValidUTF8(s, "�")
			said = append(said, strings.TrimSpace(s))
			return s
		}
		var list []map[string]any
		for range rapid.IntRange(1, 6).Draw(t, "messages") {
			m := map[string]any{"role": rapid.SampledFrom([]string{"user", "assistant", "tool"}).Draw(t, "role")}
			if m["role"] == "tool" {
				m["tool_call_id"] = "c"
			}
			if rapid.Bool().Draw(t, "one string") {
				m["content"] = text("content")
			} else {
				parts := []any{}
				for range rapid.IntRange(0, 4).Draw(t, "parts") {
					parts = append(parts, map[string]any{"type": "text", "text": text("part")})
				}
				m["content"] = parts
			}
			list = append(list, m)
		}
		body, err := json.Marshal(map[string]any{"messages": list})
		if err != nil {
			t.Fatal(err)
		}
		m, refused := messagesRequest(Request{Endpoint: "/v1/chat/completions", Model: "m", Body: body})
		if refused != nil {
			if refused.Parameter != "messages" || strings.Join(said, "") != "" {
				t.Fatal(refused)
			}
			return
		}
		rest := textsOf(t, m.body)
		for _, s := range said {
			_, after, found := strings.Cut(rest, s)
			if !found {
				t.Fatalf("%q is not in its place in %s, of %s", s, m.body, body)
			}
			rest = after
		}
	})
}

// textsOf returns all texts of a translated request, one after the other.
func textsOf(t *rapid.T, body []byte) string {
	var m messagesBody
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	var add func(blocks []block)
	add = func(blocks []block) {
		for _, b := range blocks {
			if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
				t.Fatalf("a blank text in %s", body)
			}
			all.WriteString(b.Text + "\x00")
			add(b.Content)
		}
	}
	for i, turn := range m.Messages {
		if len(turn.Content) == 0 || i > 0 && m.Messages[i-1].Role == turn.Role {
			t.Fatalf("turn %d of %s", i, body)
		}
		add(turn.Content)
	}
	return all.String()
}

// Whatever the body, the translation is JSON with all that the API demands, or
// a refusal that says something.
func FuzzMessagesRequest(f *testing.F) {
	for _, tt := range translations {
		f.Add([]byte(tt.in))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, e := messagesRequest(Request{Endpoint: "/v1/chat/completions", Model: "m", Body: body})
		if e != nil {
			if e.Kind != InvalidRequest || e.Message == "" || strings.ContainsAny(e.Message, "\n\r") {
				t.Fatalf("%+v", e)
			}
			return
		}
		var out messagesBody
		if err := json.Unmarshal(m.body, &out); err != nil || out.Model != "m" || out.MaxTokens < 1 || len(out.Messages) == 0 {
			t.Fatalf("%v: %s", err, m.body)
		}
	})
}
