package batch

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// A rider's commands run beside the end of an attempt, also where Redis has lost
// the script, and their errors are their own.
func TestRidersRunWithTheEndOfAnAttempt(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", "{\"id\":\"1\",\"prompt\":\"p\"}\n{\"id\":\"2\",\"prompt\":\"p\"}\n")
	refs := b.release(t, "b", 2)
	for i, flush := range []bool{false, true} {
		begun := b.begin(t, refs[i], "t", Granted)
		if flush {
			must(t, b.rdb.ScriptFlush(t.Context()).Err())
		}
		var incr, bad *redis.IntCmd
		ride := func(p redis.Pipeliner) {
			incr = p.Incr(t.Context(), "ridden")
			bad = p.LPush(t.Context(), "ridden", "x")
		}
		must(t, b.Finish(t.Context(), Lease{refs[i], "t"}, Progress{}, Succeeded, answer(begun.Line, Progress{}), ride))
		if incr.Val() != int64(i+1) || bad.Err() == nil {
			t.Errorf("line %d: the rider counted %d, its bad command's error is %v", i+1, incr.Val(), bad.Err())
		}
	}
}
