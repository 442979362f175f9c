package tasks

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/ladder"
)

// deaf loses the replies of the first pipelines, which enqueue tasks, without sending
// them.
type deaf struct{ cut }

// ProcessHook implements redis.Hook.
func (d *deaf) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (d *deaf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if d.left.Add(-1) < 0 {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(errKilled)
		}
		return errKilled
	}
}

// A keeper that could not enqueue what it had moved does so in its next round; nobody
// waits a minute for the sweep.
func TestWhatCouldNotBeEnqueuedIsInTheNextRound(t *testing.T) {
	r := newRig(t, batch.Options{})
	const lines = 20
	r.submit("b", lines, nil)
	d := &deaf{}
	d.left.Store(2)
	r.worker(climb(func(_ context.Context, q ladder.Request, _ ladder.Journal) ladder.Outcome { return answer(q) }), func(o *Options) {
		o.EnqueueRedis.AddHook(d)
	})
	if s := r.done("b", 20*time.Second); s.Succeeded != lines || d.left.Load() > 0 {
		t.Errorf("status: %+v", s)
	}
}
