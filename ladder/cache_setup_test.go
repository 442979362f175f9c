package ladder

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/config"
	"nightshift/internal/redistest"
	"nightshift/provider"
)

// cached is a bundle with a cache in a Redis.
type cached struct {
	*bundle
	rdb *redis.Client
}

func setupCached(t *testing.T, rdb *redis.Client, names ...string) *cached {
	t.Helper()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	b := &cached{setup(t, names...), rdb}
	b.cache = NewRedisAnswers(rdb)
	for _, n := range names {
		b.says(n, whole)
	}
	return b
}

// whole is an answer that ends by itself.
const whole = `{"choices":[{"index":0,"message":{"role":"assistant","content":"<yes> & no"},"finish_reason":"stop"}], "usage":{}}`

// says makes a model answer with a body.
func (b *cached) says(name, body string) {
	b.callers["p/"+name].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		ans, err := answers(ctx, n, r)
		ans.Body = json.RawMessage(body)
		return ans, err
	}
}

// kept is a ladder of models that keeps answers for an hour.
func kept(names ...string) config.Ladder {
	c := nightly(1, names...)
	c.Cache = time.Hour
	return c
}

// asking is the line with another body.
func asking(body string) Request {
	r := line()
	r.Body = json.RawMessage(body)
	return r
}

// keys are those in Redis.
func (b *cached) keys() []string {
	b.t.Helper()
	keys, err := b.rdb.Keys(context.Background(), "*").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	return keys
}

// one is the only key in Redis.
func (b *cached) one() string {
	b.t.Helper()
	keys := b.keys()
	if len(keys) != 1 {
		b.t.Fatalf("kept %v, want one answer", keys)
	}
	return keys[0]
}

// answered runs a line that must be answered, and says whether by the cache.
func (b *cached) answered(l *Ladder, r Request) bool {
	b.t.Helper()
	out := b.run(l, r)
	wantEnd(b.t, out, Answered, "")
	return out.Answer.Cached
}

func redisClient(t *testing.T) *redis.Client { return redistest.Client(t) }
