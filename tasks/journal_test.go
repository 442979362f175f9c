package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/internal/redistest"
	"nightshift/ladder"
)

// checkpoints answers every checkpoint with one error.
type checkpoints struct {
	Lines
	err error
}

func (c checkpoints) Checkpoint(context.Context, batch.Lease, batch.Progress) error {
	return fmt.Errorf("checkpoint: %w", c.err)
}

func TestAnAttemptGoesOnOnlyWhereRedisSaidNothing(t *testing.T) {
	rdb := redistest.Client(t)
	refused := rdb.Do(t.Context(), "nonsense").Err()
	for name, c := range map[string]struct {
		err  error
		goOn bool
	}{
		"connection refused": {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		"no answer in time":  {context.DeadlineExceeded, true},
		"closed pool":        {redis.ErrClosed, true},
		"another's":          {batch.ErrFenced, false},
		"cancelled":          {batch.ErrCancelled, false},
		"deleted":            {batch.ErrNotFound, false},
		"an error of Redis":  {refused, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			j := &journal{checkpoints{err: c.err}, batch.Lease{Ref: batch.Ref{Batch: "b", Line: 7}}, "", slog.New(slog.NewTextHandler(&log, nil))}
			err := j.Checkpoint(t.Context(), ladder.Progress{})
			if c.goOn != (err == nil) || err != nil && !errors.Is(err, c.err) {
				t.Errorf("goes on: %v", err)
			}
			if told := strings.Contains(log.String(), "without a checkpoint"); told != c.goOn {
				t.Errorf("log:\n%s", log.String())
			}
		})
	}
}

// mute does not answer until its context ends.
type mute struct{ Lines }

func (mute) Checkpoint(ctx context.Context, _ batch.Lease, _ batch.Progress) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestACheckpointEndsWithItsAttempt(t *testing.T) {
	j := &journal{mute{}, batch.Lease{}, "", slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := j.Checkpoint(ctx, ladder.Progress{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the attempt has ended, its checkpoint says %v", err)
	}
}
