package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stages is a provider whose first answer waits for the test, so that the test
// knows when an attempt is in the middle of its calls.
type stages struct {
	mu    sync.Mutex
	calls []string // the models asked, in order
	first chan struct{}
	goOn  chan struct{}
}

func newStages() *stages {
	return &stages{first: make(chan struct{}), goOn: make(chan struct{})}
}

func (s *stages) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// serve answers 503 and then well.
func (s *stages) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls = append(s.calls, r.URL.Path)
	n := len(s.calls)
	s.mu.Unlock()
	if n == 1 {
		close(s.first)
		<-s.goOn
	}
	w.Header().Set("Content-Type", "application/json")
	switch n {
	case 1:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":{"message":"overloaded","type":"server_error"}}`)
	default:
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"answer to line 1"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`)
	}
}

// An attempt that has begun goes on without Redis for one call more: breaker, pace
// and guard of its own let it, and it is answered while Redis is still away. What
// had not begun does not begin.
func TestAnAttemptGoesOnWithoutRedis(t *testing.T) {
	for name, gone := range map[string]func(*fleet){
		"silent":  func(f *fleet) { f.redis.Freeze(t) },
		"refused": func(f *fleet) { f.redis.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStages()
			f := newFleet(t, fleetOptions{
				rungs: "{model: a/one, tries: 2}, {model: b/two, tries: 1}", concurrency: 1, retries: 5, cooldown: "2s", maxCooldown: "16s",
			}, "--appendonly", "yes", "--appendfsync", "always")
			f.up.Server.Config.Handler = http.HandlerFunc(s.serve)
			f.submit("b", 3)
			f.start()
			<-s.first
			gone(f)
			close(s.goOn)
			f.until(60*time.Second, "the attempt has made its calls without Redis", func() bool { return s.count() >= 2 })
			time.Sleep(3 * time.Second) // a slot and two lines are free, and nothing begins
			if n := s.count(); n != 2 {
				t.Errorf("%d calls, want the one that Redis knew and one without it", n)
			}
			if name == "silent" {
				f.redis.Thaw(t)
			} else {
				f.redis.Restart(t)
			}
			st := f.done("b", 150*time.Second)
			if st.Succeeded != 3 || st.Calls != 4 || st.Deferrals != 0 {
				t.Errorf("status %+v", st)
			}
			if n := s.count(); n != 4 {
				t.Errorf("%d calls in all, want 4", n)
			}
		})
	}
}

// A worker that is told to stop while Redis is away, after a call that Redis does
// not know of: it ends with the line's answer written and the call counted.
func TestACallWithoutRedisIsCountedBeforeItsWorkerEnds(t *testing.T) {
	t.Parallel()
	s := newStages()
	f := newFleet(t, fleetOptions{
		rungs: "{model: a/one, tries: 2}, {model: b/two, tries: 1}", concurrency: 1, retries: 5, cooldown: "2s", maxCooldown: "16s",
	}, "--appendonly", "yes", "--appendfsync", "always")
	f.up.Server.Config.Handler = http.HandlerFunc(s.serve)
	f.submit("b", 1)
	w := f.start()
	<-s.first
	f.redis.Kill()
	close(s.goOn)
	f.until(60*time.Second, "a call is made without Redis", func() bool { return s.count() == 2 })
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f.redis.Restart(t)
	if err := w.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	guards, err := f.conn.Guard.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guards {
		if g.Producer == "p" && g.Calls == 2 && f.status("b").Succeeded == 1 {
			return
		}
	}
	t.Errorf("two calls were made; the guards count %+v, status %+v", guards, f.status("b"))
}
