package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCallOnABrokenConnectionIsUnavailable(t *testing.T) {
	tests := map[string]http.HandlerFunc{
		"reset before the answer": func(w http.ResponseWriter, r *http.Request) { reset(w) },
		"closed before the answer": func(w http.ResponseWriter, r *http.Request) {
			panic(http.ErrAbortHandler)
		},
		"reset in the middle of the answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(okBody)))
			_, _ = io.WriteString(w, okBody[:40])
			_ = http.NewResponseController(w).Flush()
			reset(w)
		},
		"an answer that is too short": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(okBody)+1))
			_, _ = io.WriteString(w, okBody)
		},
		"not HTTP": func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "hello\r\n\r\n")
			_ = conn.Close()
		},
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			a := serve(t, h)
			e := refusal(t, a, t.Context(), request())
			if e.Kind != Unavailable || e.Message == "" || strings.Contains(e.Message, "127.0.0.1") {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestRefusalThatBreaksOffKeepsItsStatus(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"error":{"mess`)
		_ = http.NewResponseController(w).Flush()
		reset(w)
	})
	e := refusal(t, a, t.Context(), request())
	if e.Kind != RateLimited || e.RetryAfter != 7*time.Second {
		t.Errorf("got %+v", e)
	}
}

func TestCallToNobodyIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	plain := httptest.NewServer(http.HandlerFunc(answerOK))
	defer plain.Close()
	untrusted := httptest.NewUnstartedServer(http.HandlerFunc(answerOK))
	untrusted.Config.ErrorLog = nil
	untrusted.StartTLS()
	defer untrusted.Close()
	tests := map[string]struct{ base, message string }{
		"refused":               {"http://" + closed, "connection refused"},
		"no such host":          {"http://nobody.invalid", "host name"},
		"an unknown authority":  {untrusted.URL, "secure connection"},
		"no TLS where expected": {strings.Replace(plain.URL, "http", "https", 1), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := NewOpenAI(OpenAIOptions{BaseURL: tt.base + "/v1?key=sk-secret"})
			defer a.Close()
			e := refusal(t, a, t.Context(), request())
			if e.Kind != Unavailable || !strings.Contains(e.Message, tt.message) {
				t.Errorf("got %+v", e)
			}
			if strings.Contains(fmt.Sprintf("%v %v", e, e.Err), "sk-secret") {
				t.Errorf("the error holds the URL's query: %v", e.Err)
			}
		})
	}
}

func TestCallEndsWithItsTimeoutOrItsCaller(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	hangMidBody := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, okBody[:20])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for name, h := range map[string]http.HandlerFunc{"no answer": hang, "half an answer": hangMidBody} {
		t.Run(name+", our limit", func(t *testing.T) {
			r := request()
			r.Timeout = 50 * time.Millisecond
			e := refusal(t, serve(t, h), t.Context(), r)
			if e.Kind != Timeout || !errors.Is(e, context.DeadlineExceeded) {
				t.Errorf("got %+v", e)
			}
		})
		t.Run(name+", the caller's end", func(t *testing.T) {
			stop := errors.New("the batch was cancelled")
			ctx, cancel := context.WithCancelCause(t.Context())
			arrived := make(chan struct{})
			a := serve(t, func(w http.ResponseWriter, r *http.Request) { close(arrived); h(w, r) })
			go func() { <-arrived; cancel(stop) }()
			e := refusal(t, a, ctx, request())
			if e.Kind != Canceled || !errors.Is(e, stop) {
				t.Errorf("got %+v", e)
			}
		})
		t.Run(name+", the caller's deadline", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if e := refusal(t, serve(t, h), ctx, request()); e.Kind != Canceled {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestAnswerBeyondTheLimitIsUnavailable(t *testing.T) {
	size := len(okBody)
	for extra, want := range map[int]Kind{0: OK, 1: Unavailable} {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, okBody+strings.Repeat(" ", extra))
		}, func(o *OpenAIOptions) { o.MaxResponse = int64(size) })
		got := OK
		if _, err := a.Call(t.Context(), request()); err != nil {
			got = refusal(t, a, t.Context(), request()).Kind
		}
		if got != want {
			t.Errorf("%d bytes over: %s, want %s", extra, got, want)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the key and the prompt went to another host")
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 307, 308} {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, status)
		}, func(o *OpenAIOptions) {
			o.Key = func(context.Context) (string, error) { return "secret", nil }
			o.HTTPClient = &http.Client{Transport: newTransport()}
		})
		if e := refusal(t, a, t.Context(), request()); e.Kind != Unavailable || e.StatusCode != status {
			t.Errorf("got %+v", e)
		}
	}
}

func TestCallsInParallelKeepTheirAnswers(t *testing.T) {
	var conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Request-Id", r.Header.Get("Idempotency-Key"))
		_, _ = w.Write(bytes.Replace([]byte(okBody), []byte(`"hi"`), fmt.Appendf(nil, "%q", body), 1))
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	a := NewOpenAI(OpenAIOptions{BaseURL: srv.URL + "/v1"})
	defer a.Close()
	const callers, each = 40, 10
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				r := request()
				r.IdempotencyKey = fmt.Sprintf("k%d-%d", i, j)
				r.Body = fmt.Appendf(nil, `{"model":"x","n":"%s"}`, r.IdempotencyKey)
				answer, err := a.Call(t.Context(), r)
				if err != nil || answer.RequestID != r.IdempotencyKey || !strings.Contains(string(answer.Body), r.IdempotencyKey) {
					t.Errorf("call %s: %+v, %v", r.IdempotencyKey, answer, err)
				}
			}
		})
	}
	wg.Wait()
	if n := conns.Load(); n > callers*2 {
		t.Errorf("%d connections for %d callers: they are not kept", n, callers)
	}
}
