package batch

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/convoy"
)

// A rider's calls run beside the end of an attempt, also where Redis has lost the
// scripts, and their errors are their own.
func TestRidersRunWithTheEndOfAnAttempt(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", "{\"id\":\"1\",\"prompt\":\"p\"}\n{\"id\":\"2\",\"prompt\":\"p\"}\n")
	refs := b.release(t, "b", 2)
	incr, push := redis.NewScript("return redis.call('INCR', KEYS[1])"), redis.NewScript("return redis.call('LPUSH', KEYS[1], 'x')")
	for i, flush := range []bool{false, true} {
		begun := b.begin(t, refs[i], "t", Granted)
		if flush {
			must(t, b.rdb.ScriptFlush(t.Context()).Err())
		}
		var ridden, bad *convoy.Answer
		ride := func(p *convoy.Party) {
			ridden = p.Add(convoy.Call{Script: incr, Keys: []string{"ridden"}, Alone: true})
			bad = p.Add(convoy.Call{Script: push, Keys: []string{"ridden"}, Alone: true})
		}
		must(t, b.Finish(t.Context(), Lease{refs[i], "t"}, Progress{}, Succeeded, answer(begun.Line, Progress{}), ride))
		if n, _ := ridden.Int(); n != int64(i+1) || bad.Err() == nil {
			t.Errorf("line %d: the rider counted %d, its bad call's error is %v", i+1, n, bad.Err())
		}
	}
}
