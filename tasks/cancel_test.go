package tasks

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

func (r *rig) cancel(id string) {
	r.t.Helper()
	if err := r.store.Cancel(context.Background(), id); err != nil {
		r.t.Error(err)
	}
}

// ends fails unless each of n lines has one result, cancelled or its answer, and
// returns how many were answered.
func (r *rig) ends(id string, n int) (answered int64) {
	r.t.Helper()
	all := r.results(id)
	if len(all) != n {
		r.t.Errorf("%d results of %d lines", len(all), n)
	}
	for id, res := range all {
		switch {
		case res.Response != nil && res.Error == nil:
			answered++
		case res.Response != nil || res.Error == nil || res.Error.Code != batch.CodeCancelled:
			r.t.Errorf("%s: %+v", id, res)
		}
	}
	return answered
}

// A batch is cancelled when a third of it is done: that keeps its results, what is in
// flight ends as it would have, and the rest is cancelled.
func TestCase31_CancelledAtOneThird(t *testing.T) {
	r := newRig(t, batch.Options{})
	const lines, slots = 300, 5 // of the rig
	r.submit("b", lines, nil)
	var n atomic.Int64
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if n.Add(1) == lines/3 {
			r.cancel("b")
		}
		return answer(q)
	}, nil)
	s := r.done("b", 30*time.Second)
	if s.Succeeded < lines/3 || s.Succeeded > lines/3+slots || s.Succeeded+s.Cancelled != lines || s.Calls != s.Succeeded {
		t.Errorf("status: %+v", s)
	}
	if answered := r.ends("b", lines); answered != s.Succeeded {
		t.Errorf("%d answers, %d lines succeeded", answered, s.Succeeded)
	}
}

// Nobody asks how a cancelled batch is: the worker ends it all the same, lines that
// wait for an hour too.
func TestCase42_ACancelledBatchSettlesUnasked(t *testing.T) {
	r := newRig(t, batch.Options{})
	const lines = 50
	r.submit("b", lines, nil)
	waits := make(chan struct{}, lines)
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		waits <- struct{}{}
		return deferred(q, "sim/a", time.Now().Add(time.Hour))
	}, func(o *Options) { o.Breakers = &doors{open: map[string]bool{"sim/a": true}} })
	for range 20 {
		<-waits
	}
	r.cancel("b")
	rdb := r.client(3)
	r.until(20*time.Second, "it says by itself that it is over", func() bool {
		return rdb.HExists(context.Background(), "nightshift:{b:b}:meta", "finished_at").Val()
	})
	if s := r.done("b", time.Second); s.Cancelled != lines || s.Deferrals == 0 {
		t.Errorf("status: %+v", s)
	}
	r.ends("b", lines)
}

// Five lines are fast and answered, twenty are slow, and of these the slots are full
// when the batch is cancelled; their answers come after it. Each ID has one result.
func TestCase44_CancelledWithFastAndSlowLines(t *testing.T) {
	r := newRig(t, batch.Options{})
	const fast, slow, slots = 5, 20, 8
	r.submit("b", fast+slow, nil)
	var answered atomic.Int64
	begun, goOn := make(chan struct{}, slow), make(chan struct{})
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		if q.Line%5 == 0 { // anywhere in the file
			answered.Add(1)
			return answer(q)
		}
		begun <- struct{}{}
		<-goOn
		return answer(q)
	}, func(o *Options) { o.Queues[0].Slots = slots })
	for range slots {
		<-begun
	}
	r.cancel("b")
	r.until(20*time.Second, "what waited is cancelled", func() bool {
		s, err := r.store.Status(context.Background(), "b")
		return err == nil && s.Outstanding == slots
	})
	close(goOn)
	s := r.done("b", 20*time.Second)
	if s.Succeeded != slots+answered.Load() || s.Succeeded+s.Cancelled != fast+slow {
		t.Errorf("%d fast ones were answered; status: %+v", answered.Load(), s)
	}
	if n := r.ends("b", fast+slow); n != s.Succeeded {
		t.Errorf("%d answers", n)
	}
}
