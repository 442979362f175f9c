package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
	"nightshift/limit"
)

// roomy says to the keeper what the guards leave.
type roomy struct {
	mu    sync.Mutex
	rooms limit.Rooms
}

func newRoomy(producers map[string]limit.Room) *roomy {
	return &roomy{rooms: limit.Rooms{All: limit.Room{Unlimited: true}, Producers: producers, Batches: map[string]limit.Room{}}}
}

func (r *roomy) Room(context.Context, []string, []string) (limit.Rooms, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rooms, nil
}

func (r *roomy) set(producer string, room limit.Room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rooms.Producers = map[string]limit.Room{producer: room}
}

// guarded is a ladder whose one call the guard must let in.
func guarded(g limit.Guarder, producer func(batch string) string) climb {
	var n atomic.Int64
	return func(ctx context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		err := g.Reserve(ctx, limit.Charge{
			Producer: producer(q.Batch), Batch: q.Batch, Line: fmt.Sprint(q.Batch, ":", q.Line), Ticket: fmt.Sprint(n.Add(1)),
		})
		var over *limit.OverError
		switch {
		case errors.As(err, &over):
			return ladder.Outcome{
				End: ladder.Deferred, Progress: q.Progress,
				Waits: []ladder.Wait{{Reason: ladder.ReasonGuard, Until: time.Now().Add(over.Wait)}},
			}
		case err != nil:
			return ladder.Outcome{End: ladder.Failed, Progress: q.Progress, Code: "store", Message: err.Error()}
		}
		return answer(q)
	}
}

// A producer that loops gets its thousand calls and not one more, another's batch
// goes on beside it and after it, and nothing of the loop is released for
// nothing. When a person releases the guard, it gets another thousand.
func TestCase35_ALoopIsNotReleasedBeyondItsGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Options{})
	const most = 1000
	g := limit.NewGuardRedis(r.client(3), limit.GuardOptions{Limits: func(p string) limit.GuardLimits {
		if p == "loop" {
			return limit.GuardLimits{Calls: most}
		}
		return limit.GuardLimits{}
	}})
	r.submit("loop", 9000, func(d *batch.Description) { d.Producer = "loop" })
	r.submit("other", 2500, func(d *batch.Description) { d.Producer = "other" })
	r.worker(guarded(g, func(batch string) string { return batch }), func(o *Options) { o.Guards = g })
	status := func(id string) batch.Status {
		s, err := r.store.Status(context.Background(), id)
		if err != nil {
			t.Error(err)
		}
		return s
	}
	r.until(60*time.Second, "the loop used up its calls", func() bool { return status("loop").Succeeded == most })
	if s := r.done("other", 60*time.Second); s.Succeeded != 2500 || s.Deferrals != 0 {
		t.Errorf("other: %+v", s)
	}
	if s := status("loop"); s.Calls != most || s.Deferrals != 0 {
		t.Errorf("%d calls and %d deferrals of the loop, with %d calls an hour", s.Calls, s.Deferrals, most)
	}
	if err := g.Reopen(context.Background(), "loop", "ann"); err != nil {
		t.Fatal(err)
	}
	r.until(60*time.Second, "the loop used up its calls again", func() bool { return status("loop").Succeeded == 2*most })
	if s := status("loop"); s.Calls != 2*most {
		t.Errorf("%d calls of the loop", s.Calls)
	}
}

// Lines that wait for a guard sleep till their places, but for as many as it has
// room for before that.
func TestLinesAreWokenForTheirGuard(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 4, nil)
	rooms := newRoomy(map[string]limit.Room{"p": {Calls: 4}})
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if r.seen.add(q.Line) > 1 {
			return answer(q)
		}
		place := time.Now().Add(time.Hour - time.Duration(q.Line)*time.Minute) // the last line's comes first
		return ladder.Outcome{
			End: ladder.Deferred, Progress: q.Progress, Waits: []ladder.Wait{{Reason: ladder.ReasonGuard, Until: place}},
		}
	}, func(o *Options) { o.Guards = rooms; o.Random = func() float64 { return 0.99 } })
	r.until(20*time.Second, "all wait", func() bool {
		s, err := r.store.Status(context.Background(), "b")
		return err == nil && s.Deferrals == 4 && s.State == batch.Waiting
	})
	rooms.set("p", limit.Room{Calls: -3, Ready: 1})
	r.until(20*time.Second, "the first was let in", func() bool {
		s, err := r.store.Status(context.Background(), "b")
		return err == nil && s.Succeeded >= 1
	})
	if _, ok := r.results("b")["c4"]; !ok {
		t.Errorf("woken: %v", r.results("b"))
	}
	rooms.set("p", limit.Room{Unlimited: true})
	r.done("b", 20*time.Second)
}

// A line that came back from a guard is not woken for it again and again.
func TestALineIsWokenForAGuardOnce(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("b", 1, nil)
	rooms := newRoomy(map[string]limit.Room{"p": {Calls: 1, Ready: 1}})
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		r.seen.add(q.Line)
		return ladder.Outcome{
			End: ladder.Deferred, Progress: q.Progress, Waits: []ladder.Wait{{Reason: ladder.ReasonGuard, Until: time.Now().Add(time.Hour)}},
		}
	}, func(o *Options) { o.Guards = rooms })
	attempts := func() int { _, n := r.seen.total(); return n }
	r.until(20*time.Second, "it was woken", func() bool { return attempts() == 2 })
	r.lets(3 * wakeEvery)
	if n := attempts(); n != 2 {
		t.Errorf("%d attempts", n)
	}
}

// What is not released of a batch without a budget left ends at once; what is
// out ends in its attempts. Nothing is ever called of a batch beyond what it has
// for itself while its producer's guard is open.
func TestBudgetsAndAllowances(t *testing.T) {
	r := newRig(t, batch.Options{})
	r.submit("spent", 3000, nil)
	r.submit("granted", 100, nil)
	rooms := newRoomy(map[string]limit.Room{"p": {}})
	rooms.rooms.Batches["granted"] = limit.Room{Allowance: 7}
	var calls atomic.Int64
	var begun sync.WaitGroup
	begun.Add(7)
	goOn := make(chan struct{})
	w := r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if q.Batch == "spent" {
			return ladder.Outcome{End: ladder.Final, Progress: q.Progress, Code: batch.CodeBudgetExhausted}
		}
		calls.Add(1)
		begun.Done()
		<-goOn
		return answer(q)
	}, func(o *Options) { o.Guards = rooms; o.Queues[0].Slots = 20 })
	defer close(goOn)
	begun.Wait()
	if _, err := r.store.Release(context.Background(), "spent", w.keeper.epoch.Load(), 2, nil); err != nil { // by a keeper who did not know
		t.Fatal(err)
	}
	rooms.mu.Lock()
	rooms.rooms.Batches = map[string]limit.Room{"spent": {Spent: true}}
	rooms.mu.Unlock()
	r.until(30*time.Second, "the lines ended", func() bool {
		s, err := r.store.Status(context.Background(), "spent")
		return err == nil && s.Failed == 2998 && s.RatePerMinute == 0
	})
	if res := r.results("spent")["c3000"]; res.Error == nil || res.Error.Code != batch.CodeBudgetExhausted || res.Error.Message == "" {
		t.Errorf("result: %+v", res)
	}
	if n := calls.Load(); n != 7 {
		t.Errorf("%d calls of a batch with an allowance of 7", n)
	}
}

func TestQuota(t *testing.T) {
	backlog := func(id, producer string, out int64, deferred int) batch.Backlog {
		return batch.Backlog{Description: batch.Description{ID: id, Producer: producer}, Out: out, Deferred: map[int]int{0: deferred}}
	}
	all := []batch.Backlog{backlog("a", "ann", 30, 10), backlog("b", "bob", 5, 0), backlog("c", "ann", 9, 0), backlog("d", "dan", 1, 0)}
	q := newQuota(limit.Rooms{
		All:       limit.Room{Calls: 60},
		Producers: map[string]limit.Room{"ann": {Calls: 40}, "bob": {Calls: -9}, "dan": {Unlimited: true}},
		Batches:   map[string]limit.Room{"a": {Allowance: 25}, "c": {Allowance: 4}},
	}, all)
	expect := func(ann, a, c, total int) {
		t.Helper()
		p := batch.Picking{Room: 1000}
		q.bound(&p)
		if got := []int{p.Calls.Producers["ann"], p.Calls.Own["a"], p.Calls.Own["c"], p.Room}; got[0] != ann || got[1] != a || got[2] != c || got[3] != total {
			t.Errorf("left to ann, a, c and all %v, want %d %d %d %d", got, ann, a, c, total)
		}
		if n, bounded := p.Calls.Producers["bob"]; n != 0 || !bounded {
			t.Errorf("bob: %d, %t", n, bounded)
		}
		if _, bounded := p.Calls.Producers["dan"]; bounded {
			t.Error("dan is bounded")
		}
	}
	// 20, 5, 9 and 1 are under way: 5 of ann's beyond their allowances.
	expect(35, 5, 0, 25)
	q.released(all[0], 8)
	expect(32, 0, 0, 17)
	q.released(all[3], 100)
	expect(32, 0, 0, 0)
	var none *quota
	none.released(all[0], 8)
	p := batch.Picking{Room: 1000}
	if none.bound(&p); p.Room != 1000 || p.Calls.Producers != nil || none.spent(all[0]) {
		t.Errorf("without guards: %+v", p)
	}
}
