package tasks

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

// A batch of half a million lines, then one of two thousand whose deadline is
// earlier, of another producer: the second begins at once, also where the first
// will need all of its time.
func TestCase55_ASmallBatchBehindAHugeOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{})
	const huge, small = 500_000, 2_000
	r.submit("huge", huge, func(d *batch.Description) {
		d.Producer, d.Deadline = "night", time.Now().Add(24*time.Hour)
	})
	var begun sync.Map // batch -> when its first line was begun
	var lines atomic.Int64
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		begun.LoadOrStore(q.Batch, time.Now())
		lines.Add(1)
		time.Sleep(20 * time.Millisecond) // a call
		return answer(q)
	}, nil)
	r.until(60*time.Second, "the huge batch is under way", func() bool { return lines.Load() > 50 })
	submitted := time.Now()
	r.submit("small", small, func(d *batch.Description) {
		d.Producer, d.Deadline = "day", time.Now().Add(12*time.Hour)
	})
	r.until(60*time.Second, "the small batch is under way", func() bool { _, ok := begun.Load("small"); return ok })
	at, _ := begun.Load("small")
	t.Logf("begun %s after its submission", at.(time.Time).Sub(submitted))
	r.until(60*time.Second, "some lines of it are done", func() bool {
		s, err := r.store.Status(context.Background(), "small")
		return err == nil && s.Succeeded >= 20
	})
	if s, err := r.store.Status(context.Background(), "huge"); err != nil || s.Outstanding < huge-10_000 {
		t.Errorf("the huge batch was not huge any more: %+v, %v", s, err)
	}
}

// Ten thousand lines fill the queue and expire there, a part of them while they
// wait for a breaker. Ten live ones come behind them where one call a second may be
// made: they take their ten seconds, not those of the dead.
func TestCase50_TheLiveDoNotWaitForTheDead(t *testing.T) {
	t.Parallel()
	var leap atomic.Int64 // of the clock of the lines
	clock := func() time.Time { return time.Now().Add(time.Duration(leap.Load())) }
	r := newRig(t, batch.Options{Now: clock})
	const dead, live = 10_000, 10
	deadline, expired := clock().Add(time.Hour), make(chan struct{})
	r.submit("dead", dead, func(d *batch.Description) { d.Producer, d.Deadline = "night", deadline })
	calls := time.NewTicker(time.Second)
	defer calls.Stop()
	r.worker(func(ctx context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		switch {
		case q.Batch == "live":
			<-calls.C
			return answer(q)
		case q.Line%2 == 0:
			return deferred(q, "sim/a", time.Now().Add(time.Hour))
		}
		select { // it waits for its call in the attempt
		case <-expired:
		case <-ctx.Done():
		}
		return ladder.Outcome{End: ladder.Deferred, Progress: q.Progress, Waits: []ladder.Wait{{Reason: ladder.ReasonDeadline, Until: deadline}}}
	}, func(o *Options) {
		o.ReleaseAhead = map[string]int{"q": dead}
		o.Breakers = &doors{open: map[string]bool{"sim/a": true}}
	})
	r.until(60*time.Second, "the dead fill the queue", func() bool {
		n, err := r.tasks("q")
		return err == nil && n.Pending > dead-200
	})
	leap.Store(int64(time.Hour))
	close(expired)
	r.submit("live", live, func(d *batch.Description) { d.Producer = "day" })
	if s := r.done("live", 40*time.Second); s.Succeeded != live {
		t.Errorf("live: %+v", s)
	}
	if s := r.done("dead", 20*time.Second); s.Expired != dead || s.Calls != 0 {
		t.Errorf("dead: %+v", s)
	}
}
