package tasks

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"nightshift/internal/convoy"
	"nightshift/internal/redistest"
)

// texts is a client that learns the texts of asynq's scripts, by digest: Redis does
// not know them at first.
type texts struct {
	redis.UniversalClient
	mu sync.Mutex
	of map[string]string
}

func (c *texts) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	c.mu.Lock()
	c.of[redis.NewScript(script).Hash()] = script
	c.mu.Unlock()
	return c.UniversalClient.Eval(ctx, script, keys, args...)
}

func (c *texts) script(t *testing.T, sha string) *redis.Script {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.of[sha]
	if !ok {
		t.Fatalf("asynq has no script %s any more: see what has changed in what enqueue.lua, take.lua, return.lua and done.lua stand for", sha)
	}
	return redis.NewScript(text)
}

// requeueSHA is asynq's script that puts a task back at a stop, which return.lua
// does for several.
const requeueSHA = "f34cbfd11d1fc8019af55b50c447fc68eb8b29e5"

// asynqsScripts has a server take a task that ends and one that does not.
func asynqsScripts(t *testing.T) *texts {
	c := &texts{UniversalClient: redistest.Client(t), of: map[string]string{}}
	ends, stays := make(chan struct{}), make(chan struct{})
	defer close(stays)
	s := asynq.NewServerFromRedisClient(c, asynq.Config{
		Concurrency: 2, Queues: map[string]int{"q": 1}, ShutdownTimeout: time.Millisecond, LogLevel: asynq.FatalLevel,
	})
	enqueueAll(t, c, "q", func(n int) []byte { return fmt.Append(nil, n) }, 2)
	if err := s.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if string(task.Payload()) == "1" {
			ends <- struct{}{}
			return nil
		}
		ends <- struct{}{}
		<-stays
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	<-ends
	<-ends
	deadline := time.Now().Add(20 * time.Second)
	for c.LLen(t.Context(), queueKey("q", "active")).Val() > 1 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	s.Shutdown()
	return c
}

// twin is a queue that asynq's scripts change, one task at a time, or ours.
type twin struct {
	*testing.T
	rdb  *redis.Client
	a    *texts
	ours *queueScripts // nil: asynq's
	max  int64
}

var queueKeys = []string{queueKey("q", "pending"), queueKey("q", "paused"), queueKey("q", "active"), queueKey("q", "lease")}

const (
	taskPrefix = "asynq:{q}:t:"
	dayKey     = "asynq:{q}:processed:2026-11-30"
	everKey    = "asynq:{q}:processed"
)

// enqueue puts tasks on the queue whose messages are their IDs, and returns which
// were not there.
func (w *twin) enqueue(ids []string) (fresh []bool) {
	at := &question{sha: enqueueSHA}
	var all []*question
	for i, id := range ids {
		at.keys, at.args = []string{taskPrefix + id, queueKeys[0]}, []any{[]byte(id), id, int64(i)}
		if w.ours == nil {
			n, err := w.a.script(w.T, enqueueSHA).Run(w.Context(), w.rdb, at.keys, at.args...).Int()
			if err != nil {
				w.Fatal(err)
			}
			fresh = append(fresh, n == 1)
		}
		all = append(all, &question{redis.NewCmd(w.Context()), at.sha, at.keys, at.args})
	}
	if w.ours == nil {
		return fresh
	}
	newTogether(w.rdb).send(w.Context(), all)
	for _, q := range all {
		n, err := q.Int()
		if err != nil {
			w.Fatal(err)
		}
		fresh = append(fresh, n == 1)
	}
	return fresh
}

func (w *twin) take(n int, expires int64) (ids []string) {
	if w.ours == nil {
		for range n {
			msg, err := w.a.script(w.T, dequeueSHA).Run(w.Context(), w.rdb, queueKeys, expires, taskPrefix).Text()
			if err != nil { // the queue is empty, or its task is gone: asynq pauses
				break
			}
			ids = append(ids, msg)
		}
		return ids
	}
	list, err := w.ours.take.Run(w.Context(), w.rdb, queueKeys, expires, taskPrefix, n).Slice()
	if err != nil {
		w.Fatal(err)
	}
	for i := 0; i < len(list); i += 2 {
		if list[i+1] != nil {
			ids = append(ids, list[i+1].(string))
		}
	}
	return ids
}

func (w *twin) putBack(ids []string, expires int64) {
	keys := []string{queueKeys[0], queueKeys[2], queueKeys[3]}
	if w.ours != nil {
		args := []any{expires, taskPrefix}
		for _, id := range ids {
			args = append(args, id)
		}
		if err := w.ours.back.Run(w.Context(), w.rdb, keys, args...).Err(); err != nil {
			w.Fatal(err)
		}
		return
	}
	for _, id := range slices.Backward(ids) {
		_ = w.a.script(w.T, requeueSHA).Run(w.Context(), w.rdb, []string{keys[1], keys[2], keys[0], taskPrefix + id}, id).Err()
	}
}

// done returns which of the tasks were there.
func (w *twin) done(ids []string, expires int64) (was []bool) {
	if w.ours == nil {
		for _, id := range ids {
			err := w.a.script(w.T, doneSHA).Run(w.Context(), w.rdb,
				[]string{queueKeys[2], queueKeys[3], taskPrefix + id, dayKey, everKey}, id, expires, w.max).Err()
			was = append(was, err == nil)
		}
		return was
	}
	var p convoy.Party
	var answers []*convoy.Answer
	r := readAhead{scripts: w.ours}
	for _, id := range ids {
		c, ok := r.doneCall([]string{queueKeys[2], queueKeys[3], taskPrefix + id, dayKey, everKey}, []any{id, expires, w.max})
		if !ok {
			w.Fatal("not the arguments of asynq's done")
		}
		answers = append(answers, p.Add(c))
	}
	w.ours.dones.Send(w.Context(), &p)
	for _, a := range answers {
		n, err := a.Int()
		if err != nil {
			w.Fatal(err)
		}
		was = append(was, n == 1)
	}
	return was
}

// all is everything that Redis holds, with the keys' lives in seconds.
func (w *twin) all() map[string]string {
	found := map[string]string{}
	for _, key := range w.rdb.Keys(w.Context(), "*").Val() {
		var v any
		switch w.rdb.Type(w.Context(), key).Val() {
		case "list":
			v = w.rdb.LRange(w.Context(), key, 0, -1).Val()
		case "zset":
			v = w.rdb.ZRangeWithScores(w.Context(), key, 0, -1).Val()
		case "hash":
			v = w.rdb.HGetAll(w.Context(), key).Val()
		default:
			v = w.rdb.Get(w.Context(), key).Val()
		}
		found[key] = fmt.Sprint(v, " until ", w.rdb.ExpireTime(w.Context(), key).Val())
	}
	return found
}

// both does the same to both, and says so where the answers differ.
func both[T any](t *testing.T, twins [2]*twin, what string, do func(*twin) T) T {
	t.Helper()
	a, b := do(twins[0]), do(twins[1])
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Fatalf("%s: asynq's scripts say %v, ours %v", what, a, b)
	}
	if x, y := twins[0].all(), twins[1].all(); !maps.Equal(x, y) {
		t.Fatalf("%s: asynq's scripts leave\n%v\nours\n%v", what, lines(x), lines(y))
	}
	return a
}

func lines(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s %s\n", k, m[k])
	}
	return b.String()
}

// TestSeveralTasksAreAsMany holds our scripts to asynq's own, of the version that is
// built in, by random sequences: the same answers, and the same in Redis.
func TestSeveralTasksAreAsMany(t *testing.T) {
	a := asynqsScripts(t)
	one, other := redistest.Client(t), redistest.Client(t)
	const most = int64(math.MaxInt64)
	twins := [2]*twin{{t, one, a, nil, most}, {t, other, a, newQueueScripts(other), most}}
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		for _, w := range twins {
			w.rdb.FlushAll(t.Context())
		}
		if seed%4 == 0 {
			both(t, twins, "set the count", func(w *twin) error { return w.rdb.Set(t.Context(), everKey, most, 0).Err() })
		}
		life := &lifeOfQueue{T: t, twins: twins, rnd: rnd, expires: 2_000_000_000}
		for range 60 {
			life.step()
		}
	}
}

// lifeOfQueue is one random sequence.
type lifeOfQueue struct {
	*testing.T
	twins   [2]*twin
	rnd     *rand.Rand
	made    int
	held    []string // taken
	expires int64
}

func (l *lifeOfQueue) some(ids []string) []string {
	n := 0
	if len(ids) > 0 {
		n = l.rnd.IntN(len(ids)) + 1
	}
	return slices.Clone(ids[:n])
}

func (l *lifeOfQueue) step() {
	ctx := l.Context()
	switch l.rnd.IntN(8) {
	case 0, 1:
		var ids []string
		for range l.rnd.IntN(6) {
			l.made++
			ids = append(ids, fmt.Sprint("task", l.made))
		}
		if l.made > 0 {
			ids = append(ids, fmt.Sprint("task", l.rnd.IntN(l.made)+1)) // perhaps it is there
		}
		both(l.T, l.twins, "enqueue", func(w *twin) []bool { return w.enqueue(ids) })
	case 2, 3:
		n := l.rnd.IntN(5) + 1
		l.held = append(l.held, both(l.T, l.twins, "take", func(w *twin) []string { return w.take(n, l.expires) })...)
	case 4:
		back := l.some(l.held)
		both(l.T, l.twins, "give back", func(w *twin) bool { w.putBack(back, l.expires); return true })
		l.held = l.held[len(back):]
	case 5:
		done := l.some(l.held)
		l.held = l.held[len(done):]
		if len(done) > 0 && l.rnd.IntN(4) == 0 {
			both(l.T, l.twins, "lose a lease", func(w *twin) int64 { return w.rdb.ZRem(ctx, queueKeys[3], done[0]).Val() })
		}
		if l.rnd.IntN(2) == 0 {
			done = append(done, "nobody")
		}
		both(l.T, l.twins, "done", func(w *twin) []bool { return w.done(done, 1_999_999_999) })
	case 6:
		both(l.T, l.twins, "pause or go on", func(w *twin) int64 {
			if w.rdb.Del(ctx, queueKeys[1]).Val() == 0 {
				w.rdb.Set(ctx, queueKeys[1], 1, 0)
			}
			return 0
		})
	case 7: // a ghost: somebody deleted the task alone
		id := fmt.Sprint("task", l.rnd.IntN(l.made+1))
		both(l.T, l.twins, "delete", func(w *twin) int64 { return w.rdb.Del(ctx, taskPrefix+id).Val() })
	}
}
