package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
)

// ErrEvicts: Redis throws keys away when its memory is full.
var ErrEvicts = errors.New("redis evicts")

// infoOf returns what INFO says of each server that writes go to: of a cluster,
// those are many.
func infoOf(ctx context.Context, rdb redis.UniversalClient) (all []map[string]string, err error) {
	cluster, is := rdb.(*redis.ClusterClient)
	if !is {
		text, err := rdb.Info(ctx).Result()
		return []map[string]string{parseInfo(text)}, err
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		text, err := c.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, parseInfo(text))
		return err
	})
	return all, err
}

// evicts says under which policy a server may throw batches away; "": under none.
func evicts(info map[string]string) string {
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		return policy
	}
	return ""
}

// checkServer refuses a Redis that evicts, and warns of one that forgets. Of an
// embedded one it is known.
func (c *Conn) checkServer(ctx context.Context, log *slog.Logger) error {
	if c.Redis.embedded != nil {
		return nil
	}
	all, err := infoOf(ctx, c.state)
	if err != nil {
		log.Warn("redis does not tell how it is set up: see that maxmemory-policy is noeviction", "error", err)
		return nil
	}
	for _, info := range all {
		if policy := evicts(info); policy != "" {
			return fmt.Errorf("%w: maxmemory-policy is %q, so it may throw batches away; set it to noeviction", ErrEvicts, policy)
		}
		if f := redisPersistence(ctx, c.state, info); f.Grade != Good {
			log.Warn("redis may forget batches: " + f.Detail)
		}
	}
	return nil
}

// redisPersistence says what a restart of Redis leaves.
func redisPersistence(ctx context.Context, rdb redis.UniversalClient, info map[string]string) Finding {
	f := Finding{"redis", "persistence", Good, "append-only file"}
	if info["aof_enabled"] == "1" {
		return f
	}
	f.Grade = Warning
	save, err := rdb.ConfigGet(ctx, "save").Result()
	switch {
	case err != nil: // managed services forbid it
		f.Detail = "no append-only file: a restart of Redis loses what came after its last snapshot, if it makes any; set appendonly yes"
	case save["save"] == "":
		f.Detail = "no append-only file and no snapshots: a restart of Redis loses batches; set appendonly yes"
	default:
		f.Detail = "snapshots alone: a restart of Redis loses what came after the last one; set appendonly yes"
	}
	return f
}

// fullAt is the part of maxmemory from which on nothing more is submitted: the rest
// is for the answers of what is there.
const fullAt = 0.9

// NoRoomError says that Redis has no memory for a batch.
type NoRoomError struct {
	Used, Limit, Needed int64 // bytes
}

// Error implements error.
func (e *NoRoomError) Error() string {
	return fmt.Sprintf("redis has no room for %s: it uses %s of its maxmemory of %s, and batches may fill %.0f%% of it",
		megabytes(e.Needed), megabytes(e.Used), megabytes(e.Limit), 100*fullAt)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// CheckRoom returns a *NoRoomError where Redis is near the limit of its memory, or
// would be with so many bytes more. A Redis that tells no limit has none.
func (c *Conn) CheckRoom(ctx context.Context, needed int64) error {
	if c.Redis.embedded != nil {
		return nil
	}
	all, err := infoOf(ctx, c.state)
	if err != nil {
		return nil // it may be forbidden; a write that does not fit is refused all the same
	}
	for _, info := range all {
		used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
		limit, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
		if limit > 0 && float64(used+needed) > fullAt*float64(limit) {
			return &NoRoomError{used, limit, needed}
		}
	}
	return nil
}

// memoryUse is how far a server of Redis has filled its memory, in bytes. Limit is
// what it may use: its maxmemory, or the memory of its machine; 0: not known.
type memoryUse struct{ used, limit int64 }

func (u memoryUse) share() float64 {
	if u.limit == 0 {
		return 0
	}
	return float64(u.used) / float64(u.limit)
}

// memory returns the use of the server that is nearest to its limit. An embedded
// one tells nothing.
func (c *Conn) memory(ctx context.Context) (memoryUse, error) {
	var worst memoryUse
	if c.Redis.embedded != nil {
		return worst, nil
	}
	all, err := infoOf(ctx, c.state)
	if err != nil {
		return worst, fmt.Errorf("ask redis for its memory: %w", err)
	}
	for _, info := range all {
		number := func(key string) int64 {
			n, _ := strconv.ParseInt(info[key], 10, 64) // a managed Redis may leave it out
			return n
		}
		u := memoryUse{number("used_memory"), cmp.Or(number("maxmemory"), number("total_system_memory"))}
		if worst.used == 0 || u.share() > worst.share() {
			worst = u
		}
	}
	return worst, nil
}

// CheckRoomFor is CheckRoom for what Redis has yet to take of a batch's content.
func (c *Conn) CheckRoomFor(ctx context.Context, id string, content *batch.Packed) error {
	missing, err := c.Batches.Missing(ctx, id, content)
	if err != nil || missing == 0 {
		return err
	}
	return c.CheckRoom(ctx, missing)
}

// ErrFull: Redis refused a write because its memory is full.
var ErrFull = errors.New("the memory of redis is full: raise maxmemory, or delete batches that are done (enqueue delete)")

// fullError is ErrFull with Redis's own words.
type fullError struct{ error }

func (e fullError) Error() string      { return ErrFull.Error() + ": " + e.error.Error() }
func (fullError) Is(target error) bool { return target == ErrFull }
func (e fullError) Unwrap() error      { return e.error }

// fullHook names the remedy wherever Redis is out of memory.
type fullHook struct{}

func (fullHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (fullHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return full(cmd, next(ctx, cmd))
	}
}

func (fullHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if e := full(cmd, cmd.Err()); errors.Is(e, ErrFull) {
				err = e
			}
		}
		return err
	}
}

// full rewords the error of a command.
func full(cmd redis.Cmder, err error) error {
	if err == nil || errors.Is(err, ErrFull) || !strings.HasPrefix(err.Error(), "OOM ") {
		return err
	}
	cmd.SetErr(fullError{err})
	return cmd.Err()
}
