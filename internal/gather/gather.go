// Package gather sends scripts that many goroutines run at the same time to Redis
// together: a round trip costs Redis and the process about as much as a small
// script does, and pipelines share it.
//
// While a pipeline is under way, the scripts that come meanwhile wait for it and
// then go as one; alone, a script goes at once. Each has its own reply and error,
// and its caller's context ends the waiting of that caller alone. Where a pipeline
// does not come back, later ones do not wait for it.
package gather

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// flights is how many pipelines are under way at a time: while Redis works on
	// one, the replies of the other are read.
	flights = 2
	// most bounds the scripts of a pipeline.
	most = 128
	// stalled is how old the last pipeline is when the next does not wait for it
	// any more. A busy Redis takes a few ms for one.
	stalled = 100 * time.Millisecond
)

// Hook is a hook of one go-redis client. All its scripts must be ones that may be
// repeated, as for any client that retries.
type Hook struct {
	rdb redis.UniversalClient

	mu    sync.Mutex
	queue []*call
	under int       // pipelines under way
	began time.Time // the last of them
}

// call is what one caller waits for.
type call struct {
	cmds []redis.Cmder // copies: the caller may be gone when the replies come
	done chan struct{}
}

var _ redis.Hook = (*Hook)(nil)

// On has a client gather. Hooks that were added before see the scripts of callers
// and then the pipelines that carry them, see Carries; later ones the latter alone.
func On(rdb redis.UniversalClient) { rdb.AddHook(&Hook{rdb: rdb}) }

type carrierKey struct{}

// Carries says that the context is of a pipeline that carries gathered scripts.
func Carries(ctx context.Context) bool { return ctx.Value(carrierKey{}) != nil }

// DialHook implements redis.Hook.
func (h *Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !gathered(cmd) {
			return next(ctx, cmd)
		}
		return h.run(ctx, []redis.Cmder{cmd})
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if Carries(ctx) {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			if !gathered(cmd) {
				return next(ctx, cmds)
			}
		}
		return h.run(ctx, cmds)
	}
}

// gathered says whether a command is a script that Redis should know.
func gathered(cmd redis.Cmder) bool {
	_, ok := cmd.(*redis.Cmd)
	return ok && cmd.Name() == "evalsha"
}

// run waits for the replies of some commands and returns the first error.
func (h *Hook) run(ctx context.Context, cmds []redis.Cmder) error {
	c := &call{cmds: make([]redis.Cmder, len(cmds)), done: make(chan struct{})}
	for i, cmd := range cmds {
		c.cmds[i] = redis.NewCmd(context.WithoutCancel(ctx), cmd.Args()...)
	}
	h.mu.Lock()
	h.queue = append(h.queue, c)
	h.start()
	h.mu.Unlock()
	late := time.NewTimer(stalled)
	defer late.Stop()
	for {
		select {
		case <-c.done:
			return c.reply(cmds)
		case <-ctx.Done():
			for _, cmd := range cmds {
				cmd.SetErr(ctx.Err())
			}
			return ctx.Err()
		case <-late.C:
			h.mu.Lock()
			h.start()
			h.mu.Unlock()
			late.Reset(stalled)
		}
	}
}

// reply copies what Redis said to the caller's own commands.
func (c *call) reply(cmds []redis.Cmder) (first error) {
	for i, cmd := range cmds {
		from, to := c.cmds[i].(*redis.Cmd), cmd.(*redis.Cmd)
		to.SetVal(from.Val())
		to.SetErr(from.Err())
		if first == nil {
			first = from.Err()
		}
	}
	return first
}

// start sends what waits, unless that is for a pipeline under way to do. The
// caller holds the lock.
func (h *Hook) start() {
	if len(h.queue) == 0 || h.under >= flights && time.Since(h.began) < stalled {
		return
	}
	h.under++
	go h.fly(h.take())
}

// take removes the next pipeline from the queue. The caller holds the lock.
func (h *Hook) take() []*call {
	n, size := 0, 0
	for n < len(h.queue) && (n == 0 || size+len(h.queue[n].cmds) <= most) {
		size += len(h.queue[n].cmds)
		n++
	}
	batch := h.queue[:n:n]
	h.queue, h.began = h.queue[n:], time.Now()
	return batch
}

// fly sends pipelines until nothing waits. It ends by the timeouts of the client.
func (h *Hook) fly(batch []*call) {
	for {
		h.send(batch)
		h.mu.Lock()
		if len(h.queue) == 0 || h.under > flights {
			h.under--
			h.mu.Unlock()
			return
		}
		batch = h.take()
		h.mu.Unlock()
	}
}

func (h *Hook) send(batch []*call) {
	ctx := context.WithValue(context.Background(), carrierKey{}, true)
	p := h.rdb.Pipeline()
	for _, c := range batch {
		for _, cmd := range c.cmds {
			_ = p.Process(ctx, cmd)
		}
	}
	_, _ = p.Exec(ctx) // each command has its own error
	for _, c := range batch {
		close(c.done)
	}
}
