package tasks

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/convoy"
)

//go:embed lua/take.lua
var takeLua string

//go:embed lua/return.lua
var returnLua string

//go:embed lua/done.lua
var doneLua string

// The digests of asynq's scripts, as of v0.26.0, whose work take.lua and done.lua do
// for several tasks at once. A script with another digest is asynq's own affair.
const (
	dequeueSHA = "a8153319360adc71cdc370107f8ab9786f204765"
	doneSHA    = "1241eaa1c73409baaf1fea0c08d203a4911bda15"
)

const (
	// queueLease is for how long asynq takes a task.
	queueLease = 30 * time.Second
	// heldFor is how long a task that was taken may wait for its slot, which is free:
	// asynq asks again within microseconds, or stands still.
	heldFor = 2 * time.Second
	// forgetAfter is when a task whose handler returned has no slot any more, whatever
	// became of it: asynq gives up with the lease.
	forgetAfter = 2 * queueLease
	// returnLimit bounds the time in which tasks are given back.
	returnLimit = 5 * time.Second
)

// queueScripts are what the servers of a process share: our scripts, and the way to
// Redis of tasks that are done.
type queueScripts struct {
	take, back, done *redis.Script
	dones            *convoy.Convoy
}

func newQueueScripts(rdb redis.UniversalClient) *queueScripts {
	return &queueScripts{
		redis.NewScript(takeLua), redis.NewScript(returnLua), redis.NewScript(doneLua),
		convoy.New(rdb).Patient(queueLease),
	}
}

// readAhead is the client of Redis of one asynq server. asynq takes one task a round
// trip. Where it asks for one, this takes as many as the server has free slots, and
// answers the next questions with them: each is begun at once, and no task waits here
// while another worker could run it. Tasks that are done at the same time it removes
// together.
//
// What was taken and not handed out when the worker stops, or within heldFor, goes
// back to the head of the queue, unspent. After a crash asynq recovers it as it does
// any task, when its lease ends.
type readAhead struct {
	redis.UniversalClient
	pending string // the key of the queue that is read
	slots   int
	scripts *queueScripts
	log     *slog.Logger
	now     func() time.Time

	shut   atomic.Bool
	taking sync.Mutex // held while tasks are taken, handed out or given back
	taken  []taken
	from   source

	mu   sync.Mutex
	busy map[string]time.Time // tasks in slots: when their handlers returned, zero before
}

// taken is a task that was taken: its ID and message, nil where the task is gone.
type taken struct {
	id  string
	msg any
}

// source is where tasks came from, and until when their leases last.
type source struct {
	keys    []string // pending, paused, active, lease
	expires int64    // Unix s
	prefix  string   // of the keys of tasks
}

func newReadAhead(rdb redis.UniversalClient, queue string, slots int, s *queueScripts, log *slog.Logger) *readAhead {
	return &readAhead{
		UniversalClient: rdb, pending: queueKey(queue, "pending"), slots: slots, scripts: s,
		log: log, now: time.Now, busy: map[string]time.Time{},
	}
}

// EvalSha implements redis.Scripter.
func (r *readAhead) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	switch sha {
	case dequeueSHA:
		if s, ok := r.sourceOf(keys, args); ok {
			return reply(ctx, sha, func() (any, error) { return r.next(s) })
		}
	case doneSHA:
		if c, ok := r.doneCall(keys, args); ok {
			return reply(ctx, sha, func() (any, error) { return r.done(ctx, c) })
		}
	}
	cmd := r.UniversalClient.EvalSha(ctx, sha, keys, args...)
	r.ended(cmd.Err(), args)
	return cmd
}

// Eval implements redis.Scripter.
func (r *readAhead) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	cmd := r.UniversalClient.Eval(ctx, script, keys, args...)
	r.ended(cmd.Err(), args)
	return cmd
}

func reply(ctx context.Context, sha string, of func() (any, error)) *redis.Cmd {
	cmd := redis.NewCmd(ctx, "evalsha", sha)
	v, err := of()
	if err != nil {
		cmd.SetErr(err)
	} else {
		cmd.SetVal(v)
	}
	return cmd
}

// sourceOf reads the arguments of asynq's dequeue.
func (r *readAhead) sourceOf(keys []string, args []any) (source, bool) {
	if len(keys) != 4 || keys[0] != r.pending || len(args) != 2 {
		return source{}, false
	}
	expires, ok := args[0].(int64)
	prefix, isText := args[1].(string)
	return source{keys, expires, prefix}, ok && isText
}

// next is the next task's message.
func (r *readAhead) next(s source) (any, error) {
	r.taking.Lock()
	defer r.taking.Unlock()
	if len(r.taken) > 0 && r.from.expires-r.now().Unix() < int64((queueLease-heldFor)/time.Second) {
		r.giveBack()
	}
	if len(r.taken) == 0 && !r.shut.Load() {
		if err := r.take(s); err != nil {
			return nil, err
		}
	}
	if len(r.taken) == 0 || r.shut.Load() { // who shuts it gives back
		return nil, redis.Nil
	}
	t := r.taken[0]
	r.taken = r.taken[1:]
	if t.msg == nil {
		return nil, redis.Nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy[t.id] = time.Time{}
	return t.msg, nil
}

// take takes as many tasks as there are free slots, one at least: asynq has it.
func (r *readAhead) take(s source) error {
	list, err := r.scripts.take.Run(context.Background(), r.UniversalClient, s.keys, s.expires, s.prefix, max(r.free(), 1)).Slice()
	if err != nil {
		return err
	}
	r.from = s
	for i := 0; i+1 < len(list); i += 2 {
		id, _ := list[i].(string)
		r.taken = append(r.taken, taken{id, list[i+1]})
	}
	return nil
}

// free is how many slots are free, at least.
func (r *readAhead) free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, returned := range r.busy {
		if !returned.IsZero() && r.now().Sub(returned) > forgetAfter {
			delete(r.busy, id)
		}
	}
	return r.slots - len(r.busy)
}

// giveBack gives back what was taken. If that fails, it comes back with its leases.
func (r *readAhead) giveBack() {
	if len(r.taken) == 0 {
		return
	}
	args := []any{r.from.expires, r.from.prefix}
	for _, t := range r.taken {
		args = append(args, t.id)
	}
	n := len(r.taken)
	r.taken = nil
	ctx, cancel := context.WithTimeout(context.Background(), returnLimit)
	defer cancel()
	keys := []string{r.from.keys[0], r.from.keys[2], r.from.keys[3]}
	if err := r.scripts.back.Run(ctx, r.UniversalClient, keys, args...).Err(); err != nil {
		r.log.Warn("giving tasks back failed; the queue recovers them when their leases end", "tasks", n, "error", err)
	}
}

// stop takes no more, and gives back what was not handed out.
func (r *readAhead) stop() {
	r.shut.Store(true)
	r.taking.Lock()
	defer r.taking.Unlock()
	r.giveBack()
}

// doneCall is asynq's script for a task that is done, as one of a crowd.
func (r *readAhead) doneCall(keys []string, args []any) (c convoy.Call, ok bool) {
	if len(keys) != 5 || len(args) != 3 {
		return c, false
	}
	id, ok := args[0].(string)
	prefix, of := strings.CutSuffix(keys[2], id)
	return convoy.Call{
		Script: r.scripts.done, Keys: []string{keys[0], keys[1], keys[3], keys[4]},
		Shared: []any{args[1], args[2], prefix}, Own: []any{id},
	}, ok && of
}

// errNotFound is what asynq's script says of a task that is not there.
var errNotFound = errors.New("NOT FOUND")

// done removes a task that is done.
func (r *readAhead) done(ctx context.Context, c convoy.Call) (any, error) {
	var p convoy.Party
	answer := p.Add(c)
	r.scripts.dones.Send(ctx, &p)
	n, err := answer.Int()
	r.ended(err, c.Own)
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errNotFound
	}
	return "OK", nil
}

// ended notes that a script took a task out of its slot: all that do have its ID as
// their first argument. One that Redis did not know comes again.
func (r *readAhead) ended(err error, args []any) {
	if len(args) == 0 || redis.HasErrorPrefix(err, "NOSCRIPT") {
		return
	}
	if id, ok := args[0].(string); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, id)
	}
}

// returned notes that a task's handler returned: its slot is free when asynq has
// written that, or can no more.
func (r *readAhead) returned(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.busy[id]; is {
		r.busy[id] = r.now()
	}
}
