package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Options are a server's.
type Options struct {
	// KeepCalls bounds the log. Defaults to 100,000.
	KeepCalls int
	// Now is the clock of windows, limits and the log. Defaults to time.Now.
	// Latencies pass in real time.
	Now func() time.Time
	// Logger gets a line a call at level debug. Defaults to none.
	Logger *slog.Logger
}

// Server is the simulator. It serves as a handler from New on, and on an
// address of its own from Start on. It is safe for concurrent use.
type Server struct {
	script Script
	now    func() time.Time
	slog   *slog.Logger
	log    *callLog
	mux    *http.ServeMux
	stop   chan struct{} // closed by Close: hangs and latencies end
	calls  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	start   time.Time
	models  map[string]*state
	added   []addedFault
	http    *http.Server
	addr    net.Addr
	serving chan struct{} // closed when the listener's goroutine has ended
}

// state is what changes about a model.
type state struct {
	calls    int64
	inFlight int // accepted and not ended
	bucket   bucket
}

// New returns a simulator whose script begins now.
func New(script Script, o Options) *Server {
	s := &Server{
		script: script, now: o.Now, slog: o.Logger, log: newLog(100_000),
		stop: make(chan struct{}), models: map[string]*state{},
	}
	if o.KeepCalls > 0 {
		s.log = newLog(o.KeepCalls)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.slog == nil {
		s.slog = slog.New(slog.DiscardHandler)
	}
	s.start = s.now()
	s.mux = s.routes()
	return s
}

// Start listens on an address, e.g. "127.0.0.1:0", and serves until Close. The
// script begins anew. It fails on a script that is not valid.
func (s *Server) Start(addr string) error {
	if err := s.script.Validate(); err != nil {
		return fmt.Errorf("start simulator: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("start simulator: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.http != nil {
		_ = l.Close()
		return errors.New("start simulator: it was started or closed before")
	}
	s.start, s.addr = s.now(), l.Addr()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.slog.Handler(), slog.LevelDebug)}
	s.serving = make(chan struct{})
	go func() {
		defer close(s.serving)
		_ = s.http.Serve(l) // always an error; the one that matters is Close's
	}()
	return nil
}

// URL is the base URL for clients, with /v1; "" before Start.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr == nil {
		return ""
	}
	return "http://" + s.addr.String() + "/v1"
}

// Close ends everything at once, hangs and calls in flight too, and returns
// when nothing runs any more.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	srv, serving := s.http, s.serving
	s.mu.Unlock()
	if first {
		close(s.stop)
	}
	var err error
	if srv != nil {
		err = srv.Close()
		<-serving
	}
	s.calls.Wait()
	return err
}

// Calls returns the calls that the log still keeps, oldest first.
func (s *Server) Calls() []Call { return s.log.list() }

// Counts returns what the log sums up to.
func (s *Server) Counts() Counts { return s.log.sum() }

// Reset forgets all calls and added faults, and begins the script anew.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.reset()
	s.start, s.models, s.added = s.now(), map[string]*state{}, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.calls.Add(1)
	}
	s.mu.Unlock()
	if closed {
		writeError(w, http.StatusServiceUnavailable, "the simulator is closed", "server_error", "")
		return
	}
	defer s.calls.Done()
	s.mux.ServeHTTP(w, r)
}

// pause waits, as long as the client and the server are there.
func (s *Server) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	return s.await(ctx, t.C)
}

// await waits for c, which may be nil: then it hangs.
func (s *Server) await(ctx context.Context, c <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return http.ErrServerClosed
	case <-c:
		return nil
	}
}

// maxBody is the largest request, in bytes; lines are up to 16 MiB.
const maxBody = 64 << 20

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
}
