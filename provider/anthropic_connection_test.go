package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func withKey(o *AnthropicOptions) {
	o.Key = func(context.Context) (string, error) { return "sk-ant-secret", nil }
}

func TestAnthropicOnABrokenConnectionIsUnavailable(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"reset before the answer": func(w http.ResponseWriter, r *http.Request) { reset(w) },
		"reset in the middle of the answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(okMessage)))
			_, _ = io.WriteString(w, okMessage[:40])
			_ = http.NewResponseController(w).Flush()
			reset(w)
		},
		"closed before the answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		e := refusalOf(t, serveMessages(t, h, withKey), request())
		if e.Kind != Unavailable || e.Message == "" || strings.Contains(fmt.Sprintf("%v %v", e, e.Err), "sk-ant-secret") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestAnthropicEndsWithItsTimeoutOrItsCaller(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	r := request()
	r.Timeout = 50 * time.Millisecond
	if e := refusalOf(t, serveMessages(t, hang), r); e.Kind != Timeout || !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("got %+v", e)
	}
	stop := errors.New("the batch was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	arrived := make(chan struct{})
	a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) { close(arrived); hang(w, r) })
	go func() { <-arrived; cancel(stop) }()
	_, err := a.Call(ctx, request())
	var e *Error
	if !errors.As(err, &e) || e.Kind != Canceled || !errors.Is(err, stop) {
		t.Errorf("got %+v", err)
	}
}

func TestAnthropicFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the key and the prompt went to another host")
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 307, 308} {
		a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) }, withKey)
		if e := refusalOf(t, a, request()); e.Kind != Unavailable || e.StatusCode != status {
			t.Errorf("got %+v", e)
		}
	}
}

func TestAnthropicBeyondTheLimitIsUnavailable(t *testing.T) {
	for extra, want := range map[int]Kind{0: OK, 1: Unavailable} {
		a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, okMessage+strings.Repeat(" ", extra))
		}, func(o *AnthropicOptions) { o.MaxResponse = int64(len(okMessage)) })
		got := OK
		if _, err := a.Call(t.Context(), request()); err != nil {
			got = refusalOf(t, a, request()).Kind
		}
		if got != want {
			t.Errorf("%d bytes over: %s, want %s", extra, got, want)
		}
	}
}

func TestAnthropicHealth(t *testing.T) {
	var path, key string
	status := 200
	a := serveMessages(t, func(w http.ResponseWriter, r *http.Request) {
		path, key = r.URL.Path, r.Header.Get("Authorization")
		w.WriteHeader(status)
	}, withKey, func(o *AnthropicOptions) { o.BaseURL += "/api/anthropic" })
	got, err := a.Health(t.Context(), "/health", patient)
	if err != nil || got != 200 || path != "/health" || key != "Bearer sk-ant-secret" {
		t.Errorf("%d, %v: asked for %q with %q", got, err, path, key)
	}
	for other, want := range map[string]string{"/http://127.0.0.1:1/x": "/http://127.0.0.1:1/x", "/x:y": "/x:y"} {
		if _, err := a.Health(t.Context(), other, patient); err != nil || path != want {
			t.Errorf("%s: asked for %q: %v", other, path, err)
		}
	}
	status = 503
	var e *Error
	if _, err := a.Health(t.Context(), "//health", patient); !errors.As(err, &e) || e.Kind != Unavailable || path != "/health" {
		t.Errorf("got %v of %q", err, path)
	}
}
