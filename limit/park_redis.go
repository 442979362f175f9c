package limit

import (
	"context"
	_ "embed" // the script
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/park.lua
var parkLua string

// parkTTL is when Redis may forget a park, after its end: well beyond the time
// in which a further refusal would double its wait.
const parkTTL = time.Hour

// ParkRedis keeps the parks of a whole fleet; an operation is one script, by the
// server's clock. It is safe for concurrent use.
type ParkRedis struct {
	rdb    redis.UniversalClient
	script *redis.Script
	now    func() string // "": the server's clock; tests set it
}

// NewParkRedis returns a store on rdb, which stays the caller's.
func NewParkRedis(rdb redis.UniversalClient) *ParkRedis {
	return &ParkRedis{rdb: rdb, script: redis.NewScript(parkLua), now: func() string { return "" }}
}

// Parked returns how long the model is still parked; 0: it is not.
func (r *ParkRedis) Parked(ctx context.Context, model Model) (time.Duration, error) {
	ms, err := r.run(ctx, model, "parked", 0)
	if err != nil {
		return 0, fmt.Errorf("read park of %s: %w", model.Model, err)
	}
	return millis(ms), nil
}

// Park parks the model after a refusal and returns for how long; retryAfter 0:
// the provider named no time. A repeat of a command whose reply was lost does
// no harm: the model is parked by then.
func (r *ParkRedis) Park(ctx context.Context, model Model, retryAfter time.Duration) (time.Duration, error) {
	wait := (min(max(retryAfter, 0), maxRetry) + time.Millisecond - 1) / time.Millisecond
	ms, err := r.run(ctx, model, "park", int64(wait))
	if err != nil {
		return 0, fmt.Errorf("park %s: %w", model.Model, err)
	}
	return millis(ms), nil
}

func (r *ParkRedis) run(ctx context.Context, m Model, op string, wait int64) (int64, error) {
	return r.script.Run(ctx, r.rdb, []string{parkKey(m)}, r.now(), op, wait,
		firstWait.Milliseconds(), longestWait.Milliseconds(), maxStepBack.Milliseconds(), parkTTL.Milliseconds()).Int64()
}

// parkKey shares a slot of a cluster with the breakers of the provider.
func parkKey(m Model) string { return "nightshift:{" + m.Provider + "}:park:" + m.Model }
