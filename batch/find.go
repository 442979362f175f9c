package batch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// findPage is how many chunks are looked at in one round trip: 4 MiB of requests.
const findPage = 16

// Find returns the number of the line with a custom_id. It reads the requests of the
// batch one after the other until it has it; progress, which may be nil, is called
// with how many lines were looked at, and of all. A *NoLineError: there is none;
// ErrNotFound: no such batch.
func (s *Redis) Find(ctx context.Context, id, customID string, progress func(looked, all int64)) (int64, error) {
	line, err := s.find(ctx, id, customID, progress)
	return line, wrap(fmt.Sprintf("find %q in %s", customID, id), err)
}

func (s *Redis) find(ctx context.Context, id, customID string, progress func(looked, all int64)) (int64, error) {
	d, err := s.description(ctx, id)
	if err != nil {
		return 0, err
	}
	looked := int64(0)
	for from := int64(0); ; from += findPage {
		numbers := make([]string, findPage)
		for i := range numbers {
			numbers[i] = strconv.FormatInt(from+int64(i), 10)
		}
		chunks, err := s.rdb.HMGet(ctx, key(id, "chunks"), numbers...).Result()
		if err != nil {
			return 0, err
		}
		for i, v := range chunks {
			packed, ok := v.(string)
			if !ok {
				return 0, s.noLine(ctx, d)
			}
			lines, err := s.decode(ctx, chunkID{id, d.Digest, numbers[i]}, []byte(packed))
			if err != nil {
				return 0, err
			}
			if j := slices.IndexFunc(lines, func(l Line) bool { return l.CustomID == customID }); j >= 0 {
				return lines[j].Number, nil
			}
			looked += int64(len(lines))
		}
		if progress != nil {
			progress(looked, d.Total)
		}
	}
}
