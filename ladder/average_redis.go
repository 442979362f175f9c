package ladder

import (
	"context"
	_ "embed" // the script
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
)

//go:embed lua/averages.lua
var averagesLua string

// averagesTTL is when Redis may forget a model that nobody calls.
const averagesTTL = 7 * 24 * time.Hour

// RedisAverages keeps the averages of a whole fleet, a hash a model. It is safe
// for concurrent use.
type RedisAverages struct {
	rdb    redis.UniversalClient
	script *redis.Script
	now    func() time.Time // of this process, to tell ages by
	clock  func() string    // "": the server's; tests set it
}

// NewRedisAverages returns a store on rdb, which stays the caller's.
func NewRedisAverages(rdb redis.UniversalClient) *RedisAverages {
	return &RedisAverages{rdb: rdb, script: redis.NewScript(averagesLua), now: time.Now, clock: func() string { return "" }}
}

// Merge implements AverageStore in one pipeline; a model's script is atomic.
func (s *RedisAverages) Merge(ctx context.Context, keys []breaker.Key, samples []Averages) ([]Averages, error) {
	all, err := s.merge(ctx, keys, samples, (*redis.Script).EvalSha)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		all, err = s.merge(ctx, keys, samples, (*redis.Script).Eval)
	}
	if err != nil {
		return nil, fmt.Errorf("merge averages of %d models: %w", len(keys), err)
	}
	return all, nil
}

type evaluate func(s *redis.Script, ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (s *RedisAverages) merge(ctx context.Context, keys []breaker.Key, samples []Averages, eval evaluate) ([]Averages, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := s.rdb.Pipeline()
	now := s.now()
	cmds := make([]*redis.Cmd, len(keys))
	for i, k := range keys {
		x := samples[i]
		cmds[i] = eval(s.script, ctx, pipe, []string{averagesKey(k)}, s.clock(),
			decimal(x.Success.Sum), decimal(x.Success.Weight), decimal(x.Latency.Sum), decimal(x.Latency.Weight),
			max(now.Sub(x.At), 0).Milliseconds(), averagesTTL.Milliseconds())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	all := make([]Averages, len(keys))
	for i, c := range cmds {
		var err error
		if all[i], err = readAverages(c, now); err != nil {
			return nil, fmt.Errorf("of %s: %w", keys[i], err)
		}
	}
	return all, nil
}

func readAverages(c *redis.Cmd, now time.Time) (Averages, error) {
	raw, err := c.Slice()
	if err != nil {
		return Averages{}, err
	}
	if len(raw) != 5 {
		return Averages{}, fmt.Errorf("script replied %d fields, not 5", len(raw))
	}
	var x [4]float64
	for i := range x {
		text, _ := raw[i].(string)
		if x[i], err = strconv.ParseFloat(text, 64); err != nil {
			return Averages{}, fmt.Errorf("field %d: %w", i, err)
		}
	}
	a := Averages{Success: Average{x[0], x[1]}, Latency: Average{x[2], x[3]}}
	if age, _ := raw[4].(int64); a.Success.Weight > 0 {
		a.At = now.Add(-time.Duration(age) * time.Millisecond)
	}
	return a, nil
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'g', 17, 64) }

// averagesKey shares a slot of a cluster with the breakers of the provider.
func averagesKey(k breaker.Key) string {
	return "nightshift:{" + k.Provider + "}:averages:" + k.Model
}
