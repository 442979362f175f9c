package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/internal/redistest"
	"nightshift/ladder"
)

func TestLinesComeBackWithTheirResults(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 200, nil)
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		return answer(q)
	}, nil)
	s := r.done("b", 30*time.Second)
	if s.Succeeded != 200 || s.Calls != 200 || s.CostUSD.String() != "0.2" {
		t.Errorf("status: %+v", s)
	}
	if lines, attempts := r.seen.total(); lines != 200 || attempts != 200 {
		t.Errorf("%d attempts of %d lines", attempts, lines)
	}
	all := r.results("b")
	for i := range 200 {
		id := fmt.Sprintf("c%d", i+1)
		if res, ok := all[id]; !ok || res.Nightshift.Line != int64(i+1) || res.Response == nil {
			t.Errorf("%s: %+v", id, res)
		}
	}
}

// An open breaker spends no retry: not with a budget of none, and not between
// the failures of a line that then succeeds on its last attempt.
func TestCase24_OpenBreakerOnTheLastAttempt(t *testing.T) {
	const failed, refused, answered = 'f', 'd', 'a'
	for retries, life := range map[int]string{0: "dda", 2: "fdfda"} {
		t.Run(fmt.Sprint("retries ", retries), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, batch.Options{})
			r.submit("b", 1, nil)
			r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
				switch life[r.seen.add(q.Line)-1] {
				case failed:
					return ladder.Outcome{End: ladder.Failed, Progress: q.Progress, Code: "unavailable", Message: "down"}
				case refused:
					return deferred(q, "sim/a", time.Now().Add(500*time.Millisecond))
				}
				return answer(q)
			}, func(o *Options) {
				o.Queues[0].Retries = retries
				o.Breakers = &doors{open: map[string]bool{"sim/a": true}} // the keeper wakes nobody
				o.Random = func() float64 { return 0 }
			})
			s := r.done("b", 60*time.Second)
			if s.Succeeded != 1 || s.Deferrals != 2 {
				t.Errorf("status: %+v", s)
			}
			if res := r.results("b")["c1"]; res.Nightshift.Deferrals != 2 {
				t.Errorf("result: %+v", res.Nightshift)
			}
		})
	}
}

func TestRetriesAreOurOwnCount(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 1, nil)
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		return ladder.Outcome{End: ladder.Failed, Progress: q.Progress, Code: "unavailable", Message: "down"}
	}, func(o *Options) { o.Random = func() float64 { return 0 } })
	if s := r.done("b", 60*time.Second); s.Failed != 1 {
		t.Errorf("status: %+v", s)
	}
	if _, attempts := r.seen.total(); attempts != 3 {
		t.Errorf("%d attempts with 2 retries, want 3", attempts)
	}
	if res := r.results("b")["c1"]; res.Error == nil || res.Error.Code != batch.CodeRetriesExhausted {
		t.Errorf("result: %+v", res)
	}
}

// All rungs open: the lines are parked until the reopening and woken once, when
// the breaker closes, not each time that they might look.
func TestCase25_WokenOnceWhenTheBreakerCloses(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 20, nil)
	door := &doors{open: map[string]bool{"sim/a": true}}
	var closed atomic.Bool
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		if !closed.Load() {
			return deferred(q, "sim/a", time.Now().Add(time.Hour))
		}
		return answer(q)
	}, func(o *Options) { o.Breakers = door })
	r.until(20*time.Second, "all lines wait", func() bool { lines, _ := r.seen.total(); return lines == 20 })
	s, err := r.store.Status(context.Background(), "b")
	if err != nil || len(s.WaitingFor) != 1 || s.WaitingFor[0].Model != "sim/a" || s.WaitingFor[0].Reason != ladder.ReasonBreaker {
		t.Fatalf("status while waiting: %+v, %v", s, err)
	}
	closed.Store(true)
	door.set("sim/a", false)
	if s := r.done("b", 20*time.Second); s.Succeeded != 20 || s.Deferrals != 20 {
		t.Errorf("status: %+v", s)
	}
	if _, attempts := r.seen.total(); attempts != 40 {
		t.Errorf("%d attempts of 20 lines, want 40", attempts)
	}
}

// A line that two breakers refused goes on when either closes, also the one
// that was expected to take longer.
func TestWokenByWhicheverBreakerCloses(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 1, nil)
	door := &doors{open: map[string]bool{"sim/a": true, "sim/b": true}}
	waits := []ladder.Wait{
		{Model: "sim/a", Reason: ladder.ReasonBreaker, Until: time.Now().Add(time.Hour)},
		{Model: "sim/b", Reason: ladder.ReasonBreaker, Until: time.Now().Add(2 * time.Hour)},
	}
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if r.seen.add(q.Line) == 1 {
			return ladder.Outcome{End: ladder.Deferred, Progress: q.Progress, Waits: waits}
		}
		return answer(q)
	}, func(o *Options) { o.Breakers = door })
	r.until(20*time.Second, "the line waits", func() bool {
		out, err := r.store.Out(context.Background(), "b")
		return err == nil && len(out) == 1 && out[0].Wait.Model == "sim/a"
	})
	door.set("sim/b", false)
	r.done("b", 20*time.Second)
}

// Redis dies when the record is written and before the queue knows: the line
// has one result and was called once.
func TestCase26_RedisKilledDuringTheAck(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{}, "--appendonly", "yes", "--appendfsync", "always")
	r.submit("b", 1, nil)
	var killed atomic.Bool
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		return answer(q)
	}, func(o *Options) {
		o.Lines = &afterFinish{Lines: r.store, do: func() { r.redis.Kill(); killed.Store(true) }}
	})
	r.until(10*time.Second, "redis is killed", killed.Load)
	time.Sleep(3500 * time.Millisecond) // the outage itself, as measured in the field
	r.redis.Restart(t)
	if s := r.done("b", 20*time.Second); s.Succeeded != 1 || s.Calls != 1 {
		t.Errorf("status: %+v", s)
	}
	in := asynq.NewInspectorFromRedisClient(r.client(3))
	r.until(20*time.Second, "the task is acknowledged", func() bool {
		_, err := in.GetTaskInfo("q", TaskID(batch.Ref{Batch: "b", Line: 1}))
		return errors.Is(err, asynq.ErrTaskNotFound)
	})
	if _, attempts := r.seen.total(); attempts != 1 {
		t.Errorf("called %d times", attempts)
	}
}

// afterFinish does something once, right after the first record is written.
type afterFinish struct {
	Lines
	do   func()
	done atomic.Bool
}

func (a *afterFinish) Finish(ctx context.Context, l batch.Lease, p batch.Progress, o batch.Outcome, r batch.Result, riders ...batch.Rider) error {
	err := a.Lines.Finish(ctx, l, p, o, r, riders...)
	if err == nil && a.done.CompareAndSwap(false, true) {
		a.do()
	}
	return err
}

// Stop lets calls in flight finish and hands the rest back unspent.
func TestCase28_StopFinishesCallsInFlight(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 30, nil)
	inFlight := make(chan struct{}, 30)
	slow := climb(func(ctx context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		inFlight <- struct{}{}
		r.seen.add(q.Line)
		<-q.Stop
		select { // a call that ends after the stop, well within the timeout
		case <-time.After(300 * time.Millisecond):
			return answer(q)
		case <-ctx.Done():
			return ladder.Outcome{End: ladder.Interrupted, Progress: q.Progress, Err: ctx.Err()}
		}
	})
	w := r.worker(slow, nil)
	for range 5 {
		<-inFlight
	}
	if err := w.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	s, err := r.store.Status(context.Background(), "b")
	if err != nil || s.Succeeded != 5 || s.Outstanding != 25 {
		t.Fatalf("after the stop: %+v, %v", s, err)
	}
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		if q.Progress.Failures != 0 {
			t.Errorf("line %d lost a retry", q.Line)
		}
		return answer(q)
	}, nil)
	if s := r.done("b", 30*time.Second); s.Succeeded != 30 {
		t.Errorf("status: %+v", s)
	}
	if lines, attempts := r.seen.total(); lines != 30 || attempts != 30 {
		t.Errorf("%d attempts of %d lines", attempts, lines)
	}
}

// A call outlives the stop and answers all the same, while another worker has
// begun the line again: one record, one count, and both calls in the cost.
func TestCase49_FinishesJustAfterItWasHandedBack(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 1, nil)
	begun := make(chan struct{})
	w := r.worker(func(ctx context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		close(begun)
		<-ctx.Done() // cut at the end of the shutdown timeout, and answers even so
		return answer(q)
	}, func(o *Options) { o.ShutdownTimeout = 200 * time.Millisecond })
	<-begun
	if err := w.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		return answer(q)
	}, nil)
	s := r.done("b", 30*time.Second)
	_, attempts := r.seen.total()
	if s.Succeeded != 1 || s.Outstanding != 0 || s.Calls != int64(attempts) {
		t.Errorf("%d attempts, status: %+v", attempts, s)
	}
}

// A line that ended its worker five times ends as task_lost, and is not called
// a sixth time; with four it runs again, also with a budget of no retries.
func TestCase52_CrashesAreCountedApart(t *testing.T) {
	for crashes, want := range map[int]string{4: "", 5: batch.CodeLost} {
		t.Run(fmt.Sprint(crashes, " crashes"), func(t *testing.T) {
			t.Parallel()
			now := time.Now() // the clock of the lines, which stands still but for what follows
			r := newRig(t, batch.Options{Lease: time.Minute, Now: func() time.Time { return now }})
			r.submit("b", 1, nil)
			ctx := context.Background()
			if _, err := r.store.Release(ctx, "b", 1, 1, map[int]int{0: 1}); err != nil {
				t.Fatal(err)
			}
			ref := batch.Ref{Batch: "b", Line: 1}
			for i := range crashes {
				if b, err := r.store.Begin(ctx, ref, fmt.Sprint("dead", i)); err != nil || b.Verdict != batch.Granted {
					t.Fatalf("begin %d: %+v, %v", i, b, err)
				}
				now = now.Add(time.Minute) // its lease ends; nobody said anything
			}
			if err := newQueues(r.client(3)).enqueue(ctx, "q", ref); err != nil {
				t.Fatal(err)
			}
			r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
				r.seen.add(q.Line)
				return answer(q)
			}, func(o *Options) { o.Queues[0].Retries = 0 })
			r.done("b", 20*time.Second)
			res := r.results("b")["c1"]
			if want == "" && res.Response == nil || want != "" && (res.Error == nil || res.Error.Code != want) {
				t.Errorf("result: %+v, error: %+v", res, res.Error)
			}
			if _, attempts := r.seen.total(); (want == "") != (attempts == 1) {
				t.Errorf("%d attempts", attempts)
			}
		})
	}
}

// Redis is away for 40 s when the answer arrives: it is recorded once, and the
// line is not called again although the queue's lease of 30 s is long over.
func TestCase54_RedisAwayWhileAnAnswerArrives(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{}, "--appendonly", "yes", "--appendfsync", "always")
	r.submit("b", 1, nil)
	gone := make(chan struct{})
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if r.seen.add(q.Line) == 1 {
			r.redis.Kill()
			close(gone)
		}
		return answer(q)
	}, nil)
	<-gone
	time.Sleep(40 * time.Second) // the outage that the case names
	r.redis.Restart(t)
	if s := r.done("b", 30*time.Second); s.Succeeded != 1 || s.Calls != 1 {
		t.Errorf("status: %+v", s)
	}
	if _, attempts := r.seen.total(); attempts != 1 {
		t.Errorf("called %d times", attempts)
	}
}

// A begin whose reply was lost is asked again with its token: the line is not
// held until the end of a lease that nobody knows of, and no crash is counted.
func TestBeginWithALostReply(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 1, nil)
	lost := &lostBegin{Lines: r.store}
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) },
		func(o *Options) { o.Lines = lost })
	if s := r.done("b", 15*time.Second); s.Succeeded != 1 || !lost.done.Load() {
		t.Errorf("status: %+v", s)
	}
}

// lostBegin loses the reply of the first begin.
type lostBegin struct {
	Lines
	done atomic.Bool
}

func (l *lostBegin) Begin(ctx context.Context, ref batch.Ref, token string) (batch.Begun, error) {
	b, err := l.Lines.Begin(ctx, ref, token)
	if l.done.CompareAndSwap(false, true) {
		return batch.Begun{}, errors.New("the connection was reset")
	}
	return b, err
}

func redisOptions(s *redistest.Server) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: s.Addr}
}
