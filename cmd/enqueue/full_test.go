package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/internal/cli"
)

// tap is a way to a Redis that calls a function, once, when so many bytes have
// gone there, and holds up what follows until that returns.
type tap struct {
	net.Listener
	to    string
	wg    sync.WaitGroup
	mu    sync.Mutex
	bytes int64
	at    int64
	then  func()
}

func newTap(t *testing.T, to string, at int64, then func()) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{Listener: l, to: to, at: at, then: then}
	p.wg.Go(p.serve)
	t.Cleanup(func() { _ = l.Close(); p.wg.Wait() })
	return p
}

func (p *tap) serve() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.wg.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
		p.wg.Go(func() { _, _ = io.Copy(io.MultiWriter(p, server), client); _ = server.Close() })
	}
}

// Write counts what goes to Redis, before it does.
func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes += int64(len(b)); p.then != nil && p.bytes >= p.at {
		p.then()
		p.then = nil
	}
	return len(b), nil
}

// digits are lines that hardly compress, each of about so many bytes.
func digits(lines, size int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, `{"id":"line-%d","prompt":"`, i)
		for range size / 16 {
			fmt.Fprintf(&b, "%016x", random.Uint64())
		}
		b.WriteString("\"}\n")
	}
	return b.String()
}

// stored is how many chunks of the batch b are there, and how many bytes each has.
func stored(t *testing.T, rdb *redis.Client) (chunks, each int64) {
	t.Helper()
	const key = "nightshift:{b:b}:chunks"
	chunks, err := rdb.HLen(context.Background(), key).Result()
	if err == nil && chunks > 0 {
		var all []string
		if all, err = rdb.HVals(context.Background(), key).Result(); err == nil {
			each = int64(len(strings.Join(all, ""))) / chunks
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return chunks, each
}

// used is how much memory a Redis uses.
func used(t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	info, err := rdb.Info(context.Background(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	number, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The memory of Redis fills while a batch is submitted to it, with a worker that
// waits for work. The submission ends with a clear error and is refused for now;
// the worker sees nothing of it. Once there is room for what is missing, and no
// more, the same command adds that.
func TestRedisFillsInTheMiddleOfASubmission(t *testing.T) {
	const lines, size, chunks = 201, 64 << 10, 201 / 3 // so many lines fit a chunk
	d := newDesk(t, strings.Replace(configuration("SIM"), "http://SIM/v1", "SIM", 1))
	rdb, ctx := d.redis.Client(t), context.Background()
	limit := func(bytes int64) {
		if err := rdb.ConfigSet(ctx, "maxmemory", strconv.FormatInt(bytes, 10)).Err(); err != nil {
			t.Error(err)
		}
	}
	d.work(t)
	file := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(file, []byte(digits(lines, size)), 0o600); err != nil {
		t.Fatal(err)
	}
	half := newTap(t, d.redis.Addr, 4<<20, func() { limit(1 << 20) })
	var stdout, stderr bytes.Buffer
	args := []string{"batch", "--id", "b", file, "--config", d.config}
	code := run(append(args, "--redis", "redis://"+half.Addr().String()+"/0"), nil, &stdout, &stderr)
	if code != cli.ExitRefused || stdout.Len() > 0 {
		t.Fatalf("exit %d, printed %q\n%s", code, &stdout, &stderr)
	}
	for _, want := range []string{
		"enqueue: error: submit batch b: write backlog: the memory of redis is full: raise maxmemory, or delete batches", "workers see nothing of the batch",
		"enqueue: hint: raise maxmemory of Redis", "then enqueue batch --id b " + file + " adds what is missing",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &stderr)
		}
	}
	there, each := stored(t, rdb)
	if t.Logf("%d chunks are there, of %d bytes", there, each); there == 0 || there >= chunks {
		t.Errorf("%d chunks are there, of %d", there, chunks)
	}
	if code, out, errs := d.enqueue("batch", "--id", "b", file); code != cli.ExitRefused || out != "" || !strings.Contains(errs, "redis has no room for ") {
		t.Errorf("the same with a full Redis: exit %d, %s%s", code, out, errs)
	}
	d.stands(t, batch.Enqueuing, 0)

	limit((used(t, rdb) + each*(chunks-there/2)) * 10 / 9) // not enough for all of it again
	if got := d.must(t, "batch", "--id", "b", file); got != "b\n" {
		t.Errorf("printed %q", got)
	}
	limit(0)
	if there, _ := stored(t, rdb); there != chunks {
		t.Errorf("%d chunks are there, want %d", there, chunks)
	}
	d.must(t, "watch", "b")
	d.stands(t, batch.Done, lines)
	results := d.must(t, "results", "b")
	if n := strings.Count(results, "\n"); n != lines {
		t.Errorf("%d results", n)
	}
}

// stands holds the batch b to a state, and the provider to the calls that it has seen.
func (d *desk) stands(t *testing.T, state batch.State, calls int64) {
	t.Helper()
	var st struct{ State batch.State }
	if err := json.Unmarshal([]byte(d.must(t, "status", "b", "--json")), &st); err != nil {
		t.Fatal(err)
	}
	if got := d.sim.Counts().Calls; st.State != state || got != calls {
		t.Errorf("the batch is %s after %d calls, want %s after %d", st.State, got, state, calls)
	}
}
