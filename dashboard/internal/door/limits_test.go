package door

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts a real server with the limits of time that the process's has, only
// shorter.
func serve(t *testing.T, h http.Handler, limit time.Duration) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadTimeout, s.Config.WriteTimeout = limit, limit
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestBodiesAreBounded(t *testing.T) {
	r := setup(t, nil)
	for size, want := range map[int]int{maxBody: 200, maxBody + 1: 413} {
		rec := r.ask("POST", "/x", bearing(secret), func(q *http.Request) { q.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", size))) })
		if rec.Code != want {
			t.Errorf("%d bytes: status %d, want %d", size, rec.Code, want)
		}
	}
	cookie, csrf := r.login(t)
	if rec := r.ask("POST", "/x", session(cookie), form("a", strings.Repeat("x", maxBody), Field, csrf)); rec.Code != http.StatusForbidden {
		t.Errorf("a form that is too large to find its token: status %d", rec.Code)
	}
}

// So many requests are answered at once; streams have places of their own, and a
// place is free again when its request ends.
func TestRequestsAreBounded(t *testing.T) {
	r := setup(t, nil)
	release, inside := make(chan struct{}), make(chan struct{})
	r.handler = r.door.Protect(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/wait" {
			inside <- struct{}{}
			<-release
		}
	}))
	stream := header("Accept", "text/event-stream")
	page := header("Accept", "text/html")
	ended := make(chan struct{})
	occupy := func(n int, how with) {
		for range n {
			go func() {
				r.ask("GET", "/wait", bearing(secret), how)
				ended <- struct{}{}
			}()
			<-inside
		}
	}
	occupy(maxRequests, page)
	rec := r.ask("GET", "/", bearing(secret), page)
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" {
		t.Errorf("one more: status %d", rec.Code)
	}
	if rec := r.ask("GET", "/", bearing(secret), stream); rec.Code != http.StatusOK {
		t.Errorf("a stream beside them: status %d", rec.Code)
	}
	occupy(maxStreams, stream)
	if rec := r.ask("GET", "/", bearing(secret), stream); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("one more stream: status %d", rec.Code)
	}
	close(release)
	for range maxRequests + maxStreams {
		<-ended
	}
	for _, how := range []with{page, stream} {
		if rec := r.ask("GET", "/", bearing(secret), how); rec.Code != http.StatusOK {
			t.Errorf("afterwards: status %d", rec.Code)
		}
	}
}

// A stream that extends itself outlives the limits of its server, whatever stands
// between it and the connection; one that does not is ended.
func TestExtend_LetsAStreamLive(t *testing.T) {
	const limit, pause, events = 300 * time.Millisecond, 100 * time.Millisecond, 10
	r := setup(t, nil)
	stream := func(extend bool) http.Handler {
		return r.door.Protect(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for i := range events {
				if extend {
					if err := Extend(w, limit); err != nil {
						t.Errorf("extend: %v", err)
					}
				}
				if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
				select {
				case <-tick.C:
				case <-q.Context().Done():
					return
				}
			}
		}))
	}
	for _, method := range []string{"GET", "POST"} { // a POST's answer is wrapped
		if n := r.count(t, serve(t, stream(true), limit).URL, method); n != events {
			t.Errorf("%s: %d events came, want %d", method, n, events)
		}
	}
	if n := r.count(t, serve(t, stream(false), limit).URL, "GET"); n == events {
		t.Error("the server has no limit, so the test shows nothing")
	}
}

// count reads a stream to its end and returns how many events came.
func (r *rig) count(t *testing.T, url, method string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	bearing(secret)(req)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			n++
		}
	}
	return n
}

// A stream ends with its session.
func TestStreamsEndWithTheSession(t *testing.T) {
	r := setup(t, nil)
	cookie, _ := r.login(t)
	r.pass(sessionLife - 50*time.Millisecond)
	var cause error
	r.handler = r.door.Protect(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-q.Context().Done():
			cause = q.Context().Err()
		case <-time.After(time.Minute):
		}
	}))
	if rec := r.ask("GET", "/live", session(cookie)); rec.Code != http.StatusOK || cause == nil {
		t.Errorf("status %d, the stream's context ended by %v", rec.Code, cause)
	}
}
