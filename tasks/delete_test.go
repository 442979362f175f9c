package tasks

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/limit"
)

// deleting is a keeper that deletes, on batches "x" and "x-2" with tasks and places.
func deleting(t *testing.T) (*rig, *Keeper, *limit.GuardRedis) {
	r := newRig(t, batch.Options{})
	guard := limit.NewGuardRedis(r.client(3), limit.GuardOptions{Global: limit.GuardLimits{Calls: 1}})
	o := r.options(nil)
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	o.Deleter, o.Keep, o.Now = NewDeleter(r.client(3), r.store, guard), time.Hour, time.Now
	k := newKeeper("k", o, NewFleet(r.client(3)))
	for _, id := range []string{"x", "x-2"} {
		r.submit(id, 6, nil)
		refs, err := r.store.Release(t.Context(), id, 1, 4, nil)
		if err == nil {
			err = k.queue.enqueueAll(t.Context(), "q", refs[:2])
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range refs[2:] { // one that waits for its time
			body, _ := Encode(ref)
			if _, err := k.queue.client.Enqueue(asynq.NewTask(TaskType, body), asynq.Queue("q"), asynq.TaskID(TaskID(ref)), asynq.ProcessIn(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		for _, ticket := range []string{"1", "2"} { // the second gets a place
			err := guard.Reserve(t.Context(), limit.Charge{Producer: "p", Batch: id, Line: id + ":" + ticket, Ticket: id + ticket})
			if over := new(limit.OverError); err != nil && !errors.As(err, &over) {
				t.Fatal(err)
			}
		}
		if err := guard.SetBudget(t.Context(), id, 1000); err != nil {
			t.Fatal(err)
		}
	}
	return r, k, guard
}

// mentions are the keys, and members of sets and lists, that name a batch.
func (r *rig) mentions(t *testing.T, id string) (found []string) {
	rdb := r.client(3)
	keys, err := rdb.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		in := []string{k}
		switch kind, _ := rdb.Type(t.Context(), k).Result(); kind {
		case "zset":
			in = append(in, rdb.ZRange(t.Context(), k, 0, -1).Val()...)
		case "list":
			in = append(in, rdb.LRange(t.Context(), k, 0, -1).Val()...)
		case "hash":
			in = append(in, rdb.HKeys(t.Context(), k).Val()...)
		}
		for _, text := range in {
			for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == '{' || r == '}' }) {
				if part == id {
					found = append(found, k)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestDelete_TasksPlacesAndPurse(t *testing.T) {
	r, k, _ := deleting(t)
	if err := k.deleter.Delete(t.Context(), "x"); !errors.Is(err, batch.ErrRunning) {
		t.Fatalf("a batch that runs: %v", err)
	}
	other, before := r.mentions(t, "x-2"), r.mentions(t, "x")
	if len(before) < 5 {
		t.Fatalf("there is little to delete: %v", before)
	}
	if err := r.store.Cancel(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if err := k.deleter.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if left := r.mentions(t, "x"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if got := r.mentions(t, "x-2"); !slices.Equal(got, other) {
		t.Errorf("of the other batch there are %v, want %v", got, other)
	}
	if err := k.deleter.Delete(t.Context(), "x"); !errors.Is(err, batch.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
}

// The keeper deletes what was kept for long enough, and goes on with what somebody
// began to delete.
func TestTidy(t *testing.T) {
	r, k, _ := deleting(t)
	for _, id := range []string{"x", "x-2"} {
		if err := r.store.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := r.store.Settle(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.store.Vanish(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if err := k.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := r.mentions(t, "x"); len(left) > 0 {
		t.Errorf("left of an interrupted deletion are %v", left)
	}
	if _, err := r.store.Status(t.Context(), "x-2"); err != nil {
		t.Errorf("too early: %v", err)
	}
	k.backlog = batch.NewRedis(r.client(3), batch.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }})
	if err := k.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := r.mentions(t, "x-2"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestLed(t *testing.T) {
	r := newRig(t, batch.Options{})
	f := NewFleet(r.client(3))
	for i, step := range []func() error{
		func() error { return nil },
		func() error { _, err := f.Lead(t.Context(), "k"); return err },
		func() error { return f.Resign(t.Context(), "k") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if led, err := f.Led(t.Context()); led != (i == 1) || err != nil {
			t.Errorf("step %d: %v, %v", i, led, err)
		}
	}
}
