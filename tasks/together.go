package tasks

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// together is a client for asynq's, which has no call for many tasks: of the
// members of a crowd, each with itself in its context, the first scripts go to
// Redis in one pipeline.
type together struct{ redis.UniversalClient }

type memberKey struct{}

// EvalSha implements redis.Scripter.
func (t together) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	m, ok := ctx.Value(memberKey{}).(*member)
	if !ok || m.done {
		return t.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	all := append(make([]any, 0, 3+len(keys)+len(args)), "evalsha", sha, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	m.done = true
	m.crowd.join(cmd)
	<-m.crowd.sent
	return cmd
}

// crowd gathers one command of each member.
type crowd struct {
	send func([]*redis.Cmd)
	sent chan struct{}

	mu      sync.Mutex
	missing int // members that have neither a command nor an end
	cmds    []*redis.Cmd
}

// member is one of a crowd; it belongs to one goroutine.
type member struct {
	crowd *crowd
	done  bool // it is not missing
}

// do runs f for n members at once, and the first script of each together with
// those of the others, as soon as no member is missing. Later ones go alone.
func (t together) do(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	c := &crowd{missing: n, sent: make(chan struct{}), send: func(cmds []*redis.Cmd) {
		_, _ = t.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
			for _, cmd := range cmds {
				_ = p.Process(ctx, cmd)
			}
			return nil
		})
	}}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			m := &member{crowd: c}
			defer func() {
				if !m.done {
					c.join(nil)
				}
			}()
			f(context.WithValue(ctx, memberKey{}, m), i)
		})
	}
	all.Wait()
}

// join adds the command of a member, nil where it has none, and sends all with
// the last one.
func (c *crowd) join(cmd *redis.Cmd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd != nil {
		c.cmds = append(c.cmds, cmd)
	}
	if c.missing--; c.missing > 0 {
		return
	}
	if len(c.cmds) > 0 {
		c.send(c.cmds)
	}
	close(c.sent)
}
