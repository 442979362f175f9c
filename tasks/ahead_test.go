package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// reading is one server's client of a real queue.
type reading struct {
	*testing.T
	rdb *redis.Client
	*readAhead
	trips redistest.Trips
	clock time.Time
}

func newReading(t *testing.T, slots int) *reading {
	r := &reading{T: t, rdb: redistest.Client(t), clock: time.Now()}
	r.readAhead = r.server(slots)
	return r
}

func (r *reading) server(slots int) *readAhead {
	rdb := redis.NewClient(r.rdb.Options())
	r.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(&r.trips)
	a := newReadAhead(rdb, "q", slots, newQueueScripts(rdb), slog.New(slog.NewTextHandler(r.Output(), nil)))
	a.now = func() time.Time { return r.clock }
	return a
}

// fill enqueues n tasks, task 1 to be taken first.
func (r *reading) fill(n int) {
	for i := range n {
		id := fmt.Sprint(i + 1)
		r.rdb.HSet(r.Context(), taskPrefix+id, "msg", "message "+id, "state", "pending", "pending_since", 1)
		r.rdb.LPush(r.Context(), queueKeys[0], id)
	}
}

// ask is asynq's question for a task; "": it got none.
func (r *reading) ask(a *readAhead) string {
	r.Helper()
	v, err := a.EvalSha(r.Context(), dequeueSHA, queueKeys, r.clock.Add(queueLease).Unix(), taskPrefix).Text()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.Fatal(err)
	}
	return v
}

// end is asynq's word that a task is done.
func (r *reading) end(a *readAhead, id string) error {
	keys := []string{queueKeys[2], queueKeys[3], taskPrefix + id, dayKey, everKey}
	return a.EvalSha(r.Context(), doneSHA, keys, id, r.clock.Add(time.Hour).Unix(), int64(1<<62)).Err()
}

// wantQueue compares what waits, the next first, and what is taken.
func (r *reading) wantQueue(pending, active []string) {
	r.Helper()
	waits := r.rdb.LRange(r.Context(), queueKeys[0], 0, -1).Val()
	slices.Reverse(waits)
	taken := r.rdb.LRange(r.Context(), queueKeys[2], 0, -1).Val()
	leases := r.rdb.ZRange(r.Context(), queueKeys[3], 0, -1).Val()
	for _, list := range [][]string{taken, leases, active} {
		slices.Sort(list)
	}
	if !slices.Equal(waits, pending) || !slices.Equal(taken, active) || !slices.Equal(leases, active) {
		r.Errorf("waiting %v, active %v, leases of %v; want %v and %v", waits, taken, leases, pending, active)
	}
	for _, id := range waits {
		if state := r.rdb.HGet(r.Context(), taskPrefix+id, "state").Val(); state != "pending" {
			r.Errorf("task %s waits and is %q", id, state)
		}
	}
}

func (r *reading) wantNext(a *readAhead, messages ...string) {
	r.Helper()
	for _, want := range messages {
		if got := r.ask(a); got != want {
			r.Errorf("took %q, want %q", got, want)
		}
	}
}

func TestAsManyAreTakenAsSlotsAreFree(t *testing.T) {
	r := newReading(t, 3)
	r.fill(9)
	r.wantNext(r.readAhead, "message 1")
	r.wantQueue([]string{"4", "5", "6", "7", "8", "9"}, []string{"1", "2", "3"})
	before := r.trips.N()
	r.wantNext(r.readAhead, "message 2", "message 3")
	if n := r.trips.N() - before; n != 0 {
		t.Errorf("%d round trips for what was there", n)
	}
	for _, id := range []string{"1", "3"} {
		if err := r.end(r.readAhead, id); err != nil {
			t.Error(err)
		}
	}
	r.wantNext(r.readAhead, "message 4")
	r.wantQueue([]string{"6", "7", "8", "9"}, []string{"2", "4", "5"})
	r.wantNext(r.readAhead, "message 5", "message 6") // asynq knows of a slot that we do not
	r.wantQueue([]string{"7", "8", "9"}, []string{"2", "4", "5", "6"})
}

func TestASlotIsFreeHoweverItsTaskEnded(t *testing.T) {
	r := newReading(t, 1)
	text := redis.NewScript(`return redis.call('DEL', KEYS[1])`) // stands for asynq's retry
	for _, end := range []func(id string){
		func(id string) { text.Eval(t.Context(), r.readAhead, []string{taskPrefix + id}, id) },
		func(id string) { text.EvalSha(t.Context(), r.readAhead, []string{taskPrefix + id}, id) },
		func(id string) { _ = r.end(r.readAhead, "1"); _ = r.end(r.readAhead, id) },
		func(id string) { r.returned(id); r.clock = r.clock.Add(forgetAfter + time.Second) }, // its lease was over
	} {
		r.rdb.Del(t.Context(), queueKeys...)
		r.fill(1)
		r.wantNext(r.readAhead, "message 1")
		if n := r.free(); n != 0 {
			t.Errorf("%d slots are free before its end", n)
		}
		if end("1"); r.free() != 1 {
			t.Error("its slot is not free")
		}
	}
	r.readAhead.busy["runs"] = time.Time{}
	r.clock = r.clock.Add(24 * time.Hour)
	text.EvalSha(t.Context(), r.readAhead, []string{"runs"}, "another")
	r.rdb.ScriptFlush(t.Context())
	text.EvalSha(t.Context(), r.readAhead, []string{"runs"}, "runs") // Redis lacks it: it comes again
	if r.free() != 0 {
		t.Error("the slot of a task that runs is free")
	}
}

func TestStopGivesBackWhatWasNotBegun(t *testing.T) {
	r := newReading(t, 4)
	r.fill(6)
	r.wantNext(r.readAhead, "message 1")
	r.stop()
	r.wantQueue([]string{"2", "3", "4", "5", "6"}, []string{"1"})
	r.wantNext(r.readAhead, "")
	r.wantQueue([]string{"2", "3", "4", "5", "6"}, []string{"1"})
	r.wantNext(r.server(4), "message 2", "message 3")
}

func TestAStopWhileTasksAreTakenGivesThemBack(t *testing.T) {
	r := newReading(t, 4)
	r.fill(6)
	held, open := make(chan struct{}), make(chan struct{})
	r.UniversalClient.AddHook(holdUp{held, open})
	var asked, stopped sync.WaitGroup
	asked.Go(func() { r.wantNext(r.readAhead, "") })
	<-held
	stopped.Go(r.stop)
	for deadline := time.Now().Add(20 * time.Second); !r.shut.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not stop")
		}
	}
	close(open)
	asked.Wait()
	stopped.Wait()
	r.wantQueue([]string{"1", "2", "3", "4", "5", "6"}, nil)
}

// holdUp holds the answer to the first script back.
type holdUp struct{ held, open chan struct{} }

func (h holdUp) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h holdUp) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h holdUp) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if name := cmd.Name(); (name == "evalsha" || name == "eval") && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			select {
			case h.held <- struct{}{}:
				<-h.open
			case <-h.open:
			}
		}
		return err
	}
}

func TestWhatCouldNotBeginGoesBack(t *testing.T) {
	r := newReading(t, 4)
	r.fill(6)
	r.wantNext(r.readAhead, "message 1")
	r.clock = r.clock.Add(heldFor + 2*time.Second) // asynq stood still
	r.wantNext(r.readAhead, "message 2", "message 3", "message 4")
	want := r.clock.Add(queueLease).Unix()
	for _, id := range []string{"2", "3", "4"} {
		if got := int64(r.rdb.ZScore(t.Context(), queueKeys[3], id).Val()); got != want {
			t.Errorf("the lease of task %s ends at %d, want %d", id, got, want)
		}
	}
	r.wantQueue([]string{"5", "6"}, []string{"1", "2", "3", "4"})
}

func TestWhatAnotherTookIsNotGivenBack(t *testing.T) {
	r := newReading(t, 3)
	r.fill(3)
	r.wantNext(r.readAhead, "message 1")
	r.rdb.ZAdd(t.Context(), queueKeys[3], redis.Z{Score: float64(r.clock.Unix() + 90), Member: "2"}) // recovered, and taken
	r.stop()
	r.wantQueue([]string{"3"}, []string{"1", "2"})
}

func TestATaskThatIsGoneHoldsNobodyUp(t *testing.T) {
	r := newReading(t, 4)
	r.fill(4)
	r.rdb.Del(t.Context(), taskPrefix+"2")
	r.wantNext(r.readAhead, "message 1", "") // and nothing is held behind it, since asynq now pauses
	r.wantQueue([]string{"3", "4"}, []string{"1", "2"})
	r.wantNext(r.readAhead, "message 3", "message 4", "")
}

func TestWhatIsNotKnownPasses(t *testing.T) {
	r := newReading(t, 4)
	r.fill(4)
	other := redis.NewScript(`return {KEYS[1], ARGV[1]}`)
	if v := other.Run(t.Context(), r.readAhead, []string{"k"}, "a").Val(); fmt.Sprint(v) != "[k a]" {
		t.Errorf("another script says %v", v)
	}
	// asynq's own digests with other arguments are for Redis, which has no such script.
	for _, c := range []*redis.Cmd{
		r.EvalSha(t.Context(), dequeueSHA, append([]string{"asynq:{other}:pending"}, queueKeys[1:]...), r.clock.Unix(), "p"),
		r.EvalSha(t.Context(), dequeueSHA, queueKeys, r.clock.Unix(), "p", "more"),
		r.EvalSha(t.Context(), dequeueSHA, queueKeys, "soon", "p"),
		r.EvalSha(t.Context(), dequeueSHA, queueKeys[:3], r.clock.Unix(), "p"),
		r.EvalSha(t.Context(), doneSHA, queueKeys, "1"),
		r.EvalSha(t.Context(), doneSHA, []string{"a", "l", "another task", "d", "e"}, "1", 1, 1),
	} {
		if !redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			t.Errorf("%v: %v", c.Args(), c.Err())
		}
	}
	r.wantQueue([]string{"1", "2", "3", "4"}, nil)
}

func TestAnErrorOfRedisIsAsynqs(t *testing.T) {
	r := newReading(t, 4)
	r.rdb.Set(t.Context(), queueKeys[0], "no list", 0)
	if err := r.EvalSha(t.Context(), dequeueSHA, queueKeys, r.clock.Unix(), taskPrefix).Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("%v", err)
	}
	if err := r.end(r.readAhead, "nobody"); err == nil || err.Error() != "NOT FOUND" {
		t.Errorf("%v", err)
	}
}

// TestEveryTaskRunsOnceThroughStopsAndKills has servers that come and go. A kill is a
// server whose slots are full of tasks that never end, with more taken: all that is
// left of it is in Redis. What it held comes again when its leases are over.
func TestEveryTaskRunsOnceThroughStopsAndKills(t *testing.T) {
	r := newReading(t, 1)
	const n = 2000
	enqueueAll(t, r.rdb, "q", func(i int) []byte { return fmt.Append(nil, i) }, n)
	runs := newCounter()
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := 0; ; round++ {
		if lines, _ := runs.total(); lines == n {
			break
		}
		if round == 100 {
			t.Fatal("some tasks do not come")
		}
		killed := r.server(rnd.IntN(30) + 1)
		if killed.now = time.Now; round < 5 {
			if _, err := killed.EvalSha(t.Context(), dequeueSHA, queueKeys, time.Now().Add(-time.Minute).Unix(), taskPrefix).Text(); err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
		}
		r.serve(runs, rnd.IntN(30)+1, time.Duration(rnd.IntN(300)+200)*time.Millisecond)
	}
	for task, times := range runs.n {
		if times != 1 {
			t.Errorf("task %d ran %d times", task, times)
		}
	}
	if done := r.rdb.Get(t.Context(), everKey).Val(); done != fmt.Sprint(n) {
		t.Errorf("asynq counted %s tasks", done)
	}
	if keys := r.rdb.Keys(t.Context(), taskPrefix+"*").Val(); len(keys) != 0 {
		t.Errorf("%d tasks are left", len(keys))
	}
}

// serve runs a server for a while, which recovers what was lost when it starts.
func (r *reading) serve(runs *counter, slots int, d time.Duration) {
	r.Helper()
	a := r.server(slots)
	a.now = time.Now
	s := server{ahead: a, Server: asynq.NewServerFromRedisClient(a, asynq.Config{
		Concurrency: slots, Queues: map[string]int{"q": 1}, TaskCheckInterval: 10 * time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
		IsFailure:      func(error) bool { return false },
	})}
	err := s.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		defer a.returned(id)
		var n int64
		if _, err := fmt.Sscan(string(task.Payload()), &n); err != nil {
			return err
		}
		if n%7 == 0 {
			time.Sleep(time.Millisecond)
		}
		runs.add(n)
		return nil
	}))
	if err != nil {
		r.Fatal(err)
	}
	time.Sleep(d)
	s.endPull()
	s.end()
}
