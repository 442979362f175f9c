package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

const okMessage = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}`

// serveMessages starts a server and an Anthropic adapter for it.
func serveMessages(t *testing.T, h http.HandlerFunc, change ...func(*AnthropicOptions)) *Anthropic {
	t.Helper()
	srv := httptest.NewServer(h)
	o := AnthropicOptions{BaseURL: srv.URL}
	for _, c := range change {
		c(&o)
	}
	a := NewAnthropic(o)
	t.Cleanup(func() { a.Close(); srv.Close() })
	return a
}

// sent is what a server got.
type sent struct {
	*http.Request
	body []byte
}

// record answers every call and keeps the last one.
func record(last *sent) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*last = sent{r, body}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, okMessage)
	}
}

func setAnthropicEnvironment(t *testing.T) {
	for _, name := range []string{"API_KEY", "AUTH_TOKEN", "PROFILE", "WEBHOOK_SIGNING_KEY", "WORKSPACE_ID"} {
		t.Setenv("ANTHROPIC_"+name, "leak")
	}
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/leak")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Leak: leak")
	t.Setenv("ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE", "content")
}

func TestAnthropicSendsAMessagesRequest(t *testing.T) {
	setAnthropicEnvironment(t)
	var got sent
	a := serveMessages(t, record(&got), func(o *AnthropicOptions) {
		o.Headers = map[string]string{"X-Team": "night"}
		o.Key = func(context.Context) (string, error) { return "secret\n", nil }
	})
	r := request()
	r.Body = []byte(`{"model":"auto","seed":1,"messages":[{"role":"user","content":"hello <é>"}]}`)
	r.Set = map[string]any{"max_tokens": 60}
	r.Drop = []string{"seed"}
	r.IdempotencyKey = "b:1.0:m:1"
	answer, err := a.Call(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"model":"m","max_tokens":60,"messages":[{"role":"user","content":[{"type":"text","text":"hello <é>"}]}]}`; string(got.body) != want {
		t.Errorf("sent %s\nwant %s", got.body, want)
	}
	if got.Method != "POST" || got.URL.String() != "/v1/messages" {
		t.Errorf("%s %s", got.Method, got.URL)
	}
	wantHeaders(t, got.Header, map[string]string{
		"Authorization": "Bearer secret", "X-Api-Key": "", "X-Team": "night", "User-Agent": "nightshift",
		"Idempotency-Key": "b:1.0:m:1", "Content-Type": "application/json", "Anthropic-Version": "2026-10-21",
	})
	wantNoLeak(t, got.Header)
	if answer.Usage != (Usage{InputTokens: 3, OutputTokens: 1}) || answer.FinishReason != "stop" || answer.StatusCode != 200 {
		t.Errorf("got %+v", answer)
	}
}

func wantNoLeak(t *testing.T, h http.Header) {
	t.Helper()
	for name, values := range h {
		if strings.Contains(strings.Join(values, " "), "leak") {
			t.Errorf("header %s: %q", name, values)
		}
	}
}

// The SDK reads ANTHROPIC_* variables and profiles; nothing of them may reach a
// provider that the configuration gives no key.
func TestAnthropicIgnoresTheEnvironment(t *testing.T) {
	setAnthropicEnvironment(t)
	var got sent
	a := serveMessages(t, record(&got))
	if _, err := a.Call(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	wantHeaders(t, got.Header, map[string]string{"Authorization": "", "X-Api-Key": "", "Traceparent": "", "Idempotency-Key": ""})
	wantNoLeak(t, got.Header)
}

func TestAnthropicTakesABaseURLWithAndWithoutTheVersion(t *testing.T) {
	for suffix, want := range map[string]string{
		"": "/v1/messages", "/": "/v1/messages", "/v1": "/v1/messages", "/v1/": "/v1/messages",
		"/api/anthropic": "/api/anthropic/v1/messages", "/api/anthropic/v1?region=eu": "/api/anthropic/v1/messages?region=eu",
	} {
		var got sent
		a := serveMessages(t, record(&got), func(o *AnthropicOptions) { o.BaseURL += suffix })
		if _, err := a.Call(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
		if got.URL.String() != want {
			t.Errorf("%q: %s, want %s", suffix, got.URL, want)
		}
	}
}

func TestAnthropicWithABrokenBaseURLIsMisconfigured(t *testing.T) {
	for _, base := range []string{"", "api.example.com/v1", "ftp://x", "http://", "http://us\ner:pass@x"} {
		e := refusalOf(t, NewAnthropic(AnthropicOptions{BaseURL: base}), request())
		if e.Kind != Misconfigured || e.Scope != ScopeParent || strings.Contains(e.Error(), "pass") {
			t.Errorf("%q: %+v", base, e)
		}
	}
}

// Sampling parameters need the older version of the API, unless the
// configuration names one.
func TestAnthropicChoosesTheVersionByTheRequest(t *testing.T) {
	tests := []struct{ fields, pinned, want string }{
		{``, "", "2026-10-21"},
		{`"temperature":1,"top_p":1.0,`, "", "2026-10-21"},
		{`"temperature":0.2,`, "", "2023-06-01"},
		{`"top_p":0.9,`, "", "2023-06-01"},
		{`"top_k":5,`, "", "2023-06-01"},
		{`"temperature":0.2,`, "2099-01-01", "2099-01-01"},
		{``, "2023-06-01", "2023-06-01"},
	}
	for _, tt := range tests {
		var got sent
		a := serveMessages(t, record(&got), func(o *AnthropicOptions) {
			if tt.pinned != "" {
				o.Headers = map[string]string{"Anthropic-Version": tt.pinned}
			}
		})
		r := request()
		r.Body = []byte(`{` + tt.fields + `"messages":[{"role":"user","content":"x"}]}`)
		if _, err := a.Call(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if v := got.Header.Values("Anthropic-Version"); len(v) != 1 || v[0] != tt.want {
			t.Errorf("%+v: version %q", tt, v)
		}
	}
}

func TestAnthropicWithoutAUsableKeyIsMisconfigured(t *testing.T) {
	for name, key := range unusableKeys {
		t.Run(name, func(t *testing.T) {
			a := serveMessages(t, func(http.ResponseWriter, *http.Request) { t.Error("a call was sent") },
				func(o *AnthropicOptions) { o.Key = key })
			e := refusalOf(t, a, request())
			if e.Kind != Misconfigured || e.Scope != ScopeParent || strings.Contains(e.Error()+e.Err.Error(), "sk-") {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestAnthropicMakesExactlyOneRequest(t *testing.T) {
	for _, status := range []int{408, 409, 429, 500, 503, 529} {
		var calls atomic.Int64
		a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			w.Header().Set("Retry-After", "0")
			w.Header().Set("X-Should-Retry", "true")
			w.WriteHeader(status)
		})
		if e := refusalOf(t, a, request()); e.StatusCode != status || calls.Load() != 1 {
			t.Errorf("%d requests: %+v", calls.Load(), e)
		}
	}
}

// The corpus, over the wire: what the SDK makes of a status or a content type
// must not matter.
func TestCorpusOfAnthropicOverHTTP(t *testing.T) {
	entries := corpusOf(t, "anthropic")
	a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) {
		e := entries[r.Header.Get("Idempotency-Key")]
		w.Header().Set("Content-Type", "application/json")
		for k, v := range e.Headers {
			w.Header().Set(k, v)
		}
		w.WriteHeader(e.Status)
		_, _ = w.Write(e.body())
	}, func(o *AnthropicOptions) {
		o.Key = func(context.Context) (string, error) { return "sk-ant-secret", nil }
	})
	for name, e := range entries {
		r := request()
		r.IdempotencyKey = name
		kind := OK
		if _, err := a.Call(t.Context(), r); err != nil {
			refusal := refusalOf(t, a, r)
			kind = refusal.Kind
			if strings.Contains(fmt.Sprintf("%+v %v", refusal, refusal.Err), "sk-ant-secret") {
				t.Errorf("%s: the error holds the key", name)
			}
		}
		if kind != e.Want.Kind {
			t.Errorf("%s: %s, want %s", name, kind, e.Want.Kind)
		}
	}
}

// refusalOf makes a call that must fail and returns its error.
func refusalOf(t *testing.T, a *Anthropic, r Request) *Error {
	t.Helper()
	answer, err := a.Call(t.Context(), r)
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("got %+v, %v; want an *Error", answer, err)
	}
	return e
}

// What the adapter sends is a request of the SDK's own type and nothing more:
// read into it and written again, it is the same. (The type has no sampling
// parameters any more.)
func TestAnthropicRequestsAreTheSDKs(t *testing.T) {
	for name, tt := range translations {
		r := request()
		r.Body = []byte(tt.in)
		m, refused := messagesRequest(r)
		if refused != nil {
			t.Fatal(refused)
		}
		if m.sampling {
			continue
		}
		var p anthropic.MessageNewParams
		if err := json.Unmarshal(m.body, &p); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got, want any
		if json.Unmarshal(again, &got) != nil || json.Unmarshal(m.body, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the SDK makes of %s\n%s", name, m.body, again)
		}
	}
}
