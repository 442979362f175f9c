package tasks

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/ladder"
)

// Twenty lines are held, four may be called at a time, and calls are slow: the last
// wait their turn for longer than a lease of a line lasts. Nobody can take one of
// them meanwhile, though somebody tries all the time.
func TestCase47_NoLeaseIsLostWhileALineWaitsItsTurn(t *testing.T) {
	t.Parallel()
	const lines, calls, call, lease = 20, 4, 1500 * time.Millisecond, 3 * time.Second
	r := newRig(t, batch.Options{Lease: lease})
	r.submit("b", lines, nil)
	turns, held := make(chan struct{}, calls), make(chan struct{}, lines)
	r.worker(func(ctx context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		held <- struct{}{}
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return ladder.Outcome{End: ladder.Interrupted, Progress: q.Progress, Err: ctx.Err()}
		}
		time.Sleep(call)
		return answer(q)
	}, func(o *Options) {
		o.Queues[0].Slots, o.RenewEvery = lines, lease/15
		o.ReleaseAhead = map[string]int{"q": lines}
	})
	for range lines {
		<-held
	}
	var thief sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	thief.Go(func() { r.steals(ctx, lines) })
	s := r.done("b", time.Minute)
	stop()
	thief.Wait()
	if _, attempts := r.seen.total(); s.Succeeded != lines || s.Calls != lines || s.WastedUSD != 0 || attempts != lines {
		t.Errorf("%d attempts, status: %+v", attempts, s)
	}
}

// steals asks for the lease of every line of the batch until the context ends, and
// fails where it gets one.
func (r *rig) steals(ctx context.Context, lines int64) {
	for n := int64(1); ctx.Err() == nil; n = n%lines + 1 {
		ref := batch.Ref{Batch: "b", Line: n}
		b, err := r.store.Begin(ctx, ref, newToken())
		if err == nil && b.Verdict != batch.Held && b.Verdict != batch.Over {
			r.t.Errorf("%s was free to take: %+v", ref, b)
		}
	}
}

// Redis forgets the whole queue, tasks that wait, are pending or were taken: the
// lines are in the batch, and come back.
func TestLinesComeBackWhenTheQueueIsLost(t *testing.T) {
	t.Parallel()
	const lines, waiting = 40, 10
	r := newRig(t, batch.Options{})
	r.submit("b", lines, nil)
	shut := func(o *Options) {
		o.Breakers = &doors{open: map[string]bool{"sim/a": true}}
		o.ReleaseAhead = map[string]int{"q": lines / 2}
	}
	var begun atomic.Int64
	defers := climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if begun.Add(1) <= waiting {
			return deferred(q, "sim/a", time.Now().Add(time.Hour))
		}
		<-q.Stop
		return ladder.Outcome{End: ladder.Interrupted, Progress: q.Progress}
	})
	w := r.worker(defers, shut)
	r.until(20*time.Second, "lines wait, are taken and are pending", func() bool {
		n, err := r.tasks("q")
		return err == nil && n.Retry == waiting && n.Active > 0 && n.Pending > 0
	})
	if err := w.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	forget(t, r.client(3), "asynq:*")
	r.worker(climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		return answer(q)
	}), func(o *Options) {
		shut(o)
		r.aMinuteLater(o)
	})
	if s := r.done("b", 40*time.Second); s.Succeeded != lines || s.Calls != lines {
		t.Errorf("status: %+v", s)
	}
	if n, attempts := r.seen.total(); n != lines || attempts != lines {
		t.Errorf("%d attempts of %d lines", attempts, n)
	}
}

// forget deletes all keys of a pattern.
func forget(t *testing.T, rdb redis.UniversalClient, pattern string) {
	t.Helper()
	ctx := context.Background()
	keys, err := rdb.Keys(ctx, pattern).Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("keys of %s: %v, %v", pattern, keys, err)
	}
	if err := rdb.Del(ctx, keys...).Err(); err != nil {
		t.Fatal(err)
	}
}
