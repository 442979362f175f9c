package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// pausedKey is a hash: queue -> who paused it, as JSON. That a queue is paused is
// asynq's to say; its console pauses too, and tells nobody's name.
const pausedKey = "nightshift:{fleet}:paused"

// Counts are the tasks of one queue by asynq's state.
type Counts struct {
	Pending, Active, Scheduled, Retry, Archived int
}

// Pause says who paused a queue, and when; both are unknown where it was done in
// the console.
type Pause struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// QueueState is a queue as asynq has it.
type QueueState struct {
	Counts
	Paused *Pause // nil: it is not paused
}

// Queues shows and pauses queues. No Nightshift process pauses or unpauses one by
// itself. It is safe for concurrent use.
type Queues struct {
	rdb       redis.UniversalClient
	inspector *asynq.Inspector
}

// NewQueues returns the queues of a Redis; the client stays the caller's.
func NewQueues(rdb redis.UniversalClient) *Queues {
	return &Queues{rdb, asynq.NewInspectorFromRedisClient(rdb)}
}

// States returns the states of queues in one round trip; a queue that does not exist
// yet has no tasks.
func (q *Queues) States(ctx context.Context, names []string) (map[string]QueueState, error) {
	type replies struct{ pending, active, scheduled, retry, archived, paused *redis.IntCmd }
	p := q.rdb.Pipeline()
	by := p.HGetAll(ctx, pausedKey)
	all := map[string]replies{}
	for _, n := range names {
		all[n] = replies{
			p.LLen(ctx, queueKey(n, "pending")), p.LLen(ctx, queueKey(n, "active")), p.ZCard(ctx, queueKey(n, "scheduled")),
			p.ZCard(ctx, queueKey(n, "retry")), p.ZCard(ctx, queueKey(n, "archived")), p.Exists(ctx, queueKey(n, "paused")),
		}
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read queues: %w", err)
	}
	states := map[string]QueueState{}
	for n, r := range all {
		s := QueueState{Counts: Counts{
			int(r.pending.Val()), int(r.active.Val()), int(r.scheduled.Val()), int(r.retry.Val()), int(r.archived.Val()),
		}}
		if r.paused.Val() > 0 {
			s.Paused = &Pause{}
			_ = json.Unmarshal([]byte(by.Val()[n]), s.Paused) // else it is nobody's
		}
		states[n] = s
	}
	return states, nil
}

// Pause has no more tasks of a queue begin, until a person unpauses it; those that
// are active go on. It says whether that changed anything: a queue that is paused
// stays with who paused it.
func (q *Queues) Pause(ctx context.Context, queue string, p Pause) (changed bool, err error) {
	return q.change(ctx, queue, true, q.inspector.PauseQueue, func() error {
		text, err := json.Marshal(p)
		return errors.Join(err, q.rdb.HSet(ctx, pausedKey, queue, text).Err())
	})
}

// Unpause ends a pause, whoever made it.
func (q *Queues) Unpause(ctx context.Context, queue string) (changed bool, err error) {
	return q.change(ctx, queue, false, q.inspector.UnpauseQueue, func() error { return q.rdb.HDel(ctx, pausedKey, queue).Err() })
}

// change pauses or unpauses, and notes it. asynq's error for what is so already has
// no type, so it is looked at first, and again where it fails.
func (q *Queues) change(ctx context.Context, queue string, to bool, do func(string) error, note func() error) (bool, error) {
	is := func() (bool, error) {
		n, err := q.rdb.Exists(ctx, queueKey(queue, "paused")).Result()
		return n > 0, err
	}
	if now, err := is(); err != nil || now == to {
		return false, err
	}
	if err := do(queue); err != nil {
		if now, e := is(); e == nil && now == to {
			return false, nil // another was first
		}
		return false, fmt.Errorf("change the pause of queue %s: %w", queue, err)
	}
	return true, note()
}
