package batch

import (
	"context"
	"fmt"
	"strconv"
)

// endPiece bounds how many lines one script ends or takes back, so that it does
// not hold Redis for long: some 3 ms, and where its machine is busy several times
// that (BenchmarkMillion).
const endPiece = 200

// endCursor is what end.lua returns where nothing is left.
const endCursor = "end"

// End ends up to n lines that no live lease holds as cancelled or expired, with
// a record each, and returns how many. It ends nothing of a batch that was not
// cancelled, or whose deadline has not passed by the store's clock. As failed it
// ends lines that are not released, because the budget of their batch is spent;
// those that are out are for their attempts. An epoch smaller than the last seen
// is ErrFenced.
func (s *Redis) End(ctx context.Context, id string, epoch int64, o Outcome, n int) (int, error) {
	if o != Cancelled && o != Expired && o != Failed {
		return 0, fmt.Errorf("end lines of %s: %q is no end of the keeper's", id, o)
	}
	ended, _, err := s.end(ctx, id, strconv.FormatInt(epoch, 10), letters[o], n, "")
	return ended, err
}

// Settle ends all lines of a batch that was cancelled, or whose deadline has
// passed, but for those that a live lease holds, and returns how many. It needs
// no keeper, and does no harm beside one: what is over stays over. When the
// context ends, it stops between two pieces.
func (s *Redis) Settle(ctx context.Context, id string) (ended int, err error) {
	for cursor := ""; cursor != endCursor; {
		var n int
		n, cursor, err = s.end(ctx, id, "", "", endPiece, cursor)
		ended += n
		if err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// end ends up to n lines in pieces and returns where it stands.
func (s *Redis) end(ctx context.Context, id, epoch, outcome string, n int, cursor string) (int, string, error) {
	ended := 0
	for ended < n && cursor != endCursor {
		v, err := s.scripts.end.Run(ctx, s.rdb, []string{metaKey(id)},
			s.nowArg(), epoch, outcome, min(n-ended, endPiece), cursor).Slice()
		if err == nil && v[0].(int64) < 0 {
			err = ErrFenced
		}
		if err != nil {
			return ended, cursor, fmt.Errorf("end lines of %s: %w", id, err)
		}
		ended += int(v[0].(int64))
		cursor = v[1].(string)
	}
	return ended, cursor, nil
}

// Cancel marks a batch as cancelled: what is finished stays, calls in flight
// may end, the other lines end by End, Settle or their attempts. A batch that is
// over, or cancelled already, stays as it is; ErrNotFound: no such batch.
func (s *Redis) Cancel(ctx context.Context, id string) error {
	code, err := s.scripts.cancel.Run(ctx, s.rdb, []string{metaKey(id)}, s.nowArg()).Int()
	if err == nil && code == 2 {
		err = ErrNotFound
	}
	return wrap("cancel batch "+id, err)
}
