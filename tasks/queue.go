package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"nightshift/batch"
)

const (
	// maxRetry is slack: asynq archives a task whose Retried reaches it, and
	// Retried also counts crashes. The real budget is in the line's progress.
	maxRetry = 1000
	// taskTimeout keeps asynq's own timeout (30 min by default, and 0 means the
	// default) away from calls: ours are limited by the model and the deadline.
	taskTimeout = 24 * time.Hour
)

// queues is what the keeper does to asynq.
type queues struct {
	rdb       together
	client    *asynq.Client
	inspector *asynq.Inspector
}

func newQueues(rdb redis.UniversalClient) *queues {
	both := newTogether(rdb)
	return &queues{both, asynq.NewClientFromRedisClient(both), asynq.NewInspectorFromRedisClient(rdb)}
}

// enqueue puts a line's task on its queue. A task that is there already is
// success: its ID is fixed, and a lost reply must not show.
func (q *queues) enqueue(ctx context.Context, queue string, ref batch.Ref) error {
	body, err := Encode(ref)
	if err != nil {
		return err
	}
	_, err = q.client.EnqueueContext(ctx, asynq.NewTask(TaskType, body), asynq.Queue(queue),
		asynq.TaskID(TaskID(ref)), asynq.MaxRetry(maxRetry), asynq.Timeout(taskTimeout))
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("enqueue task %s: %w", TaskID(ref), err)
	}
	return nil
}

// enqueuePiece is how many tasks are enqueued in one round trip.
const enqueuePiece = 128

// enqueueAll puts the tasks of lines on their queue.
func (q *queues) enqueueAll(ctx context.Context, queue string, refs []batch.Ref) error {
	for piece := range slices.Chunk(refs, enqueuePiece) {
		errs := make([]error, len(piece))
		q.rdb.do(ctx, len(piece), func(ctx context.Context, i int) { errs[i] = q.enqueue(ctx, queue, piece[i]) })
		for _, err := range errs {
			if err != nil {
				return err // of the others it is the same
			}
		}
	}
	return nil
}

// pending returns how many tasks wait to be taken, and whether a person paused the
// queue. asynq's own question for it samples the memory of a queue, which is too
// dear ten times a second.
func (q *queues) pending(ctx context.Context, queue string) (n int, paused bool, err error) {
	p := q.rdb.Pipeline()
	length, pause := p.LLen(ctx, queueKey(queue, "pending")), p.Exists(ctx, queueKey(queue, "paused"))
	if _, err := p.Exec(ctx); err != nil {
		return 0, false, fmt.Errorf("count pending tasks of %s: %w", queue, err)
	}
	return int(length.Val()), pause.Val() > 0, nil
}

// queueKey is one of asynq's keys of a queue.
func queueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

// wake makes a waiting task pending at once; one that does not wait is left. An
// active one is not awake: where its line waits, it is about to be put back, and
// must be woken then.
func (q *queues) wake(queue string, ref batch.Ref) (awake bool, err error) {
	err = q.inspector.RunTask(queue, TaskID(ref))
	if err == nil || errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return true, nil
	}
	// asynq has no typed error for a task that is pending or active already.
	info, e := q.inspector.GetTaskInfo(queue, TaskID(ref))
	switch {
	case e == nil && info.State == asynq.TaskStatePending:
		return true, nil
	case e == nil && info.State == asynq.TaskStateActive:
		return false, nil
	}
	return false, fmt.Errorf("wake task %s: %w", TaskID(ref), err)
}

// The states of a task that the sweep mends, as asynq writes them.
const (
	stateGone      = ""
	stateArchived  = "archived"
	stateCompleted = "completed"
)

// states returns the states of lines' tasks, stateGone where there is none, in
// one round trip; asynq's own question is one a task and takes no context.
func (q *queues) states(ctx context.Context, queue string, refs []batch.Ref) ([]string, error) {
	p := q.rdb.Pipeline()
	replies := make([]*redis.StringCmd, len(refs))
	for i, ref := range refs {
		replies[i] = p.HGet(ctx, queueKey(queue, "t:"+TaskID(ref)), "state")
	}
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("look for tasks of %s: %w", queue, err)
	}
	states := make([]string, len(refs))
	for i, r := range replies {
		if err := r.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("look for task %s: %w", TaskID(refs[i]), err)
		}
		states[i] = r.Val()
	}
	return states, nil
}

// mend brings a line's task back where it vanished: deleted by hand, archived,
// or lost by Redis.
func (q *queues) mend(ctx context.Context, queue string, ref batch.Ref, state string) (mended bool, err error) {
	switch state {
	case stateGone:
		return true, q.enqueue(ctx, queue, ref)
	case stateArchived:
		_, err := q.wake(queue, ref)
		return true, err
	case stateCompleted:
		if err := q.inspector.DeleteTask(queue, TaskID(ref)); err != nil {
			return false, fmt.Errorf("delete completed task %s: %w", TaskID(ref), err)
		}
		return true, q.enqueue(ctx, queue, ref)
	}
	return false, nil
}
