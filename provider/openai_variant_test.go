package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// picky is a server that refuses what it does not take, and notes what it got.
type picky struct {
	refuse func(body string) (status int, refusal string) // 0: it takes it
	got    []string
	keys   []string
}

func (p *picky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.got = append(p.got, string(body))
	p.keys = append(p.keys, r.Header.Get("Idempotency-Key"))
	if status, refusal := p.refuse(string(body)); status != 0 {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, refusal)
		return
	}
	if strings.Contains(string(body), `"stream":true`) {
		say(chunks(`{"delta":{"content":"hi"},"finish_reason":"stop"}`)+done)(w, r)
		return
	}
	_, _ = io.WriteString(w, okBody)
}

// refuses makes a server that refuses bodies with a text in them.
func refuses(what string, status int, with string) *picky {
	return &picky{refuse: func(body string) (int, string) {
		if strings.Contains(body, what) {
			return status, with
		}
		return 0, ""
	}}
}

func oaiError(message, param, code string) string {
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": param, "code": code}})
	return string(b)
}

const (
	streamTrue = `"stream":true`
	askUsage   = `"stream_options":{"include_usage":true}`
)

// Refusals as servers send them, and the ways in which the request goes out
// then: as a stream with usage, a bare one, or plainly.
func TestWhatAServerRefusesIsSentAnotherWay(t *testing.T) {
	tests := map[string]struct {
		server *picky
		want   []mode
	}{
		"OpenAI, a model that does not stream":        {refuses(streamTrue, 400, oaiError("Unsupported value: 'stream' does not support true with this model. Only the default (false) value is supported.", "stream", "unsupported_value")), []mode{withUsage, plain}},
		"OpenAI, an organization that may not stream": {refuses(streamTrue, 400, oaiError("Your organization must be verified to stream this model. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization.", "stream", "unsupported_value")), []mode{withUsage, plain}},
		"Azure, an older API":                         {refuses("stream_options", 400, `{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error","param":null,"code":null}}`), []mode{withUsage, bare}},
		"FastAPI":                                     {refuses("stream_options", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted","input":{"include_usage":true}}]}`), []mode{withUsage, bare}},
		"Go's JSON":                                   {refuses("stream_options", 400, `{"error_code":"BAD_REQUEST","message":"Bad request: json: unknown field \"stream_options\"\n"}`), []mode{withUsage, bare}},
		"LiteLLM":                                     {refuses("stream_options", 400, `{"error":{"message":"litellm.UnsupportedParamsError: bedrock does not support parameters: ['stream_options'], for model=x.","type":"None","param":null,"code":"400"}}`), []mode{withUsage, bare}},
		"one that takes neither": {&picky{refuse: func(body string) (int, string) {
			switch {
			case strings.Contains(body, "stream_options"):
				return 400, oaiError("unknown parameter stream_options", "", "")
			case strings.Contains(body, streamTrue):
				return 400, oaiError("Streaming is not supported.", "", "")
			}
			return 0, ""
		}}, []mode{withUsage, bare, plain}},
		"llama.cpp, with tools":        {refuses(streamTrue, 500, `{"error":{"code":500,"message":"Cannot use tools with stream","type":"server_error"}}`), []mode{withUsage, plain}},
		"Bedrock":                      {refuses(streamTrue, 400, `{"message":"The model is unsupported for streaming."}`), []mode{withUsage, plain}},
		"a gateway in words":           {refuses(streamTrue, 404, `{"error":"this deployment doesn't support streaming"}`), []mode{withUsage, plain}},
		"a gateway, not implemented":   {refuses(streamTrue, 501, `{"error":{"message":"stream mode is not supported"}}`), []mode{withUsage, plain}},
		"a refusal of something else":  {refuses(streamTrue, 400, oaiError("messages: the stream of thought is too odd", "messages", "")), []mode{withUsage}},
		"a refusal that may have cost": {refuses(streamTrue, 429, oaiError("streaming is not supported at this rate", "", "")), []mode{withUsage}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := serve(t, tt.server.ServeHTTP)
			_, err := a.Call(t.Context(), streamedRequest())
			var got []mode
			for _, body := range tt.server.got {
				got = append(got, modeOf(body))
			}
			if !slices.Equal(got, tt.want) || (err == nil) != (len(tt.want) > 1) {
				t.Errorf("sent %v, want %v: %v", tt.server.got, tt.want, err)
			}
			// What it took is remembered, for calls of all kinds.
			tt.server.got = nil
			_, _ = a.Call(t.Context(), streamedRequest())
			if len(tt.server.got) != 1 || modeOf(tt.server.got[0]) != tt.want[len(tt.want)-1] {
				t.Errorf("the next time: %v", tt.server.got)
			}
		})
	}
}

func modeOf(body string) mode {
	switch {
	case strings.Contains(body, streamTrue) && strings.Contains(body, askUsage):
		return withUsage
	case strings.Contains(body, streamTrue) && !strings.Contains(body, "stream_options"):
		return bare
	default:
		return plain
	}
}

func TestALessonIsOfItsModelAndForgotten(t *testing.T) {
	s := refuses(streamTrue, 400, oaiError("Streaming is not supported.", "", ""))
	a := serve(t, s.ServeHTTP)
	now := noon
	a.lessons.now = func() time.Time { return now }
	sent := func(model string) int {
		s.got = nil
		r := streamedRequest()
		r.Model = model
		if _, err := a.Call(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return len(s.got)
	}
	for i, want := range []struct {
		model string
		sent  int
	}{{"m", 2}, {"m", 1}, {"other", 2}, {"other", 1}, {"m", 1}} {
		if n := sent(want.model); n != want.sent {
			t.Errorf("%d: %d requests, want %d", i, n, want.sent)
		}
	}
	now = now.Add(lessonTime)
	if n := sent("m"); n != 2 {
		t.Errorf("%d requests after an hour, want 2", n)
	}
	for i := range 2 * maxLessons {
		a.lessons.learn(subject{endpoint: "e", model: fmt.Sprint(i)}, variant{}, &parcel{})
	}
	if n := len(a.lessons.all); n > maxLessons {
		t.Errorf("%d lessons are kept", n)
	}
}

// What was forgotten does not come back with what is learnt later.
func TestANewLessonDoesNotRenewAForgottenOne(t *testing.T) {
	now := noon
	l := &lessons{now: func() time.Time { return now }, all: map[subject]lesson{}}
	s := subject{endpoint: "e", model: "m"}
	stream := parcelOf(t, `{"max_tokens":1}`, patient)
	l.learn(s, variant{mode: plain}, stream)
	now = now.Add(lessonTime)
	l.learn(s, variant{mode: asItCame, renamed: true}, parcelOf(t, `{"max_tokens":1}`, 0))
	if got := l.recall(s, stream); got != (variant{renamed: true}) {
		t.Errorf("recalled %+v", got)
	}
}

func parcelOf(t *testing.T, body string, idle time.Duration) *parcel {
	t.Helper()
	p, err := newParcel(Request{Endpoint: "/v1/chat/completions", Body: []byte(body), Idle: idle})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Some servers refuse to stream only what asks for tools or for JSON, and a
// line's own stream options are its own fault: neither says anything about the
// other lines of the model.
func TestALessonIsOfRequestsOfItsKind(t *testing.T) {
	const cannot = "Cannot use tools with stream"
	for name, tt := range map[string]struct {
		server *picky
		taught string // the fields of the line that teaches
		same   mode   // of the next one like it
	}{
		"tools":              {refuses(`"tools"`, 500, oaiError(cannot, "", "")), `,"tools":[{}]`, plain},
		"JSON":               {refuses(`"response_format"`, 400, oaiError("response_format does not support streaming", "", "")), `,"response_format":{"type":"json_object"}`, plain},
		"own stream options": {refuses(`"odd"`, 400, oaiError("Unknown parameter: 'stream_options.odd'", "stream_options.odd", "unknown_parameter")), `,"stream_options":{"odd":1}`, withUsage},
	} {
		t.Run(name, func(t *testing.T) {
			inner := tt.server.refuse
			tt.server.refuse = func(body string) (int, string) {
				if !strings.Contains(body, streamTrue) {
					return 0, ""
				}
				return inner(body)
			}
			a := serve(t, tt.server.ServeHTTP)
			for i, fields := range []string{tt.taught, "", tt.taught} {
				tt.server.got = nil
				r := streamedRequest()
				r.Body = []byte(`{"messages":[]` + fields + `}`)
				if _, err := a.Call(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				first := modeOf(strings.Replace(tt.server.got[0], `"odd":1,`, "", 1))
				if want := []mode{withUsage, withUsage, tt.same}[i]; first != want {
					t.Errorf("line %d: sent %q first, want %v", i+1, tt.server.got, want)
				}
			}
		})
	}
}

// A fallback that brings no answer has taught nothing.
func TestAFailedFallbackIsNoLesson(t *testing.T) {
	s := &picky{refuse: func(body string) (int, string) {
		if strings.Contains(body, streamTrue) {
			return 400, oaiError("Streaming is not supported.", "", "")
		}
		return 503, "busy"
	}}
	a := serve(t, s.ServeHTTP)
	for range 2 {
		if e := refusal(t, a, t.Context(), streamedRequest()); e.StatusCode != 503 {
			t.Errorf("got %v", e)
		}
	}
	if len(s.got) != 4 {
		t.Errorf("%d requests, want 4", len(s.got))
	}
}

// A key that comes again with another body is refused by those who honour it.
func TestEachVariantHasItsOwnIdempotencyKey(t *testing.T) {
	s := refuses("stream", 400, oaiError("Streaming is not supported. Unknown parameter: stream_options", "", ""))
	a := serve(t, s.ServeHTTP)
	r := streamedRequest()
	r.IdempotencyKey = "k"
	for range 2 {
		if _, err := a.Call(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(s.keys, []string{"k", "k-bare", "k-plain", "k-plain"}) {
		t.Errorf("keys %q", s.keys)
	}
}

func TestTheTokenLimitGoesByTheNameThatTheModelTakes(t *testing.T) {
	const o1 = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
	tests := map[string]struct {
		server *picky
		body   string
		set    map[string]any
		want   []string
	}{
		"OpenAI's reasoning models": {
			refuses(`"max_tokens"`, 400, oaiError(o1, "max_tokens", "unsupported_parameter")), `{ "max_tokens" : 5.0, "model":"x"}`, nil,
			[]string{`{ "max_tokens" : 5.0, "model":"m"}`, `{ "max_completion_tokens" : 5.0, "model":"m"}`},
		},
		"set by a rung": {
			refuses(`"max_tokens"`, 400, oaiError(o1, "max_tokens", "unsupported_parameter")), `{"model":"x"}`,
			map[string]any{"max_tokens": 7},
			[]string{`{"model":"m","max_tokens":7}`, `{"model":"m","max_completion_tokens":7}`},
		},
		"Azure, an older API": {
			refuses(`"max_completion_tokens"`, 400, `{"error":{"message":"Unrecognized request argument supplied: max_completion_tokens","type":"invalid_request_error","param":null,"code":null}}`),
			`{"max_completion_tokens":5}`, nil,
			[]string{`{"max_completion_tokens":5,"model":"m"}`, `{"max_tokens":5,"model":"m"}`},
		},
		"FastAPI": {
			refuses(`"max_completion_tokens"`, 422, `{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted","input":5}]}`),
			`{"max_completion_tokens":5}`, nil,
			[]string{`{"max_completion_tokens":5,"model":"m"}`, `{"max_tokens":5,"model":"m"}`},
		},
		"both names in the body": {
			refuses(`"max_completion_tokens"`, 422, `{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted","input":5}]}`),
			`{"max_completion_tokens":5,"max_tokens":4}`, nil,
			[]string{`{"max_completion_tokens":5,"max_tokens":4,"model":"m"}`, `{"max_tokens":5,"model":"m"}`},
		},
		"one name in the body, one set": {
			refuses(`"max_completion_tokens"`, 422, `{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted","input":5}]}`),
			`{"max_completion_tokens":5}`,
			map[string]any{"max_tokens": 4},
			[]string{`{"max_completion_tokens":5,"max_tokens":4,"model":"m"}`, `{"max_tokens":5,"model":"m"}`},
		},
		"both refused": {
			refuses(`"max_`, 400, oaiError(o1, "max_tokens", "unsupported_parameter")), `{"max_tokens":5}`, nil,
			[]string{`{"max_tokens":5,"model":"m"}`, `{"max_completion_tokens":5,"model":"m"}`},
		},
		"another parameter": {
			refuses(`"logit_bias"`, 400, oaiError("Unsupported parameter: 'logit_bias' is not supported with this model.", "logit_bias", "unsupported_parameter")),
			`{"max_tokens":5,"logit_bias":{}}`, nil,
			[]string{`{"max_tokens":5,"logit_bias":{},"model":"m"}`},
		},
		"a limit that is too large": {
			refuses(`"max_tokens"`, 400, oaiError("max_tokens is too large: 5. This model supports at most 4 completion tokens.", "max_tokens", "invalid_value")),
			`{"max_tokens":5}`, nil,
			[]string{`{"max_tokens":5,"model":"m"}`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := serve(t, tt.server.ServeHTTP)
			r := request()
			r.Body, r.Set = []byte(tt.body), tt.set
			_, err := a.Call(t.Context(), r)
			if !slices.Equal(tt.server.got, tt.want) {
				t.Errorf("sent %q\nwant %q", tt.server.got, tt.want)
			}
			if err == nil { // it is remembered, and streams are still asked for
				tt.server.got = nil
				r.FirstToken = patient
				if _, err := a.Call(t.Context(), r); err != nil || len(tt.server.got) != 1 || modeOf(tt.server.got[0]) != withUsage {
					t.Errorf("the next time: %q, %v", tt.server.got, err)
				}
			}
		})
	}
}

// Lines of one batch can have either name: what was learnt from one of them must
// not turn the right name of another into the wrong one.
func TestTheNameThatAModelTakesHoldsForBothKindsOfLines(t *testing.T) {
	const o1 = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
	s := refuses(`"max_tokens"`, 400, oaiError(o1, "max_tokens", "unsupported_parameter"))
	a := serve(t, s.ServeHTTP)
	for i, tt := range []struct {
		body string
		sent int
	}{
		{`{"max_tokens":5}`, 2}, {`{"max_completion_tokens":5}`, 1}, {`{}`, 1}, {`{"max_tokens":5}`, 1},
	} {
		s.got = nil
		r := streamedRequest()
		r.Body = []byte(tt.body)
		if _, err := a.Call(t.Context(), r); err != nil || len(s.got) != tt.sent {
			t.Errorf("line %d: sent %q: %v", i+1, s.got, err)
		}
	}
}

func TestOwnStreamOptionsStay(t *testing.T) {
	s := refuses("nothing", 400, "")
	a := serve(t, s.ServeHTTP)
	r := streamedRequest()
	r.Body = []byte(`{"stream": false,"stream_options":{"include_obfuscation":false, "include_usage":false},"n":1.0}`)
	if _, err := a.Call(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if want := `{"stream": true,"stream_options":{"include_obfuscation":false, "include_usage":true},"n":1.0,"model":"m"}`; s.got[0] != want {
		t.Errorf("sent %s\nwant %s", s.got[0], want)
	}
}
