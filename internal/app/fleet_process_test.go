package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/redistest"
)

// workerEnv holds the configuration file of a worker process: the test binary
// runs itself with it, so that a fleet is real processes that can be killed.
const workerEnv = "NIGHTSHIFT_TEST_WORKER"

// workerProcess is the main of such a process.
func workerProcess(file string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg, err := config.Load(file)
	if err != nil {
		log.Error("load", "error", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	a, err := New(ctx, cfg, Options{Worker: true, Logger: log})
	if err != nil {
		log.Error("build", "error", err)
		return 1
	}
	if err := a.Start(ctx); err != nil {
		log.Error("start", "error", err)
		return 1
	}
	<-ctx.Done()
	if err := a.Stop(context.Background()); err != nil {
		log.Error("stop", "error", err)
		return 1
	}
	return 0
}

// upstream is a provider with a switch. It answers what it is asked and counts
// calls by the text of their prompt.
type upstream struct {
	*httptest.Server
	mu     sync.Mutex
	down   bool
	delay  time.Duration
	calls  map[string]int    // by the last message
	says   map[string]string // by the model, in place of an answer to what it was asked
	probes int
	total  int
}

func newUpstream(t testing.TB) *upstream {
	u := &upstream{calls: map[string]int{}}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model    string
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	prompt := q.Messages[len(q.Messages)-1].Content
	u.mu.Lock()
	u.total++
	if strings.HasPrefix(prompt, "line ") {
		u.calls[prompt]++
	} else {
		u.probes++
	}
	down, delay, says := u.down, u.delay, cmp.Or(u.says[q.Model], "answer to "+prompt)
	u.mu.Unlock()
	time.Sleep(delay)
	w.Header().Set("Content-Type", "application/json")
	if down {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":{"message":"overloaded","type":"server_error"}}`)
		return
	}
	fmt.Fprintf(w, `{"id":"x","object":"chat.completion","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`,
		q.Model, says)
}

func (u *upstream) set(down bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down = down
}

// hold has each answer take so long.
func (u *upstream) hold(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.delay = d
}

func (u *upstream) counts() (total, probes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total, u.probes
}

// fleet is a Redis, a provider and worker processes.
type fleet struct {
	t     testing.TB
	redis *redistest.Server
	up    *upstream
	file  string
	env   []string // of the worker processes, beside that of the test
	conn  *Conn
}

// fleetConfig has two models of two providers on one upstream.
const fleetConfig = `
redis: {url: "%s"}
providers:
  a: {api: openai, base_url: "%s/v1"}
  b: {api: openai, base_url: "%s/v1"}
models:
  a/one: {price: {input: 1, output: 2}}
  b/two: {price: {input: 1, output: 2}}
ladders:
  night: {rungs: [%s], output: {%s}, cache: %s}
queues:
  q: {ladder: night, concurrency: %d, retries: %d}
breaker: {cooldown: %s, max_cooldown: %s}
worker: {shutdown_timeout: 5s}
`

type fleetOptions struct {
	redisURL              string // default: a redis-server of the fleet's own
	rungs, output         string
	concurrency, retries  int
	cooldown, maxCooldown string
	cache                 time.Duration
}

func newFleet(t testing.TB, o fleetOptions, redisArgs ...string) *fleet {
	f := &fleet{t: t, up: newUpstream(t)}
	if o.redisURL == "" {
		f.redis = redistest.Start(t, redisArgs...)
		o.redisURL = f.redis.URL()
	}
	f.connect(f.configure(fleetConfig, o.redisURL, f.up.URL, f.up.URL, o.rungs, o.output, o.cache, o.concurrency, o.retries, o.cooldown, o.maxCooldown))
	return f
}

// configure writes the configuration for worker processes, and loads it.
func (f *fleet) configure(format string, args ...any) *config.Config {
	f.t.Helper()
	f.file = filepath.Join(f.t.TempDir(), "nightshift.yaml")
	if err := os.WriteFile(f.file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		f.t.Fatal(err)
	}
	cfg, err := config.Load(f.file)
	if err != nil {
		f.t.Fatal(err)
	}
	return cfg
}

// connect reaches the fleet's Redis as a command does.
func (f *fleet) connect(cfg *config.Config) {
	f.t.Helper()
	var err error
	if f.conn, err = Connect(context.Background(), cfg, slog.New(slog.DiscardHandler)); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = f.conn.Close() })
}

// start starts a worker process; it is killed at the end of the test.
func (f *fleet) start() *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), f.env...), workerEnv+"="+f.file)
	cmd.Stderr = f.t.Output()
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// end tells a worker to stop and waits until it has: all that it knows is in Redis then.
func (f *fleet) end(cmd *exec.Cmd) {
	f.t.Helper()
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		f.t.Errorf("stop a worker: %v", err)
	}
}

func (f *fleet) submit(id string, n int, change ...func(*batch.Description)) {
	f.t.Helper()
	d := batch.Description{ID: id, Producer: "p", Queue: "q", CreatedAt: time.Now()}
	for _, c := range change {
		c(&d)
	}
	if err := f.conn.Batches.Submit(context.Background(), d, f.pack(id, n), batch.Submission{}); err != nil {
		f.t.Fatal(err)
	}
}

// pack makes the content of a batch of n lines.
func (f *fleet) pack(id string, n int) *batch.Packed {
	f.t.Helper()
	var content bytes.Buffer
	for i := range n {
		fmt.Fprintf(&content, `{"id":"c%d","prompt":"line %d"}`+"\n", i+1, i+1)
	}
	return f.packed(id, &content)
}

// packed is the content of a file; it is closed at the end of the test.
func (f *fleet) packed(id string, content io.Reader) *batch.Packed {
	f.t.Helper()
	r, err := batch.OpenReader(content, id)
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := batch.Pack(context.Background(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(p.Close)
	return p
}

func (f *fleet) status(id string) batch.Status {
	f.t.Helper()
	s, err := f.conn.Batches.Status(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fleet) until(limit time.Duration, what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

func (f *fleet) done(id string, limit time.Duration) batch.Status {
	f.t.Helper()
	f.until(limit, "batch "+id+" is done", func() bool { return f.status(id).State == batch.Done })
	return f.status(id)
}

// onceEach fails unless every one of n lines has one result, that of its own.
func (f *fleet) onceEach(id string, n int) {
	f.t.Helper()
	f.recordEach(id, n, func(r batch.Result) bool {
		want := "answer to line " + strings.TrimPrefix(r.CustomID, "c")
		return r.Response != nil && bytes.Contains(r.Response.Body, []byte(`"`+want+`"`))
	})
}

// recordEach fails unless every one of n lines has one result, a right one.
func (f *fleet) recordEach(id string, n int, right func(batch.Result) bool) {
	f.t.Helper()
	seen := map[string]bool{}
	_, err := f.conn.Batches.Results(context.Background(), id, 0, func(rec batch.Record) error {
		var r batch.Result
		if err := json.Unmarshal(rec.JSON, &r); err != nil {
			return err
		}
		if seen[r.CustomID] {
			f.t.Errorf("%s has two results", r.CustomID)
		}
		seen[r.CustomID] = true
		if !right(r) {
			f.t.Errorf("%s: not its own answer: %s", r.CustomID, rec.JSON)
		}
		return nil
	})
	if err != nil || len(seen) != n {
		f.t.Errorf("%d results, %v; want %d", len(seen), err, n)
	}
}
