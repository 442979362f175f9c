package tasks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

// A person's pause outlives keepers, who release nothing more meanwhile, and is
// ended by a person alone.
func TestCase29_APauseStaysAPersons(t *testing.T) {
	r := newRig(t, batch.Options{})
	ctx := context.Background()
	q := NewQueues(r.client(3))
	at := time.Now().UTC().Truncate(time.Second)
	for _, by := range []string{"anna@desk", "bob@desk"} { // the second changes nothing
		if changed, err := q.Pause(ctx, "q", Pause{by, at}); err != nil || changed != (by == "anna@desk") {
			t.Fatalf("paused by %s: %v, %v", by, changed, err)
		}
	}
	r.submit("b", 40, nil)
	c := climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) })
	for range 2 {
		w := r.worker(c, nil)
		r.until(15*time.Second, "this worker is the keeper", w.Keeper().Leads)
		r.lets(5 * tickEvery)
		if err := w.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		s, err := q.States(ctx, []string{"q"})
		if err != nil || s["q"].Paused == nil || *s["q"].Paused != (Pause{"anna@desk", at}) || s["q"].Pending != 0 {
			t.Fatalf("after a keeper: %+v, %v", s["q"], err)
		}
	}
	if s, err := r.store.Status(ctx, "b"); err != nil || s.Out != 0 {
		t.Errorf("released of a paused queue: %+v, %v", s, err)
	}
	r.worker(c, nil)
	if changed, err := q.Unpause(ctx, "q"); err != nil || !changed {
		t.Fatalf("unpaused: %v, %v", changed, err)
	}
	r.done("b", 30*time.Second)
	if changed, err := q.Unpause(ctx, "q"); err != nil || changed {
		t.Errorf("unpaused again: %v, %v", changed, err)
	}
}

// Batches of which nothing is released are read about once a second, and what is
// done to them shows within two.
func TestScheduledBatchesCostLittle(t *testing.T) {
	const scheduled = 100
	r := newRig(t, batch.Options{})
	ctx := context.Background()
	for i := range scheduled {
		r.submit(fmt.Sprintf("later%d", i), 1, func(d *batch.Description) { d.NotBefore = time.Now().Add(time.Hour) })
	}
	w := r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) }, nil)
	r.until(15*time.Second, "this worker is the keeper", w.Keeper().Leads)
	r.submit("now", 3, nil)
	r.done("now", 20*time.Second)
	before, from := r.calls("hgetall"), time.Now()
	time.Sleep(2 * time.Second)
	most := int(float64(scheduled)*1.2*time.Since(from).Seconds()) + scheduled
	if n := r.calls("hgetall") - before; n > most {
		t.Errorf("%d reads of hashes in %v, more than %d", n, time.Since(from), most)
	}
	if err := r.store.Cancel(ctx, "later7"); err != nil {
		t.Fatal(err)
	}
	r.done("later7", 5*time.Second)
}

// calls is how often Redis ran a command so far.
func (r *rig) calls(command string) int {
	r.t.Helper()
	info, err := r.client(3).Info(context.Background(), "commandstats").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	text, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(text) // it did not run yet
	return n
}
