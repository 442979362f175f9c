package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/internal/redistest"
)

const (
	benchLines = 20_000
	// benchAhead is how many tasks the keeper keeps pending. asynq's bare ones are all
	// pending from the start, so the keeper's first second, in which it learns how fast
	// a queue is, is no part of the comparison; its releases are.
	benchAhead = 2000
	// benchRounds is how often the two take their turns: the speed of a machine that
	// others use changes within seconds.
	benchRounds = 3
)

// BenchmarkHandler runs lines through the whole handler, keeper, ladder and gate
// included, with an instant answer, and as many tasks through a bare asynq handler
// with the same number of servers, of the same concurrency, on the same Redis, in
// turn. It counts the round trips of a line: those of its attempt, and asynq's
// beside them.
func BenchmarkHandler(b *testing.B) {
	for _, slots := range []int{16, serverSlots, serverSlots * maxServers} {
		b.Run(fmt.Sprintf("servers=%d/slots=%d", len(split(slots)), slots), func(b *testing.B) { benchHandler(b, slots) })
	}
}

func benchHandler(b *testing.B, slots int) {
	r := newRig(b, batch.Options{})
	var bare, ours benchRun
	runs := 0
	for b.Loop() {
		for range benchRounds {
			bare = bare.plus(bareRun(b, r, runs, slots))
			ours = ours.plus(ourRun(b, r, runs, slots))
			runs++
		}
	}
	n := float64(benchLines * runs)
	b.ReportMetric(n/ours.took.Seconds(), "lines/s")
	b.ReportMetric(n/bare.took.Seconds(), "asynq_tasks/s")
	b.ReportMetric(bare.took.Seconds()/ours.took.Seconds(), "of_bare_asynq")
	b.ReportMetric(float64(ours.trips)/n, "rtts/line")
	b.ReportMetric(float64(ours.queueTrips)/n, "asynq_rtts/line")
	b.ReportMetric(ours.redis/n*1e6, "redis_us/line")
	b.ReportMetric(bare.redis/n*1e6, "asynq_redis_us/task")
	b.ReportMetric(ours.cpu/n*1e6, "go_us/line")
	b.ReportMetric(bare.cpu/n*1e6, "asynq_go_us/task")
	b.ReportMetric(0, "ns/op")
}

func ourRun(b *testing.B, r *rig, i, slots int) benchRun {
	id := fmt.Sprint("bench", i)
	r.submit(id, benchLines, nil)
	var line, queue redistest.Trips
	o := r.options(nil)
	store := r.client(3)
	store.AddHook(&line)
	o.QueueRedis.AddHook(&queue)
	o.EnqueueRedis.AddHook(&queue)
	lines := batch.NewRedis(store, batch.Options{})
	o.Lines = lines
	o.Queues[0].Slots, o.Queues[0].Ladder = slots, benchLadder(b, r, &line, instant{})
	o.ReleaseAhead = map[string]int{"q": benchAhead}
	o.Logger = slog.New(slog.DiscardHandler)
	var ended atomic.Int64
	all := make(chan struct{})
	o.Observer = endings{&ended, all}
	w := NewWorker(o)
	watch := startRun(b, r)
	if err := w.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	<-all
	run := watch.end(b, r)
	run.trips, run.queueTrips = line.N(), queue.N()
	if err := w.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
	return run
}

// endings closes all when benchLines lines have ended.
type endings struct {
	n   *atomic.Int64
	all chan struct{}
}

func (endings) Deferred(string, string)  {}
func (endings) Answered(string, By, int) {}
func (endings) Notified(Notification)    {}
func (e endings) LinesEnded(_ string, _ batch.Outcome, n int) {
	if e.n.Add(int64(n)) == benchLines {
		close(e.all)
	}
}

func bareRun(b *testing.B, r *rig, i, slots int) benchRun {
	queue := fmt.Sprint("bare", i)
	rdb := r.client(3)
	enqueueAll(b, rdb, queue, func(n int) []byte { return fmt.Appendf(nil, `{"v":1,"b":"bench","l":%d}`, n) }, benchLines)
	var done atomic.Int64
	all := make(chan struct{})
	watch := startRun(b, r)
	var servers []*asynq.Server
	for _, n := range split(slots) {
		s := asynq.NewServerFromRedisClient(rdb, asynq.Config{
			Concurrency: n, Queues: map[string]int{queue: 1}, TaskCheckInterval: 100 * time.Millisecond,
			LogLevel: asynq.ErrorLevel,
		})
		if err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			if done.Add(1) == benchLines {
				close(all)
			}
			return nil
		})); err != nil {
			b.Fatal(err)
		}
		servers = append(servers, s)
	}
	<-all
	run := watch.end(b, r)
	for _, s := range servers {
		s.Shutdown()
	}
	return run
}

// enqueueAll is asynq's client with 64 goroutines.
func enqueueAll(b testing.TB, rdb redis.UniversalClient, queue string, payload func(int) []byte, n int, more ...asynq.Option) {
	client := asynq.NewClientFromRedisClient(rdb)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				o := append([]asynq.Option{asynq.Queue(queue), asynq.TaskID(fmt.Sprintf("%s:%08d", queue, i)), asynq.MaxRetry(5)}, more...)
				_, err := client.Enqueue(asynq.NewTask(TaskType, payload(i)), o...)
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkTexts has the keeper write texts for a backlog of lines of 1 KB; the
// margin before a deadline counts on a thousand of them.
func BenchmarkTexts(b *testing.B) {
	r := newRig(b, batch.Options{})
	o := r.options(nil)
	o.LastResorts = map[string]LastResort{"q": lastResort(b, atDeadline)}
	k := newKeeper("k", o, NewFleet(o.EnqueueRedis))
	k.now = time.Now
	var took time.Duration
	for i := 0; b.Loop(); i++ {
		d := batch.Description{ID: fmt.Sprint("texts", i), Producer: "p", Queue: "q", CreatedAt: time.Now(), Again: true}
		d.Deadline = d.CreatedAt.Add(time.Hour)
		if err := r.submitFile(d, file(benchLines, 1000)); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := k.textsOf(context.Background(), batch.Backlog{Description: d}, start.Add(time.Hour)); err != nil {
			b.Fatal(err)
		}
		took += time.Since(start)
		r.done(d.ID, time.Second)
	}
	b.ReportMetric(float64(benchLines*b.N)/took.Seconds(), "texts/s")
	b.ReportMetric(0, "ns/op")
}
