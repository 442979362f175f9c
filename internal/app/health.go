package app

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readyLimit bounds what an answer of /readyz waits for Redis; probes wait 1 to 10 s.
	readyLimit = time.Second
	// readyKept is for how long an answer of Redis is taken for the next: whoever
	// asks, without a token, cannot make it busy.
	readyKept = time.Second
)

// phase is how far a process has come.
type phase string

const (
	starting phase = "starting"
	running  phase = "running"
	stopping phase = "stopping"
)

// health answers whether a process lives and whether it can work. It says nothing
// that a stranger may not know, since no token is asked for it.
type health struct {
	ping func(context.Context) error
	now  func() time.Time

	phase atomic.Value // a phase

	mu    sync.Mutex // also while Redis is asked: others wait for that answer
	asked time.Time  // when Redis answered, or did not
	err   error
}

func newHealth(ping func(context.Context) error) *health {
	h := &health{ping: ping, now: time.Now}
	h.enter(starting)
	return h
}

func (h *health) enter(p phase) { h.phase.Store(p) }

// before answers /healthz and /readyz, and leaves every other path to next.
func (h *health) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer http.HandlerFunc
		switch r.URL.Path {
		case "/healthz":
			answer = h.alive
		case "/readyz":
			answer = h.ready
		default:
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		answer(w, r)
	})
}

// alive says 200 as long as the process answers at all. It asks nothing of Redis,
// since a restart of this process heals no outage of it.
func (h *health) alive(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }

// ready says 200 while everything was started, nothing stops, and Redis answers.
func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	if why := h.unready(r.Context()); why != "" {
		say(w, http.StatusServiceUnavailable, why)
		return
	}
	say(w, http.StatusOK, "ok")
}

// unready says what is missing; "" is nothing.
func (h *health) unready(ctx context.Context) string {
	if p := h.phase.Load().(phase); p != running {
		return string(p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now().Sub(h.asked) >= readyKept {
		// Who asks may go away; the answer is for the next one too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyLimit)
		defer cancel()
		h.err = h.ping(ctx)
		h.asked = h.now()
	}
	if h.err != nil {
		return ErrNoRedis.Error()
	}
	return ""
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}
