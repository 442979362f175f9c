package batch

import (
	"context"
	"encoding/json"
	"strings"
)

// lifeKeys are all that a batch has beside its meta. The released
// lines go first: what writes a lease looks for one of them before it does.
var lifeKeys = []string{"out", "lease", "wait", "prog", "crash", "marks", "rate", "index", "dict", "log", "rec", "chunks"}

// Vanish makes a batch that is done or cancelled vanish: nothing finds it any
// more, and what is under way of it ends without a trace. It returns the batch's
// description, for Free, also where it vanished before and is not freed yet.
// ErrNotFound: there is no such batch; ErrRunning: it is neither done nor cancelled.
func (s *Redis) Vanish(ctx context.Context, id string) (Description, error) {
	d := Description{ID: id}
	v, err := s.scripts.delete.Run(ctx, s.rdb, []string{metaKey(id)}).Slice()
	if err == nil {
		err = changeError(v[0].(int64))
	}
	if err == nil {
		err = json.Unmarshal([]byte(v[1].(string)), &d)
	}
	return d, wrap("delete batch "+id, err)
}

// Free frees all that is left of a batch that vanished. It can be repeated.
func (s *Redis) Free(ctx context.Context, d Description) error {
	classes, err := s.rdb.HGet(ctx, key(d.ID, "gone"), "classes").Result()
	if err != nil && !isNil(err) {
		return wrap("delete batch "+d.ID, err)
	}
	if err := s.rdb.ZRem(ctx, liveKey, d.ID).Err(); err != nil {
		return wrap("delete batch "+d.ID, err)
	}
	names := append([]string{}, lifeKeys...)
	for c := range strings.FieldsSeq(classes) {
		names = append(names, "again:"+c)
	}
	for _, n := range names { // each a moment: Redis frees what is large beside its other work
		if err := s.rdb.Unlink(ctx, key(d.ID, n)).Err(); err != nil {
			return wrap("delete batch "+d.ID, err)
		}
	}
	if d.Digest != "" {
		if err := s.scripts.unclaim.Run(ctx, s.rdb, []string{contentKey(d.Digest)}, d.ID).Err(); err != nil {
			return wrap("delete batch "+d.ID, err)
		}
	}
	for _, index := range []string{noticeKey, endedKey, allKey} {
		if err := s.rdb.ZRem(ctx, index, d.ID).Err(); err != nil {
			return wrap("delete batch "+d.ID, err)
		}
	}
	return wrap("delete batch "+d.ID, s.rdb.Del(ctx, key(d.ID, "gone")).Err())
}
