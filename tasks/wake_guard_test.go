package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/limit"
)

// unseen is a guard that the keeper cannot ask until the test lets it, so that it
// releases more than the guard lets in.
type unseen struct {
	*limit.GuardRedis
	seen atomic.Bool
}

func (u *unseen) Room(ctx context.Context, producers, batches []string) (limit.Rooms, error) {
	if u.seen.Load() {
		return u.GuardRedis.Room(ctx, producers, batches)
	}
	return limit.Rooms{}, errors.New("not yet")
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
	r.lets(2 * wakeEvery)
	if !is(8, 6)() {
		t.Error("lines were woken for nothing")
	}
	most.Store(100)
	r.done("b", 20*time.Second)
}

func TestWhomAGuardLetsIn(t *testing.T) {
	now := time.Unix(10_000, 0)
	byID := map[string]batch.Backlog{
		"a": {Description: batch.Description{Producer: "ann"}}, "b": {Description: batch.Description{Producer: "bob"}},
	}
	entry := func(id string, line int64, after time.Duration) batch.OutEntry {
		return batch.OutEntry{Ref: batch.Ref{Batch: id, Line: line}, Wait: batch.Wait{Guard: true, Until: now.Add(after), Deferral: 2}}
	}
	waiting := []batch.OutEntry{
		entry("a", 1, 3*time.Minute), entry("a", 2, 2*time.Minute), entry("a", 3, -1), entry("a", 4, time.Minute),
		entry("a", 5, time.Second), entry("a", 6, 2*time.Second), entry("b", 1, time.Minute), entry("b", 2, time.Hour),
		{Ref: batch.Ref{Batch: "b", Line: 3}, Wait: batch.Wait{Open: "p/a", Until: now}},
	}
	for name, c := range map[string]struct {
		rooms limit.Rooms
		room  int
		want  string
	}{
		"nobody":                        {limit.Rooms{All: limit.Room{Unlimited: true}}, 9, ""},
		"those that are about to begin": {rooms(limit.Room{Unlimited: true}, 2, 1), 9, ""},
		"and the next":                  {rooms(limit.Room{Unlimited: true}, 4, 2), 9, "a4 b1 a2 "},
		"as many as the queue takes":    {rooms(limit.Room{Unlimited: true}, 4, 2), 2, "a4 b1 "},
		"as all may":                    {rooms(limit.Room{Ready: 1, Calls: 3}, 4, 2), 9, "a4 "},
		"everybody":                     {rooms(limit.Room{Unlimited: true}, 40, 40), 9, "a4 b1 a2 a1 b2 "},
	} {
		k := &Keeper{now: func() time.Time { return now }, quota: &quota{rooms: c.rooms}, woken: map[string]woken{
			"a:00000005.0": {"a", 2, now},                   // pending
			"a:00000006.0": {"a", 1, now},                   // came back
			"b:00000007.0": {"b", 1, now.Add(-time.Second)}, // begun
			"b:00000008.0": {"b", 1, now.Add(-time.Minute)}, // called long ago
			"c:00000001.0": {"c", 1, now},                   // of another queue
		}}
		got := ""
		for _, e := range k.letIn(byID, waiting, c.room) {
			got += fmt.Sprint(e.Ref.Batch, e.Ref.Line, " ")
		}
		if got != c.want {
			t.Errorf("%s: woken %q, want %q", name, got, c.want)
		}
	}
}

func rooms(all limit.Room, ann, bob int64) limit.Rooms {
	return limit.Rooms{All: all, Producers: map[string]limit.Room{"ann": {Calls: -9, Ready: ann}, "bob": {Calls: bob}}}
}
