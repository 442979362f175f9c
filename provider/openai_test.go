package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const okBody = `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`

// patient is longer than any test takes; it ends only a test that hangs.
const patient = time.Minute

func request() Request {
	return Request{
		Endpoint: "/v1/chat/completions", Model: "m", Timeout: patient,
		Body: []byte(`{"model":"auto","messages":[{"role":"user","content":"hello"}]}`),
	}
}

// serve starts a server and an adapter for it.
func serve(t *testing.T, h http.HandlerFunc, change ...func(*OpenAIOptions)) *OpenAI {
	t.Helper()
	srv := httptest.NewServer(h)
	o := OpenAIOptions{BaseURL: srv.URL + "/v1"}
	for _, c := range change {
		c(&o)
	}
	a := NewOpenAI(o)
	t.Cleanup(func() { a.Close(); srv.Close() })
	return a
}

func answerOK(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, okBody)
}

// refusal makes a call that must fail and returns its error.
func refusal(t *testing.T, a *OpenAI, ctx context.Context, r Request) *Error {
	t.Helper()
	answer, err := a.Call(ctx, r)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %+v, %v; want an *Error", answer, err)
	}
	return e
}

func TestCallSendsTheBodyAsItCame(t *testing.T) {
	setOpenAIEnvironment(t)
	var got *http.Request
	var body []byte
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, okBody)
	}, func(o *OpenAIOptions) {
		o.BaseURL += "/?api-version=2024-10-21"
		o.Headers = map[string]string{"X-Team": "night"}
		o.Key = func(context.Context) (string, error) { return "secret\n", nil }
	})
	r := request()
	r.Body = []byte("{ \"n\":1.0,\"model\":\"auto\",\"unknown\":{\"b\":1,\"a\":\"\\u00e9<\"},\"drop\":1 }")
	r.Set = map[string]any{"service_tier": "flex"}
	r.Drop = []string{"drop"}
	r.IdempotencyKey = "b:1.0:m:1"
	answer, err := a.Call(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if want := "{ \"n\":1.0,\"model\":\"m\",\"unknown\":{\"b\":1,\"a\":\"\\u00e9<\"},\"service_tier\":\"flex\" }"; string(body) != want {
		t.Errorf("sent %s\nwant %s", body, want)
	}
	if got.Method != "POST" || got.URL.String() != "/v1/chat/completions?api-version=2024-10-21" {
		t.Errorf("%s %s", got.Method, got.URL)
	}
	wantHeaders(t, got.Header, map[string]string{
		"Authorization": "Bearer secret", "X-Team": "night", "User-Agent": "nightshift",
		"Idempotency-Key": "b:1.0:m:1", "Content-Type": "application/json",
	})
	if string(answer.Body) != okBody || answer.Usage != (Usage{InputTokens: 3, OutputTokens: 1}) || answer.FinishReason != "stop" {
		t.Errorf("got %+v", answer)
	}
}

// The SDK reads OPENAI_* variables; nothing of them may reach a provider that
// the configuration gives no key.
func TestCallIgnoresTheEnvironment(t *testing.T) {
	setOpenAIEnvironment(t)
	var got http.Header
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		answerOK(w, r)
	})
	if _, err := a.Call(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	wantHeaders(t, got, map[string]string{"Authorization": "", "Openai-Organization": "", "Openai-Project": "", "X-Leak": "", "Idempotency-Key": ""})
	for name, values := range got {
		if strings.Contains(strings.Join(values, " "), "leak") {
			t.Errorf("header %s: %q", name, values)
		}
	}
}

func setOpenAIEnvironment(t *testing.T) {
	for _, name := range []string{"API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"} {
		t.Setenv("OPENAI_"+name, "leak")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/leak")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: leak")
}

func wantHeaders(t *testing.T, h http.Header, want map[string]string) {
	t.Helper()
	for name, v := range want {
		if got := h.Get(name); got != v {
			t.Errorf("header %s: %q, want %q", name, got, v)
		}
	}
}

func TestCallAsksForTheKeyEachTime(t *testing.T) {
	var keys []string
	var n int
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Authorization"))
		answerOK(w, r)
	}, func(o *OpenAIOptions) {
		o.Key = func(context.Context) (string, error) { n++; return fmt.Sprintf("k%d", n), nil }
	})
	for range 2 {
		if _, err := a.Call(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(keys) != "[Bearer k1 Bearer k2]" {
		t.Errorf("sent %q", keys)
	}
}

// unusableKeys are sources of a key that cannot be sent.
var unusableKeys = map[string]func(context.Context) (string, error){
	"unreadable": func(context.Context) (string, error) { return "", os.ErrNotExist },
	"two lines":  func(context.Context) (string, error) { return "sk-a\nsk-b", nil },
}

func TestCallWithoutAUsableKeyIsMisconfigured(t *testing.T) {
	for name, key := range unusableKeys {
		t.Run(name, func(t *testing.T) {
			a := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a call was sent") },
				func(o *OpenAIOptions) { o.Key = key })
			e := refusal(t, a, t.Context(), request())
			if e.Kind != Misconfigured || e.Scope != ScopeParent || strings.Contains(e.Error()+e.Err.Error(), "sk-") {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestCallWithABrokenBaseURLIsMisconfigured(t *testing.T) {
	for _, base := range []string{"", "api.example.com/v1", "ftp://x", "http://", "http://us\ner:pass@x"} {
		e := refusal(t, NewOpenAI(OpenAIOptions{BaseURL: base}), t.Context(), request())
		if e.Kind != Misconfigured || e.Scope != ScopeParent || strings.Contains(e.Error(), "pass") {
			t.Errorf("%q: %+v", base, e)
		}
	}
}

func TestCallRefusesABodyThatIsNoObject(t *testing.T) {
	a := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a call was sent") })
	r := request()
	r.Body = []byte(`[1]`)
	if e := refusal(t, a, t.Context(), r); e.Kind != InvalidRequest || e.StatusCode != 0 {
		t.Errorf("got %+v", e)
	}
}

// The corpus, over the wire: what the SDK makes of a status or a content type
// must not matter.
func TestCorpusOverHTTP(t *testing.T) {
	entries := corpus(t)
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		e := entries[r.Header.Get("Idempotency-Key")]
		w.Header().Set("Content-Type", "application/json")
		for k, v := range e.Headers {
			w.Header().Set(k, v)
		}
		w.WriteHeader(e.Status)
		_, _ = w.Write(e.body())
	})
	for name, e := range entries {
		r := e.ask(request())
		r.IdempotencyKey = name
		kind := OK
		if _, err := a.Call(t.Context(), r); err != nil {
			kind = refusal(t, a, t.Context(), r).Kind
		}
		if kind != e.Want.Kind {
			t.Errorf("%s: %s, want %s", name, kind, e.Want.Kind)
		}
	}
}

func TestCallMakesExactlyOneRequest(t *testing.T) {
	var calls atomic.Int64
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(503)
	})
	if e := refusal(t, a, t.Context(), request()); e.Kind != Unavailable || e.StatusCode != 503 {
		t.Errorf("got %+v", e)
	}
	if calls.Load() != 1 {
		t.Errorf("%d requests, want 1", calls.Load())
	}
}

// net/http repeats a request that carries an Idempotency-Key when a connection
// that was used before breaks; the provider would have been paid twice.
func TestCallIsNotRepeatedOnABrokenConnection(t *testing.T) {
	var calls atomic.Int64
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			answerOK(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		reset(w)
	}, func(o *OpenAIOptions) { o.Headers = map[string]string{"X-Idempotency-Key": "static"} })
	r := request()
	r.IdempotencyKey = "k"
	if _, err := a.Call(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if e := refusal(t, a, t.Context(), r); e.Kind != Unavailable {
		t.Errorf("got %+v", e)
	}
	if calls.Load() != 2 {
		t.Errorf("%d requests for two calls", calls.Load())
	}
}

// reset breaks the connection under a response, with an RST.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}
