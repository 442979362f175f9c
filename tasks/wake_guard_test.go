package tasks

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/limit"
)

// unseen is a guard of which the keeper learns when it is told to look.
type unseen struct {
	*limit.GuardRedis
	seen atomic.Bool
}

func (u *unseen) Room(ctx context.Context, producers, batches []string) (limit.Rooms, error) {
	if u.seen.Load() {
		return u.GuardRedis.Room(ctx, producers, batches)
	}
	return limit.Rooms{All: limit.Room{Unlimited: true}, Producers: map[string]limit.Room{"p": {Unlimited: true}}}, nil
}

// Lines wait at their places, most of an hour; a release and a higher limit wake
// as many of them as they let in.
func TestAReleasedGuardWakesItsLines(t *testing.T) {
	r := newRig(t, batch.Options{})
	var most atomic.Int64
	most.Store(4)
	g := &unseen{GuardRedis: limit.NewGuardRedis(r.client(3), limit.GuardOptions{
		Limits: func(string) limit.GuardLimits { return limit.GuardLimits{Calls: most.Load()} },
	})}
	r.submit("b", 10, nil)
	r.worker(guarded(g, func(string) string { return "p" }), func(o *Options) { o.Guards = g })
	is := func(succeeded, deferrals int64) func() bool {
		return func() bool {
			s, err := r.store.Status(context.Background(), "b")
			return err == nil && s.Succeeded == succeeded && s.Deferrals == deferrals && len(s.WaitingFor) == 1
		}
	}
	r.until(20*time.Second, "six lines have places", is(4, 6))
	g.seen.Store(true)
	if err := g.Reopen(context.Background(), "p", "ann"); err != nil {
		t.Fatal(err)
	}
	r.until(20*time.Second, "four of them were let in", is(8, 6))
	time.Sleep(2 * wakeEvery)
	if !is(8, 6)() {
		t.Error("lines were woken for nothing")
	}
	most.Store(100)
	r.done("b", 20*time.Second)
}
