package provider

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// sickness gets a path that must fail and returns the error.
func sickness(t *testing.T, a *OpenAI, ctx context.Context, limit time.Duration) *Error {
	t.Helper()
	var e *Error
	if _, err := a.Health(ctx, "/health", limit); !errors.As(err, &e) {
		t.Fatalf("got %v; want an *Error", err)
	}
	return e
}

func TestHealthStartsAtTheHostWithHeadersAndKeyOfCalls(t *testing.T) {
	var got *http.Request
	a := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r }, func(o *OpenAIOptions) {
		o.BaseURL += "?api-version=7"
		o.Headers = map[string]string{"X-Team": "night"}
		o.Key = func(context.Context) (string, error) { return "secret\n", nil }
	})
	for path, want := range map[string]string{
		"/health":          "/health?api-version=7",
		"/a/b?deep=1":      "/a/b?api-version=7&deep=1",
		"/":                "/?api-version=7",
		"/x:y/health":      "/x:y/health?api-version=7",
		"//evil.test/path": "/evil.test/path?api-version=7", // never another host
	} {
		if _, err := a.Health(t.Context(), path, patient); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got.Method != "GET" || got.URL.String() != want {
			t.Errorf("%s: %s %s, want %s", path, got.Method, got.URL, want)
		}
		if got.Header.Get("Authorization") != "Bearer secret" || got.Header.Get("X-Team") != "night" || got.Header.Get("User-Agent") != "nightshift" {
			t.Errorf("headers %v", got.Header)
		}
	}
}

func TestHealthByStatus(t *testing.T) {
	for status, want := range map[int]Error{
		200: {}, 204: {},
		302: {Kind: InvalidRequest}, 404: {Kind: InvalidRequest}, 405: {Kind: InvalidRequest}, 418: {Kind: InvalidRequest},
		401: {Kind: Misconfigured, Scope: ScopeParent}, 403: {Kind: Misconfigured, Scope: ScopeParent},
		402: {Kind: QuotaExhausted, Scope: ScopeParent},
		429: {Kind: RateLimited, RetryAfter: 7 * time.Second},
		500: {Kind: Unavailable, RetryAfter: 7 * time.Second}, 503: {Kind: Unavailable, RetryAfter: 7 * time.Second}, 529: {Kind: Unavailable, RetryAfter: 7 * time.Second},
	} {
		requests := 0
		a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			requests++
			if status >= 429 {
				w.Header().Set("Retry-After", "7")
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
		got, err := a.Health(t.Context(), "/health", patient)
		if want.Kind == "" {
			if err != nil || got != status {
				t.Errorf("%d: %d, %v", status, got, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Kind != want.Kind || e.Scope != want.Scope || e.StatusCode != status || e.RetryAfter != want.RetryAfter || e.Message == "" {
			t.Errorf("%d: %+v", status, err)
		}
		if requests != 1 {
			t.Errorf("%d: %d requests", status, requests)
		}
	}
}

// A server may keep an answer open for ever; its status came.
func TestHealthDoesNotReadTheBody(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if _, err := a.Health(t.Context(), "/health", patient); err != nil {
		t.Error(err)
	}
}

func TestHealthWithoutAResponse(t *testing.T) {
	hang := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if e := sickness(t, hang, t.Context(), 50*time.Millisecond); e.Kind != Timeout {
		t.Errorf("silence: %+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e := sickness(t, hang, ctx, patient); e.Kind != Canceled {
		t.Errorf("ended by us: %+v", e)
	}

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	refused := NewOpenAI(OpenAIOptions{BaseURL: gone.URL})
	if e := sickness(t, refused, t.Context(), patient); e.Kind != Unavailable || e.Message != "connection refused" {
		t.Errorf("refused: %+v", e)
	}
	if e := sickness(t, NewOpenAI(OpenAIOptions{BaseURL: "nowhere"}), t.Context(), patient); e.Kind != Misconfigured || e.Scope != ScopeParent {
		t.Errorf("no address: %+v", e)
	}
	keyless := serve(t, answerOK, func(o *OpenAIOptions) {
		o.Key = func(context.Context) (string, error) { return "", errors.New("no file") }
	})
	if e := sickness(t, keyless, t.Context(), patient); e.Kind != Misconfigured || e.Scope != ScopeParent {
		t.Errorf("no key: %+v", e)
	}
}
