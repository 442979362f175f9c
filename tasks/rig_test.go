package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"nightshift/batch"
	"nightshift/internal/redistest"
	"nightshift/ladder"
	"nightshift/provider"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(pingerEnv); addr != "" {
		if err := pinger(addr, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// rig is a real Redis with batches on it; workers run ladders of the test's own.
type rig struct {
	t      testing.TB
	redis  *redistest.Server
	store  *batch.Redis
	seen   *counter
	rounds *atomic.Int64 // of keepers
}

func newRig(t testing.TB, o batch.Options, args ...string) *rig {
	s := redistest.Start(t, args...)
	return &rig{t: t, redis: s, store: batch.NewRedis(s.Client(t), o), seen: newCounter(), rounds: new(atomic.Int64)}
}

// climb is a ladder of a test's own.
type climb func(ctx context.Context, r ladder.Request, j ladder.Journal) ladder.Outcome

func (c climb) Attempt(ctx context.Context, r ladder.Request, j ladder.Journal) ladder.Outcome {
	return c(ctx, r, j)
}

// answer is a ladder's answer after one call.
func answer(r ladder.Request) ladder.Outcome {
	p := r.Progress
	p.Calls = append(p.Calls, provider.Call{
		Model: "sim/a", Kind: provider.OK, StartedAt: time.Now(), Cost: provider.Dollars(0.001),
	})
	body := fmt.Sprintf(`{"choices":[{"message":{"content":"answer to %s"}}]}`, r.CustomID)
	return ladder.Outcome{End: ladder.Answered, Progress: p, Answer: ladder.Answer{
		Response: ladder.Response{StatusCode: 200, Body: json.RawMessage(body)},
		Provider: "sim", Model: "sim/a", Tier: "standard",
	}}
}

func deferred(r ladder.Request, model string, until time.Time) ladder.Outcome {
	return ladder.Outcome{
		End: ladder.Deferred, Progress: r.Progress,
		Waits: []ladder.Wait{{Model: model, Reason: ladder.ReasonBreaker, Until: until}},
	}
}

// counter counts attempts by line.
type counter struct {
	mu sync.Mutex
	n  map[int64]int
}

func newCounter() *counter { return &counter{n: map[int64]int{}} }

func (c *counter) add(line int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[line]++
	return c.n[line]
}

func (c *counter) total() (lines, attempts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.n {
		attempts += n
	}
	return len(c.n), attempts
}

// silent is an observer that counts nothing.
type silent struct{}

func (silent) Deferred(string, string)               {}
func (silent) LinesEnded(string, batch.Outcome, int) {}
func (silent) Answered(string, By, int)              {}
func (silent) Notified(Notification)                 {}

// doors says to the keeper which models' breakers are open.
type doors struct {
	mu   sync.Mutex
	open map[string]bool
}

func (d *doors) Doors(context.Context, []string) (map[string]Door, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]Door{}
	for m, is := range d.open {
		all[m] = Door{Open: !is}
	}
	return all, nil
}

func (d *doors) set(model string, open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[model] = open
}

// worker starts a worker of queue "q"; change edits its options.
func (r *rig) worker(c climb, change func(*Options)) *Worker {
	r.t.Helper()
	o := r.options(c)
	if change != nil {
		change(&o)
	}
	w := NewWorker(o)
	if err := w.Start(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = w.Stop(context.Background()) })
	return w
}

func (r *rig) options(c climb) Options {
	return Options{
		Queues:     []Queue{{Name: "q", Slots: 5, Retries: 2, Ladder: c, MaxCooldown: time.Minute}},
		Lines:      r.store,
		Backlog:    counted{r.store, r.rounds},
		Breakers:   &doors{open: map[string]bool{}},
		QueueRedis: r.client(40), EnqueueRedis: r.client(3),
		ShutdownTimeout: 5 * time.Second, Observer: silent{}, Logger: slog.New(slog.NewTextHandler(r.t.Output(), nil)),
	}
}

// aMinuteLater lets a worker live a little more than a minute from now, so that
// its keeper looks for the tasks of lines that were just released.
func (r *rig) aMinuteLater(o *Options) {
	later := batch.NewRedis(r.client(3), batch.Options{
		Now: func() time.Time { return time.Now().Add(sweepAge + time.Second) },
	})
	o.Lines, o.Backlog = later, later
}

func (r *rig) client(retries int) redis.UniversalClient {
	c := redis.NewClient(&redis.Options{
		Addr: r.redis.Addr, MaxRetries: retries, MinRetryBackoff: 50 * time.Millisecond, MaxRetryBackoff: 500 * time.Millisecond,
	})
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// request is a line of about the given size, at least 120 bytes; its text
// differs from line to line as much as unrelated texts of common words do.
func request(n int64, size int) []byte {
	var text strings.Builder
	for seed := uint64(n)*2654435761 + 1; text.Len() < size-120; {
		seed = seed*6364136223846793005 + 1442695040888963407
		text.WriteString(words[seed>>59])
		text.WriteByte(' ')
	}
	return fmt.Appendf(nil, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"%s"}]}}`, n, text.String())
}

var words = strings.Fields("night shift batch queue model line answer price token window ladder rung call probe open closed " +
	"summary title product colour review order street garden candle water paper light market number letter bridge")

// file is the content of a batch of n lines.
func file(n int64, size int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.Write(request(i+1, size))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// submit validates and submits a batch of n lines for queue "q".
func (r *rig) submit(id string, n int64, change func(*batch.Description)) {
	r.t.Helper()
	d := batch.Description{ID: id, Producer: "p", Queue: "q", CreatedAt: time.Now(), Again: true}
	if change != nil {
		change(&d)
	}
	if err := r.submitFile(d, file(n, 0)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) submitFile(d batch.Description, content []byte) error {
	src, err := batch.OpenReader(bytes.NewReader(content), d.ID)
	if err != nil {
		return err
	}
	p, err := batch.Pack(context.Background(), src)
	if err != nil {
		return err
	}
	defer p.Close()
	return r.store.Submit(context.Background(), d, p, batch.Submission{})
}

// done waits until the batch is done and returns its status.
func (r *rig) done(id string, limit time.Duration) batch.Status {
	r.t.Helper()
	var s batch.Status
	r.until(limit, "batch "+id+" is done", func() bool {
		var err error
		s, err = r.store.Status(context.Background(), id)
		return err == nil && s.State == batch.Done
	})
	if s.Succeeded+s.Failed+s.Expired+s.Cancelled+s.Outstanding != s.Total || s.Outstanding != 0 {
		r.t.Fatalf("counts do not add up: %+v", s)
	}
	return s
}

// counted counts the rounds of keepers.
type counted struct {
	Backlog
	rounds *atomic.Int64
}

func (c counted) Refresh(ctx context.Context, known map[string]batch.Backlog) ([]batch.Backlog, error) {
	c.rounds.Add(1)
	return c.Backlog.Refresh(ctx, known)
}

// lets waits while a keeper makes the rounds that it has time for in d, for those
// who want to see that it does nothing in them.
func (r *rig) lets(d time.Duration) {
	r.t.Helper()
	last := r.rounds.Load() + int64(d/tickEvery) + 1
	r.until(time.Minute, "the keeper goes on", func() bool { return r.rounds.Load() > last })
}

func (r *rig) until(limit time.Duration, what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// results returns the records of a batch by custom ID, and fails on a double.
func (r *rig) results(id string) map[string]batch.Result {
	r.t.Helper()
	all := map[string]batch.Result{}
	_, err := r.store.Results(context.Background(), id, 0, func(rec batch.Record) error {
		var res batch.Result
		if err := json.Unmarshal(rec.JSON, &res); err != nil {
			return err
		}
		if _, twice := all[res.CustomID]; twice {
			r.t.Errorf("%s has two results", res.CustomID)
		}
		all[res.CustomID] = res
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// tasks counts a queue's tasks by asynq's state.
func (r *rig) tasks(queue string) (Counts, error) {
	states, err := NewQueues(r.redis.Client(r.t)).States(context.Background(), []string{queue})
	return states[queue].Counts, err
}
