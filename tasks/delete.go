package tasks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"nightshift/batch"
)

// Vanisher is what a Deleter needs of package batch.
type Vanisher interface {
	Vanish(ctx context.Context, id string) (batch.Description, error)
	Free(ctx context.Context, d batch.Description) error
}

// Forgetter is what a Deleter needs of the hourly guards.
type Forgetter interface {
	Forget(ctx context.Context, producer, batch string) error
}

// Deleter deletes batches with all that is kept of them: their lines, the tasks
// of those that are out, and what the guards know.
type Deleter struct {
	batches Vanisher
	guards  Forgetter
	queue   *queues
}

// NewDeleter returns a Deleter; the client is one for asynq's keys.
func NewDeleter(rdb redis.UniversalClient, batches Vanisher, guards Forgetter) *Deleter {
	return &Deleter{batches, guards, newQueues(rdb)}
}

// Delete deletes a batch that is done or cancelled, in pieces. Nobody finds it
// from the first step on; an interrupted deletion goes on when it is repeated, and
// the keeper repeats it. Errors as batch.Redis.Vanish.
func (d *Deleter) Delete(ctx context.Context, id string) error {
	b, err := d.batches.Vanish(ctx, id)
	if err != nil {
		return err
	}
	if err := d.queue.drop(ctx, b.Queue, id); err != nil {
		return err
	}
	if err := d.guards.Forget(ctx, b.Producer, id); err != nil {
		return err
	}
	return d.batches.Free(ctx, b)
}

// dropPage is about how many tasks one round trip looks at.
const dropPage = 1000

// drop deletes the tasks of a batch, but for active ones: their attempts find
// that the batch is gone.
func (q *queues) drop(ctx context.Context, queue, id string) error {
	for _, set := range []string{"scheduled", "retry", "archived", "completed"} {
		for cursor := uint64(0); ; {
			page, next, err := q.rdb.ZScan(ctx, "asynq:{"+queue+"}:"+set, cursor, id+":*", dropPage).Result()
			if err != nil {
				return fmt.Errorf("look for tasks of %s: %w", id, err)
			}
			for i := 0; i < len(page); i += 2 { // task, time
				if err := q.discard(ctx, queue, page[i]); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return q.dropPending(ctx, queue, id)
}

// dropPending is drop for tasks that wait to be taken; new ones come in at the
// list's head, so a page misses none.
func (q *queues) dropPending(ctx context.Context, queue, id string) error {
	for start := int64(0); ; start += dropPage {
		page, err := q.rdb.LRange(ctx, "asynq:{"+queue+"}:pending", start, start+dropPage-1).Result()
		if err != nil {
			return fmt.Errorf("look for tasks of %s: %w", id, err)
		}
		for _, task := range page {
			if !strings.HasPrefix(task, id+":") {
				continue
			}
			if err := q.discard(ctx, queue, task); err != nil {
				return err
			}
			start--
		}
		if len(page) < dropPage {
			return nil
		}
	}
}

func (q *queues) discard(ctx context.Context, queue, task string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := q.inspector.DeleteTask(queue, task)
	if err == nil || errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil
	}
	// asynq has no typed error for a task that was taken meanwhile.
	if info, e := q.inspector.GetTaskInfo(queue, task); e == nil && info.State == asynq.TaskStateActive {
		return nil
	}
	return fmt.Errorf("delete task %s: %w", task, err)
}
