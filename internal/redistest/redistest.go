// Package redistest starts real redis-servers for tests, each on a free port of
// its own with a directory of its own, and stops them when the test ends.
//
// A missing binary fails the test with the command that installs it; it never
// skips.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is one redis-server process.
type Server struct {
	Addr string // host:port
	dir  string
	args []string
	cmd  *exec.Cmd
}

// URL returns the server's address as a URL of database 0.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Start starts a server without persistence and waits until it answers. Extra
// arguments are passed on, e.g. "--appendonly", "yes".
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	addr := FreeAddr(tb)
	_, port, _ := net.SplitHostPort(addr)
	s := &Server{Addr: addr, dir: tb.TempDir()}
	s.args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--appendonly", "no", "--maxmemory-policy", "noeviction",
		"--logfile", filepath.Join(s.dir, "redis.log"),
	}, args...)
	s.Restart(tb)
	tb.Cleanup(func() { s.Kill() })
	return s
}

// Client starts a server and returns a client of it, closed when the test ends.
func Client(tb testing.TB, args ...string) *redis.Client {
	tb.Helper()
	return Start(tb, args...).Client(tb)
}

// Client returns a new client, closed when the test ends.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill ends the process at once (SIGKILL); what it did not persist is lost.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Freeze stops the process without closing its connections; Thaw continues it.
func (s *Server) Freeze(tb testing.TB) { s.signal(tb, syscall.SIGSTOP) }

// Thaw continues a frozen process.
func (s *Server) Thaw(tb testing.TB) { s.signal(tb, syscall.SIGCONT) }

func (s *Server) signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		tb.Fatalf("signal redis-server: %v", err)
	}
}

// Restart starts the process again after Kill, on the same port and directory.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatalf("redis-server is not installed; install it with: apt-get install -y redis-server (or run: make deps)")
	}
	s.cmd = exec.Command(bin, s.args...)
	if err := s.cmd.Start(); err != nil {
		tb.Fatalf("start redis-server: %v", err)
	}
	if err := s.ready(10 * time.Second); err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
		tb.Fatalf("redis-server on %s: %v\n%s", s.Addr, err, log)
	}
}

func (s *Server) ready(limit time.Duration) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer c.Close()
	deadline := time.Now().Add(limit)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := c.Ping(ctx).Err()
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready within %s: %w", limit, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// FreeAddr returns an address of this machine whose port is free now, for a
// process that binds it at once.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
