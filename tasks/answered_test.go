package tasks

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

// answers is an observer that counts who answered.
type answers struct {
	silent
	mu sync.Mutex
	by map[By]int
}

func (a *answers) Answered(queue string, by By, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if queue == "q" {
		a.by[by] += n
	}
}

func (a *answers) count() map[By]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.by)
}

// Who answered is counted in the batch and told to the metrics, once a line,
// also where the keeper gives the texts; who failed has no answerer.
func TestWhoAnsweredIsCounted(t *testing.T) {
	t.Parallel()
	r, seen := newRig(t, batch.Options{}), &answers{by: map[By]int{}}
	r.submit("b", 9, func(d *batch.Description) { d.Deadline = time.Now().Add(5 * time.Second) })
	r.worker(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome {
		out := answer(q)
		switch q.Line {
		case 1, 2:
			out.Answer.Model, out.Answer.Degraded = "sim/b", true
		case 3:
			out.Answer.Cached = true
		case 4:
			return ladder.Outcome{End: ladder.Final, Code: "invalid_request"}
		case 5, 6:
			return deferred(q, "sim/a", q.Deadline)
		}
		return out
	}, func(o *Options) {
		o.Observer = seen
		o.LastResorts = map[string]LastResort{"q": lastResort(t, atDeadline)}
	})
	s := r.done("b", 60*time.Second)
	if s.Succeeded != 8 || s.Failed != 1 || s.Degraded != 4 || s.Cached != 1 {
		t.Errorf("status: %+v", s)
	}
	if want := map[string]int64{"sim/a": 4, "sim/b": 2, ladder.TextModel: 2}; !maps.Equal(s.AnsweredBy, want) {
		t.Errorf("answered by %v, want %v", s.AnsweredBy, want)
	}
	want := map[By]int{
		{Model: "sim/a"}: 3, {Model: "sim/a", Cached: true}: 1, {Model: "sim/b", Degraded: true}: 2, {Model: ladder.TextModel, Degraded: true}: 2,
	}
	r.until(10*time.Second, "the observer is told", func() bool { return maps.Equal(seen.count(), want) })
}
