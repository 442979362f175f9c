package tasks

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/ladder"
)

// dropping moves lines and then dies before they are enqueued, as a keeper that
// is killed in the middle of a release.
type dropping struct {
	Backlog
	released atomic.Int64
}

func (d *dropping) Release(ctx context.Context, id string, epoch int64, n int, room map[int]int) ([]batch.Ref, error) {
	refs, err := d.Backlog.Release(ctx, id, epoch, n, room)
	d.released.Add(int64(len(refs)))
	return nil, errors.Join(err, errors.New("killed here"))
}

// Another keeper takes over, brings back what was moved and not enqueued, and
// no line runs twice.
func TestCase29_KeeperDiesInTheMiddleOfARelease(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 20, nil)
	c := climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		return answer(q)
	})
	drop := &dropping{Backlog: r.store}
	first := r.worker(c, func(o *Options) { o.Backlog = drop })
	r.until(10*time.Second, "lines were moved and dropped", func() bool { return drop.released.Load() > 0 })
	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.worker(c, r.aMinuteLater)
	if s := r.done("b", 40*time.Second); s.Succeeded != 20 {
		t.Errorf("status: %+v", s)
	}
	if lines, attempts := r.seen.total(); lines != 20 || attempts != 20 {
		t.Errorf("%d attempts of %d lines", attempts, lines)
	}
}

// A keeper that stalled and comes back with its old epoch is refused.
func TestCase29_AnOldKeeperIsFencedOff(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 4, nil)
	ctx := context.Background()
	if refs, err := r.store.Release(ctx, "b", 7, 1, map[int]int{0: 9}); err != nil || len(refs) != 1 {
		t.Fatalf("%v, %v", refs, err)
	}
	if refs, err := r.store.Release(ctx, "b", 6, 1, map[int]int{0: 9}); !errors.Is(err, batch.ErrFenced) {
		t.Errorf("the old keeper released %v, %v", refs, err)
	}
}

// epochs notes the epoch that each release carries.
type epochs struct {
	Backlog
	mu   sync.Mutex
	seen []int64
}

func (e *epochs) Release(ctx context.Context, id string, epoch int64, n int, room map[int]int) ([]batch.Ref, error) {
	e.mu.Lock()
	e.seen = append(e.seen, epoch)
	e.mu.Unlock()
	return e.Backlog.Release(ctx, id, epoch, n, room)
}

func (e *epochs) last() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen) == 0 {
		return 0
	}
	return e.seen[len(e.seen)-1]
}

func TestReleasesCarryTheEpochOfTheLease(t *testing.T) {
	r := newRig(t, batch.Options{})
	c := climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) })
	var before int64
	for _, id := range []string{"b1", "b2"} {
		e := &epochs{Backlog: r.store}
		r.submit(id, 2, nil)
		w := r.worker(c, func(o *Options) { o.Backlog = e })
		r.done(id, 20*time.Second)
		if now := e.last(); now <= before {
			t.Errorf("epoch %d after %d", now, before)
		} else {
			before = now
		}
		if err := w.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// A reply that was lost makes the keeper, or its successor, enqueue again.
func TestEnqueueTwiceIsOneTask(t *testing.T) {
	r := newRig(t, batch.Options{})
	q := newQueues(r.client(3))
	for range 2 {
		if err := q.enqueue(context.Background(), "q", batch.Ref{Batch: "b", Line: 1}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := q.inspector.GetQueueInfo("q")
	if err != nil || info.Pending != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if n, _, err := q.pending(context.Background(), "q"); err != nil || n != info.Pending {
		t.Errorf("pending %d, %v; asynq's inspector says %d", n, err, info.Pending)
	}
}

// Workers that stop at any moment, also in the middle of a dequeue, lose and
// double nothing.
func TestCase43_StoppedFiveHundredTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{})
	const n, fleets, stops = 3000, 20, 25
	r.submit("b", n, nil)
	c := climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		return answer(q)
	})
	var wg sync.WaitGroup
	for range fleets {
		wg.Go(func() {
			for i := range stops {
				w := NewWorker(r.options(c))
				if err := w.Start(context.Background()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Duration(i*7) * time.Millisecond) // a different moment each time
				if err := w.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.worker(c, nil)
	if s := r.done("b", 90*time.Second); s.Succeeded != n {
		t.Errorf("status: %+v", s)
	}
	if lines, attempts := r.seen.total(); lines != n || attempts != n {
		t.Errorf("%d attempts of %d lines", attempts, lines)
	}
}

// What a person deletes or archives in the queue dashboard comes back.
func TestVanishedTasksComeBack(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 2, nil)
	hold := climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if r.seen.add(q.Line) == 1 {
			return deferred(q, "sim/a", time.Now().Add(time.Hour))
		}
		return answer(q)
	})
	shut := func(o *Options) { o.Breakers = &doors{open: map[string]bool{"sim/a": true}} }
	w := r.worker(hold, shut)
	r.until(20*time.Second, "both lines wait", func() bool {
		n, err := r.tasks("q")
		return err == nil && n.Retry == 2
	})
	if err := w.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	in := asynq.NewInspector(redisOptions(r.redis))
	defer in.Close()
	if err := in.DeleteTask("q", "b:00000001.0"); err != nil {
		t.Fatal(err)
	}
	if err := in.ArchiveTask("q", "b:00000002.0"); err != nil {
		t.Fatal(err)
	}
	r.worker(hold, func(o *Options) {
		shut(o)
		r.aMinuteLater(o)
	})
	if s := r.done("b", 40*time.Second); s.Succeeded != 2 {
		t.Errorf("status: %+v", s)
	}
}

// A sweep that cannot finish in one round goes on in the next, and those of
// thousands of lines take few round trips.
func TestSweepOfManyLinesMakesProgress(t *testing.T) {
	r := newRig(t, batch.Options{})
	const n = sweepMost + 1500
	r.submit("b", n, nil)
	ctx := context.Background()
	for released := 0; released < n; { // a script moves some thousands at most
		refs, err := r.store.Release(ctx, "b", 1, n, map[int]int{0: n})
		if err != nil || len(refs) == 0 {
			t.Fatalf("%d released, %v", released, err)
		}
		released += len(refs)
	}
	o := r.options(nil)
	k := newKeeper("k", o, NewFleet(o.EnqueueRedis))
	backlogs, err := r.store.Backlogs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	backlogs[0].Now = backlogs[0].Now.Add(sweepAge + time.Second)
	for round, want := range []int{sweepMost, n} {
		if err := k.sweep(ctx, backlogs); err != nil {
			t.Fatal(err)
		}
		if got, _, err := k.queue.pending(ctx, "q"); err != nil || got != want {
			t.Fatalf("after round %d: %d tasks, %v; want %d", round+1, got, err, want)
		}
	}
}

// A worker whose clock is ahead of Redis does not take a deadline for passed.
func TestDeadlinesAreOfTheClockOfRedis(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 5, func(d *batch.Description) { d.Deadline = time.Now().Add(time.Minute) })
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if left := time.Until(q.Deadline.Add(-time.Hour)); left < 0 || left > time.Minute {
			t.Errorf("%s are left by the worker's clock", left)
		}
		return answer(q)
	}, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(time.Hour) } })
	if s := r.done("b", 20*time.Second); s.Succeeded != 5 {
		t.Errorf("status: %+v", s)
	}
}

// A keeper whose configuration lacks a model does not take it for closed.
func TestUnknownBreakersWakeNobody(t *testing.T) {
	e := batch.OutEntry{Wait: batch.Wait{Open: "p/a p/z"}}
	for name, c := range map[string]struct {
		doors map[string]Door
		want  bool
	}{
		"both shut":        {map[string]Door{"p/a": {}, "p/z": {}}, false},
		"one is unknown":   {map[string]Door{"p/a": {}}, false},
		"none is known":    {nil, false},
		"the known closed": {map[string]Door{"p/a": {Open: true}}, true},
	} {
		if got := anyClosed(e, c.doors); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// One batch that cannot be read, as one of a newer version might be, stops no other.
func TestADamagedBatchStopsNoOther(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("bad", 5, nil)
	r.submit("good", 5, nil)
	if err := r.client(1).HSet(context.Background(), "nightshift:{b:bad}:meta", "d", "{broken").Err(); err != nil {
		t.Fatal(err)
	}
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) }, nil)
	r.done("good", 20*time.Second)
}

func TestTroubleIsToldOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	k := &Keeper{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	for range 10 {
		k.complain(errors.New("bad batch"))
	}
	k.complain(errors.New("another"))
	k.complain(nil)
	k.complain(errors.New("another"))
	now = now.Add(time.Minute)
	k.complain(errors.New("another"))
	if n := strings.Count(out.String(), "keeper's round failed"); n != 4 {
		t.Errorf("told %d times, want 4:\n%s", n, out.String())
	}
}

func TestLinesExpireOnTime(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 500, func(d *batch.Description) { d.Deadline = time.Now().Add(2 * time.Second) })
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if q.Line <= 3 {
			return answer(q)
		}
		return deferred(q, "sim/a", time.Now().Add(time.Hour))
	}, func(o *Options) { o.Breakers = &doors{open: map[string]bool{"sim/a": true}} })
	s := r.done("b", 20*time.Second)
	if s.Succeeded != 3 || s.Expired != 497 {
		t.Errorf("status: %+v", s)
	}
	if res := r.results("b")["c400"]; res.Error == nil || res.Error.Code != batch.CodeExpired {
		t.Errorf("result: %+v", res)
	}
}

// A cancelled batch settles though nobody asks for it; what was finished stays
// and a call in flight keeps its answer (also cases 31, 37, 42).
func TestCancelledBatchSettles(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 300, nil)
	begun, goOn := make(chan struct{}, 300), make(chan struct{})
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		begun <- struct{}{}
		if q.Line > 10 {
			<-goOn
		}
		return answer(q)
	}, nil)
	for range 15 { // 10 answered, 5 in flight
		<-begun
	}
	if err := r.store.Cancel(context.Background(), "b"); err != nil {
		t.Fatal(err)
	}
	r.until(20*time.Second, "the waiting lines are cancelled", func() bool {
		s, err := r.store.Status(context.Background(), "b")
		return err == nil && s.Cancelled == 285
	})
	close(goOn)
	if s := r.done("b", 20*time.Second); s.Succeeded != 15 || s.Cancelled != 285 {
		t.Errorf("status: %+v", s)
	}
	if len(r.results("b")) != 300 {
		t.Error("not every line has a result")
	}
}
