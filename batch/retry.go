package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// retryBytes is how much of records one script of a retry reads, but for a single
// one that is longer.
const retryBytes = 4 << 20

// Retry says which lines are taken back.
type Retry struct {
	// Codes are those of the lines' ends; empty: any.
	Codes []string
	// Deadline is the batch's from now on; zero: it stays.
	Deadline time.Time
}

// Retry takes the lines of a batch that failed or expired back into the backlog,
// in pieces, and returns how many. Their records are gone, their generation is one
// higher, and they are released before the lines that never were. A batch that
// was done is not any more. progress, which may be nil, is called with the number
// of ends looked at, and of all.
//
// An interrupted retry goes on when it is repeated; a line is taken back once for
// each of its ends. ErrNotFound, ErrEnqueuing, ErrCancelled and ErrDeadline say
// why none is; in the last case the batch needs a new deadline.
func (s *Redis) Retry(ctx context.Context, id string, r Retry, progress func(looked, all int64)) (retried int64, err error) {
	defer func() { err = wrap("retry lines of "+id, err) }()
	if progress == nil {
		progress = func(int64, int64) {}
	}
	// Lines that fail again meanwhile stand behind this end.
	all, err := s.rdb.LLen(ctx, key(id, "log")).Result()
	if err != nil {
		return 0, err
	}
	for offset := int64(0); ; {
		n, next, err := s.retryPiece(ctx, id, r, offset, min(endPiece, all-offset))
		retried += n
		if err != nil {
			return retried, err
		}
		if n > 0 {
			if err := s.revive(ctx, id); err != nil {
				return retried, err
			}
		}
		if progress(next, all); next >= all || next == offset { // the latter where it was deleted meanwhile
			return retried, s.revive(ctx, id)
		}
		offset = next
	}
}

func (s *Redis) retryPiece(ctx context.Context, id string, r Retry, offset, n int64) (retried, next int64, err error) {
	args := []any{s.nowArg(), offset, n, retryBytes, msOrNone(r.Deadline)}
	for _, c := range r.Codes {
		args = append(args, c)
	}
	v, err := s.scripts.retry.Run(ctx, s.rdb, []string{metaKey(id)}, args...).Int64Slice()
	if err != nil {
		return 0, offset, err
	}
	return v[1], v[2], changeError(v[0])
}

// revive lists a batch as one that may be unfinished; the keeper drops those that
// are not.
func (s *Redis) revive(ctx context.Context, id string) error {
	created, err := s.rdb.HGet(ctx, metaKey(id), "created").Float64()
	if isNil(err) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	return s.rdb.ZAddNX(ctx, liveKey, redis.Z{Score: created, Member: id}).Err()
}

// msOrNone is a time as scripts take it, "" for none.
func msOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprint(t.UnixMilli())
}
