package app

import (
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/internal/sim"
)

// wire carries connections to an address and can drop what goes over those that
// are there, without ending them, as a firewall does that forgot them.
type wire struct {
	net.Listener
	to    string
	all   sync.WaitGroup
	mu    sync.Mutex
	ends  []net.Conn
	quiet *atomic.Bool // of the connections that come now
}

func newWire(t testing.TB, to string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, to: to, quiet: new(atomic.Bool)}
	w.all.Go(w.serve)
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, c := range w.ends {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.all.Wait()
	})
	return w
}

func (w *wire) serve() {
	for {
		in, err := w.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		w.mu.Lock()
		w.ends = append(w.ends, in, out)
		quiet := w.quiet
		w.mu.Unlock()
		w.all.Go(func() { carry(in, out, quiet) })
		w.all.Go(func() { carry(out, in, quiet) })
	}
}

// carry copies until the reading end is closed, and drops what it reads where it is
// to be quiet; then the other end learns of nothing.
func carry(from, to net.Conn, quiet *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if quiet.Load() {
			if err != nil {
				return
			}
			continue
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			_ = to.Close()
			return
		}
	}
}

// silence drops whatever goes over the connections that are there, for good; those
// that come afterwards work.
func (w *wire) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet.Store(true)
	w.quiet = new(atomic.Bool)
}

// rewire has workers that start from now on reach Redis over a wire.
func (l *limited) rewire() *wire {
	l.t.Helper()
	w := newWire(l.t, l.redis.Addr)
	text, err := os.ReadFile(l.file)
	if err == nil {
		err = os.WriteFile(l.file, []byte(strings.Replace(string(text), l.redis.Addr, w.Addr().String(), 1)), 0o600)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return w
}

// All connections of a worker to Redis fall silent, again and again: nothing is
// refused, and new ones would work. No loop of the worker waits for ever on the old
// ones while another one tells that it lives: lines are released, taken, called once
// and finished within seconds.
func TestCase40_SilentConnectionsAreGivenUp(t *testing.T) {
	t.Parallel()
	const lines, silences = 300, 3
	l := newLimited(t, limitedOptions{
		concurrency: 5, behaviour: sim.Behaviour{Latency: sim.Latency{Fixed: 50 * time.Millisecond}},
	})
	w := l.rewire()
	l.submit("b", lines)
	l.start()
	for i := range int64(silences) {
		l.until(time.Minute, "lines are done", func() bool { return l.status("b").Succeeded >= lines*i/silences+10 })
		before := l.status("b")
		w.silence()
		began := time.Now()
		// More than were pending and in flight: the keeper goes on as well.
		l.until(90*time.Second, "work goes on", func() bool { return l.status("b").Succeeded >= before.Succeeded+60 })
		t.Logf("60 lines later after %s", time.Since(began))
	}
	s := l.done("b", 3*time.Minute)
	if n, twice := l.calledTwice(); s.Succeeded != lines || s.Calls != lines || n != lines || twice != 0 {
		t.Errorf("%d lines called, %d twice; status %+v", n, twice, s)
	}
	l.ownAnswers("b", lines)
}
