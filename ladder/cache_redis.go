package ladder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/klauspost/compress/zstd"
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

// maxUnpacked bounds what one kept value may unpack to: the longest response
// that an adapter reads, and some more.
const maxUnpacked = 65 << 20

// packer compresses answers. It is safe for concurrent use and holds no
// goroutines.
type packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newPacker() packer {
	n := runtime.GOMAXPROCS(0)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(n), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("ladder: zstd options: " + err.Error()) // constants of ours
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(n), zstd.WithDecoderMaxMemory(maxUnpacked),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("ladder: zstd options: " + err.Error())
	}
	return packer{enc, dec}
}

func (p packer) pack(b []byte) []byte { return p.enc.EncodeAll(b, nil) }

func (p packer) unpack(b []byte) ([]byte, error) {
	out, err := p.dec.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return out, nil
}
