package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/ladder"
)

// cutAt says where in a round trip a process is killed.
type cutAt string

const (
	beforeSent cutAt = "before it is sent"
	halfSent   cutAt = "when half of its commands are sent"
	afterRun   cutAt = "when it has run and nobody reads the reply"
)

var errKilled = errors.New("this process is dead")

// cut is a hook of go-redis that kills a process at one of its round trips.
type cut struct {
	left atomic.Int64 // round trips to the last one
	at   cutAt
	dead atomic.Bool
}

// here says whether this round trip is the last one.
func (c *cut) here() (last bool, err error) {
	if c.dead.Load() {
		return false, errKilled
	}
	if c.left.Add(-1) == 0 {
		c.dead.Store(true)
		return true, nil
	}
	return false, nil
}

// DialHook implements redis.Hook.
func (c *cut) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (c *cut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		last, err := c.here()
		if err == nil && (!last || c.at == afterRun) {
			err = next(ctx, cmd)
		}
		if last {
			err = errKilled
		}
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *cut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		last, err := c.here()
		if err == nil && !last {
			return next(ctx, cmds)
		}
		if last {
			sent := map[cutAt]int{beforeSent: 0, halfSent: len(cmds) / 2, afterRun: len(cmds)}[c.at]
			if sent > 0 {
				_ = next(ctx, cmds[:sent])
			}
		}
		for _, cmd := range cmds {
			cmd.SetErr(errKilled)
		}
		return errKilled
	}
}

// night is a Redis with something to do for every part of a keeper's round.
type night struct {
	*rig
	now   time.Time // of the lines and the keepers
	rdb   redis.UniversalClient
	tasks *queues
	runs  map[batch.Ref]int
}

const (
	freshLines    = 12 // to be released
	vanishedLines = 6  // released, and their tasks vanished in two ways
	waitingLines  = 4  // for a breaker that is closed by now
	deadLines     = 5  // of a batch that was cancelled
)

// newNight empties Redis and prepares the batches.
func newNight(t *testing.T, r *rig) *night {
	mine := *r
	mine.t = t
	n := &night{rig: &mine, now: time.Now(), rdb: mine.client(3), runs: map[batch.Ref]int{}}
	n.tasks = newQueues(n.rdb)
	n.store = batch.NewRedis(n.rdb, batch.Options{Now: func() time.Time { return n.now }})
	ctx := context.Background()
	n.must(n.rdb.FlushAll(ctx).Err())
	n.submit("fresh", freshLines, nil)
	n.submit("vanished", vanishedLines, nil)
	n.submit("waiting", waitingLines, nil)
	n.submit("dead", deadLines, nil)
	n.must(n.store.Cancel(ctx, "dead"))
	for i, ref := range n.released("vanished", vanishedLines) {
		if i%2 == 0 { // those of the others are deleted
			n.must(n.tasks.enqueue(ctx, "q", ref))
			n.must(n.tasks.inspector.ArchiveTask("q", TaskID(ref)))
		}
	}
	n.now = n.now.Add(sweepAge + time.Second)
	for _, ref := range n.released("waiting", waitingLines) {
		n.waits(ref)
	}
	return n
}

// waits has a line wait for its breaker, and its task with it.
func (n *night) waits(ref batch.Ref) {
	ctx := context.Background()
	lease := batch.Lease{Ref: ref, Token: "waits"}
	if b, err := n.store.Begin(ctx, ref, lease.Token); err != nil || b.Verdict != batch.Granted {
		n.t.Fatalf("begin %s: %+v, %v", ref, b, err)
	}
	w := batch.Wait{Model: "sim/a", Reason: ladder.ReasonBreaker, Until: n.now.Add(time.Hour), Open: "sim/a", Deferral: 1}
	n.must(n.store.Suspend(ctx, lease, batch.Progress{Deferrals: 1}, w))
	body, err := Encode(ref)
	n.must(err)
	_, err = n.tasks.client.Enqueue(asynq.NewTask(TaskType, body), asynq.Queue("q"), asynq.TaskID(TaskID(ref)),
		asynq.MaxRetry(maxRetry), asynq.ProcessIn(time.Hour))
	n.must(err)
}

func (n *night) released(id string, lines int) []batch.Ref {
	refs, err := n.store.Release(context.Background(), id, 1, lines, map[int]int{0: lines})
	if err != nil || len(refs) != lines {
		n.t.Fatalf("released %v, %v", refs, err)
	}
	return refs
}

func (n *night) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// keeper is one that speaks through a client of its own.
func (n *night) keeper(id string, hooks ...redis.Hook) *Keeper {
	rdb := n.client(-1)
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	o := n.options(nil)
	o.EnqueueRedis, o.Backlog = rdb, batch.NewRedis(rdb, batch.Options{Now: func() time.Time { return n.now }})
	o.Breakers = &doors{open: map[string]bool{"sim/a": false}}
	o.Now = func() time.Time { return n.now }
	o.Logger = slog.New(slog.DiscardHandler)
	k := newKeeper(id, o, NewFleet(rdb))
	k.see([]Heartbeat{{ID: id, Queues: map[string]QueueBeat{"q": {Slots: 40}}}})
	return k
}

// rounds lets a keeper live for some rounds, and the workers between them.
func (n *night) rounds(k *Keeper, count int) {
	for range count {
		k.round(context.Background())
		n.now = n.now.Add(sweepEvery + time.Second)
		n.work()
	}
}

// work does what workers do with the tasks that are pending.
func (n *night) work() {
	ctx := context.Background()
	pending, err := n.rdb.LRange(ctx, "asynq:{q}:pending", 0, -1).Result()
	n.must(err)
	for _, id := range pending {
		info, err := n.tasks.inspector.GetTaskInfo("q", id)
		n.must(err)
		ref, err := Decode(info.Payload)
		n.must(err)
		lease := batch.Lease{Ref: ref, Token: fmt.Sprint("run", n.runs[ref])}
		b, err := n.store.Begin(ctx, ref, lease.Token)
		n.must(err)
		if b.Verdict == batch.Granted {
			n.runs[ref]++
			out := answer(ladder.Request{CustomID: b.Line.CustomID, Progress: toLadder(b.Progress)})
			n.must(n.store.Finish(ctx, lease, toBatch(out.Progress), batch.Succeeded, result(b, out, n.now)))
		}
		n.must(n.tasks.inspector.DeleteTask("q", id))
	}
}

// settled fails unless all lines have ended as they must, and nothing is left.
func (n *night) settled(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	for id, lines := range map[string]int64{"fresh": freshLines, "vanished": vanishedLines, "waiting": waitingLines, "dead": deadLines} {
		s, err := n.store.Status(ctx, id)
		n.must(err)
		ended := s.Succeeded
		if id == "dead" {
			ended = s.Cancelled
		}
		if s.State != batch.Done || ended != lines || int64(len(n.results(id))) != lines {
			t.Errorf("%s: %+v", id, s)
		}
	}
	for ref, runs := range n.runs {
		if runs != 1 {
			t.Errorf("%s ran %d times", ref, runs)
		}
	}
	if left := n.rdb.Keys(ctx, "asynq:{q}:t:*").Val(); len(left) > 0 {
		t.Errorf("tasks are left: %v", left)
	}
}

// The keeper is killed at each of its round trips in turn, before and after it and
// in the middle of a pipeline, and another takes over: what the first had moved,
// ended, woken or brought back is done once, and so is what it had not.
func TestCase29_TheKeeperIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{})
	for _, at := range []cutAt{beforeSent, halfSent, afterRun} {
		steps := 0
		for alive := false; !alive && !t.Failed(); steps++ {
			t.Run(fmt.Sprintf("round trip %d %s", steps+1, at), func(t *testing.T) {
				n := newNight(t, r)
				c := &cut{at: at}
				c.left.Store(int64(steps + 1))
				n.rounds(n.keeper("first", c), 2)
				alive = !c.dead.Load()
				n.now = n.now.Add(sweepAge)
				n.must(n.rdb.HSet(context.Background(), keeperKey, "until", 0).Err()) // its lease ends
				n.rounds(n.keeper("second"), 3)
				n.settled(t)
			})
		}
		if steps < 15 {
			t.Errorf("a keeper's life has %d round trips; the rig gives it more to do", steps)
		}
	}
}
