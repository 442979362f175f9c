package batch

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"nightshift/provider"
)

// Tally is what a batch has come to so far, in numbers that mostly grow: a retry
// alone takes ends back.
type Tally struct {
	Ended, Calls int64
	Cost, Wasted provider.USD
}

// tallyPage is how many batches are read in one round trip.
const tallyPage = 500

// Tallies returns the tally of every batch that is kept, by its ID.
func (s *Redis) Tallies(ctx context.Context) (map[string]Tally, error) {
	ids, err := s.rdb.ZRange(ctx, allKey, 0, -1).Result()
	if err != nil {
		return nil, wrap("tally batches", err)
	}
	all := make(map[string]Tally, len(ids))
	for ; len(ids) > 0; ids = ids[min(tallyPage, len(ids)):] {
		page := ids[:min(tallyPage, len(ids))]
		metas := make([]*redis.SliceCmd, len(page))
		if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range page {
				metas[i] = p.HMGet(ctx, metaKey(id), "total", "succeeded", "failed", "expired", "cancelled", "calls", "cost", "wasted")
			}
			return nil
		}); err != nil {
			return nil, wrap("tally batches", err)
		}
		for i, id := range page {
			if v := metas[i].Val(); v[0] != nil { // else it is deleted meanwhile
				all[id] = tally(v[1:])
			}
		}
	}
	return all, nil
}

func tally(v []any) Tally {
	n := make([]int64, len(v))
	for i := range v {
		text, _ := v[i].(string)
		n[i], _ = strconv.ParseInt(text, 10, 64) // a missing counter is 0
	}
	return Tally{Ended: n[0] + n[1] + n[2] + n[3], Calls: n[4], Cost: provider.USD(n[5]), Wasted: provider.USD(n[6])}
}
