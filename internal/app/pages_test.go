package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/redistest"
	"nightshift/tasks"
)

// big is a dashboard on a Redis with much in it.
type big struct {
	testing.TB
	app *App
	rdb *redis.Client
}

// newBig has 40 breakers (of 8 providers), 20 workers and so many batches, of which
// one has so many lines.
func newBig(tb testing.TB, batches, lines int) *big {
	tb.Helper()
	server := redistest.Start(tb)
	var models strings.Builder
	for i := range 32 {
		fmt.Fprintf(&models, "  p%d/m%d: {tier: standard}\n", i%8, i)
	}
	var providers strings.Builder
	for i := range 8 {
		fmt.Fprintf(&providers, "  p%d: {base_url: \"http://127.0.0.1:1/v1\"}\n", i)
	}
	cfg, err := config.Parse("big.yaml", fmt.Appendf(nil, "redis: {url: %q}\nproviders:\n%smodels:\n%sladders:\n  l: {rungs: [{model: p0/m0}]}\nqueues:\n  q: {ladder: l}\ndashboard: {addr: \"127.0.0.1:0\"}\n",
		server.URL(), providers.String(), models.String()), nil)
	if err != nil {
		tb.Fatal(err)
	}
	a, err := New(tb.Context(), cfg, Options{Dashboard: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = a.Stop(context.Background()) })
	if err := a.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	b := &big{tb, a, server.Client(tb)}
	fleet := tasks.NewFleet(b.rdb)
	for i := range 20 {
		if _, err := fleet.Beat(tb.Context(), tasks.Heartbeat{ID: fmt.Sprintf("w%02d", i), ConfigHash: "c", Queues: map[string]tasks.QueueBeat{"q": {Slots: 50}}}); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range batches {
		n := 3
		if i == 0 {
			n = lines
		}
		b.submit(fmt.Sprintf("batch-%03d", i), n)
	}
	for _, k := range a.Conn().Keys[:8] {
		if err := a.Conn().Breakers.Force(tb.Context(), k, breaker.Force{Action: breaker.ForceOpen}); err != nil {
			tb.Fatal(err)
		}
	}
	return b
}

// submit submits a batch, lets lines of it wait, and ends others.
func (b *big) submit(id string, lines int) {
	b.Helper()
	read, write := io.Pipe()
	go func() {
		for i := range lines {
			_, _ = fmt.Fprintf(write, `{"id":"r%d","prompt":"x"}`+"\n", i)
		}
		_ = write.Close()
	}()
	ctx, store := b.Context(), b.app.Conn().Batches
	r, err := batch.OpenReader(read, id)
	if err != nil {
		b.Fatal(err)
	}
	packed, err := batch.Pack(ctx, r)
	if err != nil {
		b.Fatal(err)
	}
	defer packed.Close()
	d := batch.Description{ID: id, Queue: "q", Producer: "ann", CreatedAt: time.Now(), Deadline: time.Now().Add(time.Hour), Total: packed.Summary.Lines, Digest: packed.Summary.Digest, Again: true}
	if err := store.Submit(ctx, d, packed, batch.Submission{}); err != nil {
		b.Fatal(err)
	}
	refs, err := store.Release(ctx, id, 1, min(lines-1, 120), nil)
	if err != nil {
		b.Fatal(err)
	}
	for i, ref := range refs {
		lease := batch.Lease{Ref: ref, Token: "t"}
		if _, err := store.Begin(ctx, ref, lease.Token); err != nil {
			b.Fatal(err)
		}
		if i%5 > 0 {
			err = store.Suspend(ctx, lease, batch.Progress{Deferrals: 1}, batch.Wait{Model: "p0/m0", Reason: "breaker_open", Until: time.Now().Add(time.Minute)})
		} else {
			err = store.Finish(ctx, lease, batch.Progress{}, batch.Failed, batch.Result{Error: &batch.ResultError{Code: "timeout"}})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// get asks for a page and returns its length.
func (b *big) get(path string) int {
	resp, err := http.Get(strings.TrimSuffix(b.app.DashboardURL(), "/") + path)
	if err != nil {
		b.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: status %d, %v: %s", path, resp.StatusCode, err, body)
	}
	return len(body)
}

// commands is how many commands the server has run, those of scripts included, but
// not those that open a connection: how many a page opens is chance.
func (b *big) commands() int {
	b.Helper()
	info, err := b.rdb.InfoMap(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	sum := 0
	for name, stat := range info["Commandstats"] {
		if name == "cmdstat_hello" || strings.HasPrefix(name, "cmdstat_client|") {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
		n, err := strconv.Atoi(calls)
		if err != nil {
			b.Fatalf("%s: %s", name, stat)
		}
		sum += n
	}
	return sum
}

var bigPages = []string{"/", "/batches", "/batches/batch-000", "/batches/batch-000/lines/2", "/breakers", "/ladders", "/guard", "/fleet"}

// What a page asks of Redis does not depend on how many lines there are.
func TestPagesAskABoundedNumberOfCommands(t *testing.T) {
	ask := func(lines int) map[string]int {
		b := newBig(t, 20, lines)
		asked := map[string]int{}
		for _, path := range bigPages {
			b.get(path) // opens connections and loads scripts
			own := b.commands()
			own = b.commands() - own
			before := b.commands()
			b.get(path)
			asked[path] = b.commands() - before - own
		}
		http.DefaultClient.CloseIdleConnections()
		return asked
	}
	few, many := ask(300), ask(20_000)
	t.Log(few)
	for path, n := range few {
		if many[path] != n || n == 0 {
			t.Errorf("%s asks %d commands with few lines and %d with many", path, n, many[path])
		}
		if n > 600 { // 20 batches, 40 breakers, 20 workers
			t.Errorf("%s asks %d commands", path, n)
		}
	}
}

// The server's time for each page where there is much to show: 200 batches, of
// which one has a million lines, 40 breakers and 20 workers.
func BenchmarkPages(b *testing.B) {
	big := newBig(b, 200, 1_000_000)
	for _, path := range bigPages {
		b.Run(path, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = big.get(path)
			}
			b.ReportMetric(float64(size)/1024, "KiB/page")
		})
	}
}

// A page that is followed does not hold Stop up: its stream ends as it should.
func TestStopEndsStreams(t *testing.T) {
	b := newBig(t, 1, 10)
	resp, err := http.Get(b.app.DashboardURL() + "live?page=/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAtLeast(resp.Body, make([]byte, 64), 64); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- b.app.Stop(context.Background()) }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}
