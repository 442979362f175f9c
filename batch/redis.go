package batch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/convoy"
	"nightshift/internal/packer"
)

// maxCrashes is how many begins of a line may stay without an end (design,
// section 3): the begin after the fifth ends the line as task_lost.
const maxCrashes = 5

// maxDecoded bounds what one compressed value may unpack to: the longest line
// with its frame, or a record of a line and its answer.
const maxDecoded = 64 << 20

// Options are the choices of a store; the zero value has the defaults.
type Options struct {
	// Now is the time of every decision; nil is Redis's own clock.
	Now func() time.Time
	// Lease is how long an attempt holds a line unless it renews. Defaults to 60 s.
	Lease time.Duration
	// CacheBytes bounds the decoded chunks kept in this process. Defaults to 64 MiB.
	CacheBytes int64
}

func (o Options) withDefaults() Options {
	if o.Lease <= 0 {
		o.Lease = time.Minute
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 64 << 20
	}
	return o
}

// Redis keeps batches in Redis. It is safe for concurrent use by any number of
// goroutines and processes; every step of a line's life is one script.
//
// Whatever changes something may be repeated with the same arguments, e.g.
// after a lost reply: the repetition changes nothing. Release and End are the
// exceptions, they go on where they stand.
type Redis struct {
	rdb     redis.UniversalClient
	opt     Options
	scripts scripts
	begins  *convoy.Convoy // of attempts
	ends    *convoy.Convoy
	packer  packer.Packer
	records packer.Packer
	cache   *chunkCache
}

// NewRedis returns a store that uses the client, which stays the caller's.
func NewRedis(rdb redis.UniversalClient, opt Options) *Redis {
	opt = opt.withDefaults()
	return &Redis{
		rdb: rdb, opt: opt, scripts: loadScripts(), begins: convoy.New(rdb), ends: convoy.New(rdb),
		packer: packer.New(maxDecoded), records: packer.WithDictionary(maxDecoded, recordDictionary, recordText),
		cache: newChunkCache(opt.CacheBytes),
	}
}

// The keys that are not of one batch.
const (
	allKey  = "nightshift:batches" // zset: batch -> creation, ms
	liveKey = "nightshift:live"    // zset: the same, of those that may be unfinished
)

func metaKey(batch string) string     { return key(batch, "meta") }
func key(batch, name string) string   { return "nightshift:{b:" + batch + "}:" + name }
func contentKey(digest string) string { return "nightshift:content:" + digest }

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckID returns an error if id cannot be the ID of a batch.
func CheckID(id string) error {
	if !validID.MatchString(id) {
		return fmt.Errorf("batch ID %q: use up to 128 letters, digits, '.', '_' and '-', a letter or digit first", id)
	}
	return nil
}

// nowArg is the time as scripts take it: ms, or "" for Redis's own.
func (s *Redis) nowArg() string {
	if s.opt.Now == nil {
		return ""
	}
	return strconv.FormatInt(s.opt.Now().UnixMilli(), 10)
}

// now is the time by the clock that scripts use.
func (s *Redis) now(ctx context.Context) (time.Time, error) {
	if s.opt.Now != nil {
		return s.opt.Now(), nil
	}
	t, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of redis: %w", err)
	}
	return t, nil
}

// orTest is the time that Redis told, unless a test has its own.
func (s *Redis) orTest(told time.Time) time.Time {
	if s.opt.Now != nil {
		return s.opt.Now()
	}
	return told
}

func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMS(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

func isNil(err error) bool { return errors.Is(err, redis.Nil) }
