package batch

import (
	"context"
	"errors"
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

// retire takes batches that are done or gone out of the index of live ones. One
// that was retried meanwhile may have been listed before it was taken out, so
// each is looked at once more.
func (s *Redis) retire(ctx context.Context, ids []any) error {
	if err := s.rdb.ZRem(ctx, liveKey, ids...).Err(); err != nil {
		return err
	}
	metas := make([]*redis.SliceCmd, len(ids))
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			metas[i] = p.HMGet(ctx, metaKey(id.(string)), "created", "finished_at")
		}
		return nil
	}); err != nil {
		return err
	}
	var errs []error
	for i, id := range ids {
		if v := metas[i].Val(); v[0] != nil && v[1] == nil {
			errs = append(errs, s.revive(ctx, id.(string)))
		}
	}
	return errors.Join(errs...)
}

// msOrNone is a time as scripts take it, "" for none.
func msOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprint(t.UnixMilli())
}
