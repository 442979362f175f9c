package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// overduePage is how many batches one round trip looks at.
const overduePage = 500

// Overdue returns the batches that ended so long ago or longer, oldest first (0:
// none of them), and those whose deletion was interrupted. Beside that it lists
// unfinished batches as live that are not: a retry was interrupted.
func (s *Redis) Overdue(ctx context.Context, keep time.Duration) ([]string, error) {
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := s.rdb.ZRangeWithScores(ctx, allKey, 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("look for batches that are over: %w", err)
	}
	var over []string
	for len(ids) > 0 {
		page := ids[:min(len(ids), overduePage)]
		ids = ids[len(page):]
		got, err := s.overdueOf(ctx, page, keep, now)
		if err != nil {
			return over, fmt.Errorf("look for batches that are over: %w", err)
		}
		over = append(over, got...)
	}
	return over, nil
}

func (s *Redis) overdueOf(ctx context.Context, page []redis.Z, keep time.Duration, now time.Time) (over []string, err error) {
	metas, gone := make([]*redis.SliceCmd, len(page)), make([]*redis.IntCmd, len(page))
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, z := range page {
			id := z.Member.(string)
			metas[i] = p.HMGet(ctx, metaKey(id), "d", "finished_at")
			gone[i] = p.Exists(ctx, key(id, "gone"))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var live []redis.Z
	for i, z := range page {
		v := metas[i].Val()
		finished := state{}
		if text, ok := v[1].(string); ok {
			finished["finished_at"] = text
		}
		switch {
		case v[0] == nil && gone[i].Val() > 0,
			finished.finished() && keep > 0 && now.Sub(fromMS(finished.int("finished_at"))) >= keep:
			over = append(over, z.Member.(string))
		case v[0] != nil && !finished.finished():
			live = append(live, z)
		}
	}
	if len(live) > 0 {
		err = s.rdb.ZAddNX(ctx, liveKey, live...).Err()
	}
	return over, err
}
