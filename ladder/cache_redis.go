package ladder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisAnswers keeps answers for a whole fleet, a key each, which the nodes of a
// cluster share by their digests. It is safe for concurrent use.
type RedisAnswers struct{ rdb redis.UniversalClient }

// NewRedisAnswers returns a store on rdb, which stays the caller's. Its client
// should answer soon or not at all.
func NewRedisAnswers(rdb redis.UniversalClient) *RedisAnswers { return &RedisAnswers{rdb} }

// Load implements AnswerStore.
func (s *RedisAnswers) Load(ctx context.Context, digest string) ([]byte, error) {
	b, err := s.rdb.Get(ctx, answerKey(digest)).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("load answer %s: %w", digest, err)
	}
	return append([]byte{}, b...), nil // an empty value is not nil: it is damaged
}

// Save implements AnswerStore. The time is counted by Redis.
func (s *RedisAnswers) Save(ctx context.Context, digest string, value []byte, ttl time.Duration) error {
	if err := s.rdb.Set(ctx, answerKey(digest), value, max(ttl, time.Millisecond)).Err(); err != nil {
		return fmt.Errorf("save answer %s: %w", digest, err)
	}
	return nil
}

// Drop implements AnswerStore.
func (s *RedisAnswers) Drop(ctx context.Context, digest string) error {
	if err := s.rdb.Del(ctx, answerKey(digest)).Err(); err != nil {
		return fmt.Errorf("drop answer %s: %w", digest, err)
	}
	return nil
}

func answerKey(digest string) string { return "nightshift:{c:" + digest + "}" }
