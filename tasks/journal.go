package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/ladder"
)

// checkpointLimit is how long a further call waits for Redis.
const checkpointLimit = 2 * time.Second

// journal writes the progress of one attempt.
type journal struct {
	lines Lines
	lease batch.Lease
	trace string // of the attempt before: this one, should it be lost, leaves none
	log   *slog.Logger
}

// Checkpoint implements ladder.Journal. Where Redis cannot be reached, the
// attempt goes on without the record: its end, which is tried for two minutes,
// has all calls, and only a worker that dies before it loses them. Where Redis
// answers that the line is another's, its batch cancelled, or that it takes no
// writes, no further call starts.
func (j *journal) Checkpoint(ctx context.Context, p ladder.Progress) error {
	short, cancel := context.WithTimeout(ctx, checkpointLimit)
	defer cancel()
	progress := toBatch(p)
	progress.Trace = j.trace
	err := j.lines.Checkpoint(short, j.lease, progress)
	ref := j.lease.Ref
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || isAnswer(err):
		return fmt.Errorf("checkpoint %s line %d: %w", ref.Batch, ref.Line, err)
	}
	j.log.Warn("redis does not answer, the attempt goes on without a checkpoint", "batch", ref.Batch, "line", ref.Line, "error", err)
	return nil
}

// isAnswer says that an error is what Redis, or the script in it, decided.
func isAnswer(err error) bool {
	var reply redis.Error
	return errors.Is(err, batch.ErrFenced) || errors.Is(err, batch.ErrCancelled) || errors.Is(err, batch.ErrNotFound) ||
		errors.As(err, &reply)
}
