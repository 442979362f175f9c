package door

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
)

// change is what the log will say of one.
type change struct {
	mu       sync.Mutex
	what, on string
	more     []slog.Attr
}

type changeKey struct{}

// Audit names what a request changes, and on what, for its line in the log: as
// in Audit(r, "open breaker", "openai/gpt-4o", slog.Duration("for", d)). It is
// said of IDs and names alone, never of a prompt, an answer or a key. Without it
// the line has the method and the path.
func Audit(r *http.Request, what, on string, more ...slog.Attr) {
	c, ok := r.Context().Value(changeKey{}).(*change)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.what, c.on, c.more = what, on, slices.Clone(more)
}

// audited logs one line for every request that may change something, when it is
// answered.
func (d *Door) audited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if safe(r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		c := &change{what: r.Method, on: r.URL.Path}
		answer := &answer{ResponseWriter: w}
		defer func() { d.log(r, c, answer) }() // also when the handler panics
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), changeKey{}, c)))
		if answer.status == 0 { // the server will say so
			answer.status = http.StatusOK
		}
	})
}

func (d *Door) log(r *http.Request, c *change, a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who, _ := r.Context().Value(visitorKey{}).(visitor)
	level, result := slog.LevelInfo, "done"
	switch {
	case a.status == 0:
		level, result = slog.LevelError, "broken off"
	case a.status >= 500:
		level, result = slog.LevelError, "failed"
	case a.status >= 400:
		level, result = slog.LevelWarn, "refused"
	}
	d.o.Logger.LogAttrs(r.Context(), level, "changed by the dashboard", append([]slog.Attr{
		slog.String("who", who.name), slog.String("remote", r.RemoteAddr), slog.String("what", c.what), slog.String("on", c.on),
		slog.String("result", result), slog.Int("status", a.status),
	}, c.more...)...)
}

// refuse answers 403, and logs it where something would have been changed.
func (d *Door) refuse(w http.ResponseWriter, r *http.Request, reason, why string) {
	if !safe(r.Method) {
		d.o.Logger.Warn("change by the dashboard refused", "remote", r.RemoteAddr, "what", r.Method, "on", r.URL.Path, "reason", reason)
	}
	http.Error(w, why, http.StatusForbidden)
}

// answer remembers the status.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
