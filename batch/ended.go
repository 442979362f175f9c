package batch

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// endedKey is a zset: batch -> its end, ms; of those that ended lately.
const endedKey = "nightshift:ended"

// EndsKept is how long [Redis.Ended] knows of an end.
const EndsKept = 24 * time.Hour

// noteEnds keeps the ends that were seen.
func (s *Redis) noteEnds(ctx context.Context, ends []redis.Z, now time.Time) error {
	if len(ends) == 0 {
		return nil
	}
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, endedKey, ends...)
		p.ZRemRangeByScore(ctx, endedKey, "-inf", strconv.FormatInt(now.Add(-EndsKept).UnixMilli(), 10))
		return nil
	})
	return wrap("note the ends of batches", err)
}

// Ended returns the batches that ended after a time, as far as [Redis.Refresh]
// has seen them, and are not running again. What cannot be read is left out, as
// in [Redis.List].
func (s *Redis) Ended(ctx context.Context, after time.Time) ([]Status, error) {
	from := "(" + strconv.FormatInt(after.UnixMilli(), 10)
	ids, err := s.rdb.ZRangeByScore(ctx, endedKey, &redis.ZRangeBy{Min: from, Max: "+inf"}).Result()
	if err != nil || len(ids) == 0 {
		return nil, wrap("read the ends of batches", err)
	}
	all, err := s.statuses(ctx, ids, waitSampleOfMany)
	all = slices.DeleteFunc(all, func(st Status) bool { return st.FinishedAt == nil })
	return all, wrap("read the ends of batches", err)
}

// Live returns the status of the batches that have not ended, oldest first, as
// [Redis.List] does of all.
func (s *Redis) Live(ctx context.Context) ([]Status, error) {
	ids, err := s.rdb.ZRange(ctx, liveKey, 0, -1).Result()
	if err != nil || len(ids) == 0 {
		return nil, wrap("list batches that run", err)
	}
	all, err := s.statuses(ctx, ids, waitSampleOfMany)
	all = slices.DeleteFunc(all, func(st Status) bool { return st.FinishedAt != nil })
	return all, wrap("list batches that run", err)
}
