package tasks

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/enqueue.lua
var enqueueLua string

// enqueueSHA is the digest of asynq's script, as of v0.26.0, whose work enqueue.lua
// does for several tasks; see dequeueSHA.
const enqueueSHA = "98d28b42650870a743450ffda9791e9e19c6991b"

// together is a client for asynq's, which has no call for many tasks: of the
// members of a crowd, each with itself in its context, the first scripts go to
// Redis together. Those that enqueue are one script, others one pipeline.
type together struct {
	redis.UniversalClient
	enqueue *redis.Script
}

func newTogether(rdb redis.UniversalClient) together {
	return together{rdb, redis.NewScript(enqueueLua)}
}

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
	cmd := &question{Cmd: redis.NewCmd(ctx, append(all, args...)...), sha: sha, keys: keys, args: args}
	m.done = true
	m.crowd.join(cmd)
	<-m.crowd.sent
	return cmd.Cmd
}

// question is a member's script.
type question struct {
	*redis.Cmd
	sha  string
	keys []string
	args []any
}

// enqueues says whether it is asynq's enqueue, and what the keys of tasks begin with.
func (q *question) enqueues() (prefix string, ok bool) {
	if q.sha != enqueueSHA || len(q.keys) != 2 || len(q.args) != 3 {
		return "", false
	}
	id, ok := q.args[1].(string)
	prefix, of := strings.CutSuffix(q.keys[0], id)
	return prefix, ok && of
}

// send sends all questions; each has its own answer or error.
func (t together) send(ctx context.Context, all []*question) {
	type queue struct{ pending, prefix string }
	rest, tasks := t.Pipeline(), map[queue][]*question{}
	for _, q := range all {
		if prefix, ok := q.enqueues(); ok {
			to := queue{q.keys[1], prefix}
			tasks[to] = append(tasks[to], q)
		} else {
			_ = rest.Process(ctx, q.Cmd)
		}
	}
	if rest.Len() > 0 {
		_, _ = rest.Exec(ctx)
	}
	for to, some := range tasks {
		t.enqueueSome(ctx, to.pending, to.prefix, some)
	}
}

var errReply = errors.New("the script replied nonsense")

func (t together) enqueueSome(ctx context.Context, pending, prefix string, some []*question) {
	args := append(make([]any, 0, 1+3*len(some)), prefix)
	for _, q := range some {
		args = append(args, q.args[1], q.args[0], q.args[2])
	}
	answers, err := t.enqueue.Run(ctx, t.UniversalClient, []string{pending}, args...).Slice()
	if err == nil && len(answers) != len(some) {
		err = errReply
	}
	for i, q := range some {
		if err != nil {
			q.SetErr(err)
		} else {
			q.SetVal(answers[i])
		}
	}
}

// crowd gathers one question of each member.
type crowd struct {
	send func([]*question)
	sent chan struct{}

	mu      sync.Mutex
	missing int // members that have neither a question nor an end
	cmds    []*question
}

// member is one of a crowd; it belongs to one goroutine.
type member struct {
	crowd *crowd
	done  bool // it is not missing
}

// do runs f for n members at once, and the first script of each together with
// those of the others, as soon as no member is missing. Later ones go alone.
func (t together) do(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	c := &crowd{missing: n, sent: make(chan struct{}), send: func(all []*question) { t.send(ctx, all) }}
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

// join adds the question of a member, nil where it has none, and sends all with
// the last one.
func (c *crowd) join(cmd *question) {
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
