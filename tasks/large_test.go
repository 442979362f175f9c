package tasks

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/ladder"
)

// requests is a file of n lines that is made while it is read.
type requests struct {
	made, n int64
	left    []byte
}

// Read implements io.Reader.
func (r *requests) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if r.made == r.n {
			return 0, io.EOF
		}
		r.made++
		r.left = append(request(r.made, 300), '\n')
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// large is a batch of many lines.
type large struct {
	*rig
	rdb   redis.UniversalClient
	lines int64
}

func newLarge(t testing.TB, lines int64, args ...string) *large {
	l := &large{rig: newRig(t, batch.Options{}, args...), lines: lines}
	l.rdb = l.client(3)
	o := l.options(climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) }))
	o.Queues[0].Slots = 32
	o.Logger = slog.New(slog.DiscardHandler)
	w := NewWorker(o)
	l.must(w.Start(context.Background()))
	t.Cleanup(func() { l.must(w.Stop(context.Background())) })
	return l
}

func (l *large) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// life leads a batch through all that can become of one, in phases.
func (l *large) life(id string, phase func(name string, do func())) {
	ctx := context.Background()
	var s batch.Status
	phase("submit", func() { l.submit(id) })
	phase("list", l.look)
	phase("follow", func() { l.follow(id, l.lines/50) })
	l.must(l.store.Update(ctx, id, batch.Update{Deadline: time.Now().Add(time.Second)}))
	phase("expire", func() { s = l.done(id, 10*time.Minute) })
	expired := s.Expired
	if expired == 0 || s.Succeeded+expired != l.lines {
		l.t.Errorf("after the deadline: %+v", s)
	}
	phase("results", func() { l.follow(id, l.lines) })
	phase("retry", func() {
		n, err := l.store.Retry(ctx, id, batch.Retry{Deadline: time.Now().Add(time.Hour)}, nil)
		if err != nil || n != expired {
			l.t.Errorf("%d lines of %d are retried, %v", n, expired, err)
		}
	})
	phase("cancel", func() {
		l.must(l.store.Cancel(ctx, id))
		s = l.done(id, 10*time.Minute)
	})
	if s.Expired != 0 || s.Cancelled == 0 || s.Succeeded+s.Cancelled != l.lines {
		l.t.Errorf("after the cancellation: %+v", s)
	}
	phase("delete", func() {
		d, err := l.store.Vanish(ctx, id)
		l.must(err)
		l.must(l.store.Free(ctx, d))
	})
	l.nothingOf(id)
}

func (l *large) submit(id string) {
	src, err := batch.OpenReader(&requests{n: l.lines}, id)
	l.must(err)
	content, err := batch.Pack(context.Background(), src)
	l.must(err)
	defer content.Close()
	d := batch.Description{ID: id, Producer: "p", Queue: "q", CreatedAt: time.Now(), Again: true}
	l.must(l.store.Submit(context.Background(), d, content, batch.Submission{}))
}

// look does what pages, commands and the keeper do all the time.
func (l *large) look() {
	ctx := context.Background()
	for range 50 {
		_, err := l.store.List(ctx)
		l.must(err)
		_, err = l.store.Backlogs(ctx)
		l.must(err)
	}
}

// follow reads results as they come until count lines have ended.
func (l *large) follow(id string, count int64) {
	var next int64
	l.until(10*time.Minute, fmt.Sprint(count, " results"), func() bool {
		var err error
		next, err = l.store.Results(context.Background(), id, next, func(batch.Record) error { return nil })
		l.must(err)
		return next >= count
	})
}

// nothingOf fails where Redis holds a key of the batch, or anything that names it.
func (l *large) nothingOf(id string) {
	ctx := context.Background()
	for _, k := range l.rdb.Keys(ctx, "nightshift:*").Val() {
		if !strings.Contains(k, "{fleet}") {
			l.t.Errorf("%s is left of %s", k, id)
		}
	}
	l.until(time.Minute, "its tasks are gone", func() bool { return len(l.rdb.Keys(ctx, "asynq:{q}:t:*").Val()) == 0 })
}

// A large batch is submitted, listed, followed, and expires, is retried, cancelled
// and deleted while workers run: counts add up, and nothing of it is left in Redis.
func TestTheLifeOfALargeBatch(t *testing.T) {
	t.Parallel()
	newLarge(t, 30_000).life("large", func(_ string, do func()) { do() })
}

// BenchmarkMillion leads a batch of a million lines through all of its life beside a
// worker, and tells how long each part took, and how long Redis let a PING wait.
func BenchmarkMillion(b *testing.B) {
	l := newLarge(b, 1_000_000, "--slowlog-log-slower-than", "10000")
	worst := pings(b, l.redis)
	phase := func(name string, do func()) { l.measure(b, name, worst, do) }
	before := l.used()
	for b.Loop() {
		phase("idle", func() { time.Sleep(10 * time.Second) }) // what this machine does by itself
		l.life("million", phase)
		l.until(time.Minute, "what was unlinked is freed", func() bool { return l.memory("lazyfree_pending_objects:") == 0 })
	}
	b.ReportMetric(float64(l.used()-before)/(1<<20), "left_MiB")
	b.ReportMetric(0, "ns/op")
}

// measure tells how long something takes, the longest PING meanwhile, and the
// commands over 10 ms.
func (l *large) measure(b *testing.B, name string, pings func() worstPings, do func()) {
	ctx := context.Background()
	l.rdb.SlowLogReset(ctx)
	pings()
	start := time.Now()
	do()
	took, worst := time.Since(start), pings()
	slow, err := l.rdb.SlowLogGet(ctx, 128).Result()
	l.must(err)
	longest := time.Duration(0)
	for _, s := range slow {
		longest = max(longest, s.Duration)
	}
	b.Logf("%-8s %7.2f s, worst PING %6.1f ms, %6.1f ms of them not for want of a CPU; %d commands over 10 ms, the longest %s",
		name, took.Seconds(), worst.seen.Seconds()*1e3, worst.redis.Seconds()*1e3, len(slow), longest)
	b.ReportMetric(took.Seconds(), name+"_s")
	b.ReportMetric(worst.seen.Seconds()*1e3, name+"_ping_ms")
	b.ReportMetric(worst.redis.Seconds()*1e3, name+"_redis_ms")
}

func (l *large) used() int64 { return l.memory("used_memory:") }

// memory is a number of Redis's own about its memory.
func (l *large) memory(field string) int64 {
	info, err := l.rdb.Info(context.Background(), "memory").Result()
	l.must(err)
	_, rest, _ := strings.Cut(info, "\n"+field)
	n, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
	l.must(err)
	return n
}
