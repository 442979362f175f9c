package provider

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// streamedRequest is a request whose silence is limited, but for longer than
// any test takes.
func streamedRequest() Request {
	r := request()
	r.FirstToken, r.Idle = patient, patient
	return r
}

// say makes a handler that sends a text as an event stream.
func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
}

// chunks makes a stream of the choices of each chunk.
func chunks(choices ...string) string {
	var b strings.Builder
	for _, c := range choices {
		b.WriteString(`data: {"id":"x","object":"chat.completion.chunk","created":7,"model":"m","choices":[` + c + "]}\n\n")
	}
	return b.String()
}

const done = "data: [DONE]\n\n"

// whole is an answer of one choice with a message.
func whole(message, finish string) string {
	return `{"id":"x","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":` + message +
		`,"logprobs":null,"finish_reason":` + finish + `}]}`
}

// TestStreams puts streams together as servers send them. What is not a text
// is the whole body.
func TestStreams(t *testing.T) {
	hi := whole(`{"role":"assistant","content":"hi","refusal":null}`, `"stop"`)
	tests := map[string]struct{ stream, want string }{
		"no [DONE], but an end of the choice": {chunks(`{"index":0,"delta":{"content":"hi"}}`, `{"index":0,"delta":{},"finish_reason":"stop"}`), hi},
		"no empty lines, no end of the last line": {
			strings.ReplaceAll(strings.TrimRight(chunks(`{"index":0,"delta":{"content":"h"}}`, `{"index":0,"delta":{"content":"i"},"finish_reason":"stop"}`), "\n"), "\n\n", "\n"), hi,
		},
		"[DONE] at its word":                   {chunks(`{"index":0,"delta":{"content":"hi"}}`) + done, whole(`{"role":"assistant","content":"hi","refusal":null}`, "null")},
		"no JSON after the end of the choice":  {chunks(`{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}`) + "data: upstream closed\n\n", hi},
		"an error after the end of the choice": {chunks(`{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}`) + "data: {\"error\":{\"message\":\"late\"}}\n\n", hi},
		"no index":                             {chunks(`{"delta":{"content":"h"}}`, `{"delta":{"content":"i"},"finish_reason":"stop"}`) + done, hi},
		"the role again and again": {
			chunks(`{"index":0,"delta":{"role":"assistant","content":"h"}}`, `{"index":0,"delta":{"role":"assistant","content":"i"}}`, `{"index":0,"delta":{"role":"","content":null},"finish_reason":"stop"}`) + done, hi,
		},
		"a message in place of deltas":    {chunks(`{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}`) + done, hi},
		"a message beside deltas":         {chunks(`{"index":0,"delta":{"content":"hi"}}`, `{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}`) + done, hi},
		"padding":                         {strings.ReplaceAll(chunks(`{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}`), `"id"`, `"obfuscation":"xyz","id"`) + done, hi},
		"a character between two chunks":  {chunks("{\"delta\":{\"content\":\"\xf0\x9f\"}}", "{\"delta\":{\"content\":\"\x98\x80\"},\"finish_reason\":\"stop\"}") + done, whole(`{"role":"assistant","content":"😀","refusal":null}`, `"stop"`)},
		"surrogates between two chunks":   {chunks(`{"delta":{"content":"\ud83d"}}`, `{"delta":{"content":"\ude00"},"finish_reason":"stop"}`) + done, whole(`{"role":"assistant","content":"😀","refusal":null}`, `"stop"`)},
		"choices out of order":            {chunks(`{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}`, `{"index":0,"delta":{"content":"a"},"finish_reason":"length"}`) + done, `{"id":"x","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"length"},{"index":1,"message":{"role":"assistant","content":"b","refusal":null},"logprobs":null,"finish_reason":"stop"}]}`},
		"fields that nobody knows":        {chunks(`{"delta":{"content":"hi","x":"a","n":1,"l":[1]}}`, `{"delta":{"x":"b","n":2,"l":[2]},"finish_reason":"stop"}`) + done, whole(`{"role":"assistant","content":"hi","refusal":null,"x":"ab","n":2,"l":[1,2]}`, `"stop"`)},
		"DeepSeek's thoughts":             {chunks(`{"delta":{"role":"assistant","content":null,"reasoning_content":"a"}}`, `{"delta":{"content":null,"reasoning_content":"b"}}`, `{"delta":{"content":"hi","reasoning_content":null},"finish_reason":"stop"}`) + done, whole(`{"role":"assistant","content":"hi","refusal":null,"reasoning_content":"ab"}`, `"stop"`)},
		"OpenRouter's thoughts":           {": OPENROUTER PROCESSING\n\n" + chunks(`{"delta":{"role":"assistant","content":"","reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","format":"f","index":0}]}}`, `{"delta":{"content":"","reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","format":"f","index":0}]}}`, `{"delta":{"content":"","reasoning_details":[{"type":"reasoning.text","signature":"s","index":0}]}}`, `{"delta":{"content":"hi"},"finish_reason":"stop"}`) + done, whole(`{"role":"assistant","content":"hi","refusal":null,"reasoning":"ab","reasoning_details":[{"type":"reasoning.text","text":"ab","format":"f","index":0,"signature":"s"}]}`, `"stop"`)},
		"Mistral's thoughts":              {chunks(`{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}}`, `{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]}]}}`, `{"delta":{"content":"h"}}`, `{"delta":{"content":"i"},"finish_reason":"stop"}`) + done, whole(`{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"ab"}]},{"type":"text","text":"hi"}],"refusal":null}`, `"stop"`)},
		"the older form of a call":        {chunks(`{"delta":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}}}`, `{"delta":{"function_call":{"arguments":"{}"}}}`, `{"delta":{},"finish_reason":"function_call"}`) + done, whole(`{"role":"assistant","content":null,"refusal":null,"function_call":{"name":"f","arguments":"{}"}}`, `"function_call"`)},
		"two calls in turns":              {chunks(`{"delta":{"content":"","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}},{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{"}}]}}`, `{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}}`, `{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"[]"}}]},"finish_reason":"tool_calls"}`) + done, whole(`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"[]"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`, `"tool_calls"`)},
		"Gemini's calls, all of index 0":  {chunks(`{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}}`, `{"delta":{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"f","arguments":"[]"}}]},"finish_reason":"tool_calls"}`) + done, whole(`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"[]"}}]}`, `"tool_calls"`)},
		"calls of one index without IDs":  {chunks(`{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"{\"n\":"}}]}}`, `{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"{}}"}}]}}`, `{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}`) + done, whole(`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"","type":"function","function":{"name":"f","arguments":"{\"n\":{}}"}},{"id":"","type":"function","function":{"name":"g","arguments":"{}"}}]}`, `"tool_calls"`)},
		"calls without index":             {chunks(`{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}}`, `{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}`, `{"delta":{"tool_calls":[{"id":"b","function":{"name":"g"}}]},"finish_reason":"tool_calls"}`) + done, whole(`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":""}}]}`, `"tool_calls"`)},
		"ID and name with every piece":    {chunks(`{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]}}`, `{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"}"}}]},"finish_reason":"tool_calls"}`) + done, whole(`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`)},
		"text beside a call":              {chunks(`{"delta":{"content":"hi","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}`) + done, whole(`{"role":"assistant","content":"hi","refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`)},
		"a thing that fell silent at end": {chunks(`{"delta":{"content":""},"finish_reason":"length"}`) + done, whole(`{"role":"assistant","content":"","refusal":null}`, `"length"`)},
		"a whole answer as JSON":          {okBody, okBody},
		"JSON after keep-alives":          {"\n\n\n" + okBody, okBody},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			answer, err := serve(t, say(tt.stream)).Call(t.Context(), streamedRequest())
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if json.Unmarshal(answer.Body, &got) != nil || json.Unmarshal([]byte(tt.want), &want) != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got  %s\nwant %s", answer.Body, tt.want)
			}
		})
	}
}

// TestCase15_41_StreamsThatAreNoAnswer covers streams that die and streams that
// say why: none is a success, and what the provider said is kept.
func TestCase15_41_StreamsThatAreNoAnswer(t *testing.T) {
	begun := chunks(`{"index":0,"delta":{"role":"assistant","content":"half"}}`)
	tests := map[string]struct {
		stream string
		kind   Kind
		says   string // in what is kept
	}{
		"nothing at all":               {"", Unavailable, ""},
		"[DONE] at once":               {done, Unavailable, `"choices":[]`},
		"comments alone":               {": keep-alive\n\n: keep-alive\n\n", Unavailable, ""},
		"an end in the middle":         {begun, Unavailable, "half"},
		"an end of one of two choices": {chunks(`{"index":0,"delta":{"content":"half"},"finish_reason":"stop"}`, `{"index":1,"delta":{"content":"h"}}`) + done, Unavailable, "half"},
		"no text":                      {chunks(`{"index":0,"delta":{"role":"assistant","content":""}}`, `{"index":0,"delta":{},"finish_reason":"stop"}`) + done, Unavailable, `"content":""`},
		"a refusal":                    {chunks(`{"index":0,"delta":{"content":"","refusal":"I cannot"}}`, `{"index":0,"delta":{"refusal":" do this"},"finish_reason":"stop"}`) + done, ContentFiltered, `"I cannot do this"`},
		"a filter":                     {begun + chunks(`{"index":0,"delta":{},"finish_reason":"content_filter"}`) + done, OK, ""},
		"a filter before all text":     {chunks(`{"index":0,"delta":{},"finish_reason":"content_filter"}`) + done, ContentFiltered, "content_filter"},
		"not JSON":                     {begun + "data: Internal Server Error\n\n", Unavailable, "Internal Server Error"},
		"half a chunk":                 {begun + `data: {"choices":[`, Unavailable, `{"choices":[`},
		"OpenAI's error":               {begun + "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n" + done, Unavailable, "The server had an error"},
		"a limit within the stream":    {`data: {"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}` + "\n\n", RateLimited, "Rate limit reached"},
		"too long, within the stream":  {`data: {"error":{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}}` + "\n\n" + done, ContextExceeded, "4096"},
		"vLLM's older error":           {begun + `data: {"object":"error","message":"EngineCore died","type":"InternalServerError","param":null,"code":500}` + "\n\n" + done, Unavailable, "EngineCore died"},
		"an error without words":       {begun + `data: {"object":"error","code":503}` + "\n\n", Unavailable, `"object":"error"`},
		"Ollama's error":               {begun + `data: {"error":"llama runner process has terminated"}` + "\n\n", Unavailable, "llama runner"},
		"TGI's error":                  {begun + `data: {"error":"Request failed during generation","error_type":"generation"}` + "\n\n", Unavailable, "during generation"},
		"llama.cpp's error":            {begun + `data: {"error":{"code":500,"message":"context shift is disabled","type":"server_error"}}` + "\n\n", Unavailable, "context shift"},
		"llama.cpp's older error":      {begun + `error: {"code":500,"message":"slot unavailable","type":"server_error"}` + "\n\n", Unavailable, "slot unavailable"},
		"an event called error":        {begun + "event: error\ndata: {\"message\":\"upstream timed out\"}\n\n", Unavailable, "upstream timed out"},
		"an error in words":            {begun + "event: error\ndata: overloaded\n\n", Unavailable, "overloaded"},
		"a detail in place of choices": {`data: {"detail":"worker lost"}` + "\n\n", Unavailable, "worker lost"},
		"OpenRouter's error":           {begun + chunks(`{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"Provider disconnected"}}`) + done, Unavailable, "Provider disconnected"},
		"plain JSON that says no":      {`{"error":{"message":"no capacity","type":"server_error"}}`, Unavailable, "no capacity"},
		"a page":                       {"<!DOCTYPE html><html><body>Maintenance</body></html>", Unavailable, "Maintenance"},
		"a text":                       {"upstream connect error or disconnect/reset before headers", Unavailable, "upstream connect error"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := serve(t, say(tt.stream))
			if tt.kind == OK {
				if _, err := a.Call(t.Context(), streamedRequest()); err != nil {
					t.Error(err)
				}
				return
			}
			e := refusal(t, a, t.Context(), streamedRequest())
			if e.Kind != tt.kind || e.StatusCode != 200 || !strings.Contains(string(e.Body), tt.says) || strings.Contains(e.Message, tt.says) && tt.says != "" {
				t.Errorf("got %v, body %s", e, e.Body)
			}
		})
	}
}

func TestCase41_AStreamRefusedInPlainJSON(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":{"message":"messages must not be empty","type":"invalid_request_error","param":"messages","code":null}}`)
	})
	e := refusal(t, a, t.Context(), streamedRequest())
	if e.Kind != InvalidRequest || e.StatusCode != 400 || !strings.Contains(string(e.Body), "messages must not be empty") {
		t.Errorf("got %v, body %s", e, e.Body)
	}
}

func TestTheCorpusMeansTheSameToAStream(t *testing.T) {
	all := corpus(t)
	delete(all, "proxy_200_events") // a stream that was not asked for
	for name, e := range all {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for k, v := range e.Headers {
				w.Header().Set(k, v)
			}
			w.WriteHeader(e.Status)
			_, _ = w.Write(e.body())
		})
		answer, err := a.Call(t.Context(), e.ask(streamedRequest()))
		if (err == nil) != (e.Want.Kind == OK) || err == nil && answer.FirstToken != 0 {
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
		if err != nil && refusal(t, a, t.Context(), e.ask(streamedRequest())).Kind != e.Want.Kind {
			t.Errorf("%s: %v, want %s", name, err, e.Want.Kind)
		}
	}
}

// A server that does not end a stream is waited for no longer than a token, and
// the answer counts if it is whole: with as many choices as were asked for.
func TestAWholeAnswerWithoutAnEnd(t *testing.T) {
	first := chunks(`{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}`)
	for _, tt := range []struct {
		stream, fields string
		want           Kind
	}{
		{first, ``, OK},
		{first, `,"n":1`, OK},
		{first, `,"n":2`, Timeout},
		{first + chunks(`{"index":1,"delta":{"content":"hi"},"finish_reason":"stop"}`), `,"n":2`, OK},
		{first + chunks(`{"index":1,"delta":{"content":"hi"}}`), `,"n":2`, Timeout},
	} {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			say(tt.stream)(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		r := streamedRequest()
		r.Body, r.Idle = []byte(`{"messages":[]`+tt.fields+`}`), 50*time.Millisecond
		answer, err := a.Call(t.Context(), r)
		got := OK
		if err != nil {
			got = refusal(t, a, t.Context(), r).Kind
		}
		if got != tt.want {
			t.Errorf("%s after %s: %s, %s", tt.fields, tt.stream, got, answer.Body)
		}
	}
}

// [DONE] is the end, whether or not the server closes the stream.
func TestAStreamThatStaysOpenIsNotWaitedFor(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		say(chunks(`{"delta":{"content":"hi"},"finish_reason":"stop"}`)+done)(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if answer, err := a.Call(t.Context(), streamedRequest()); err != nil || answer.FinishReason != "stop" {
		t.Errorf("got %+v, %v", answer, err)
	}
}

func TestAStreamsConnectionIsUsedAgain(t *testing.T) {
	seen := map[string]bool{}
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen[r.RemoteAddr] = true
		say(chunks(`{"delta":{"content":"hi"},"finish_reason":"stop"}`)+done)(w, r)
	})
	for range 5 {
		if _, err := a.Call(t.Context(), streamedRequest()); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 1 {
		t.Errorf("%d connections for calls in turn", len(seen))
	}
}

func TestStreamTellsItsFirstToken(t *testing.T) {
	a := serve(t, say(chunks(`{"delta":{"content":"hi"},"finish_reason":"stop"}`)+done))
	answer, err := a.Call(context.Background(), streamedRequest())
	if err != nil || answer.FirstToken <= 0 || answer.FirstToken > time.Minute {
		t.Errorf("got %+v, %v", answer, err)
	}
}
