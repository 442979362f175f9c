package limit

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The scripts; numbers.lua and pace.lua stand before the others, save.lua after.
var (
	//go:embed lua/numbers.lua
	numbersLua string
	//go:embed lua/pace.lua
	paceLua string
	//go:embed lua/reserve.lua
	reserveLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/save.lua
	saveLua string
)

// stateTTL is when Redis may forget the pace of a model that nobody calls.
const stateTTL = 25 * time.Hour

// Redis is a Pacer for a whole fleet; an operation is one script, by the server's
// clock. It is safe for concurrent use. A client that repeats a command whose
// reply was lost does no harm.
type Redis struct {
	rdb     redis.UniversalClient
	limits  func(Model) Limits
	reserve *redis.Script
	settle  *redis.Script
	now     func() string // "": the server's clock; tests set it
}

var _ Pacer = (*Redis)(nil)

// NewRedis returns a pacer on rdb, which stays the caller's. Limits is asked at
// every operation, so it must be quick and safe for concurrent use; nil: none are
// configured. All processes should have the same; where they differ, each applies
// its own to the shared state.
func NewRedis(rdb redis.UniversalClient, limits func(Model) Limits) *Redis {
	return newRedis(rdb, limits, numbersLua+paceLua+reserveLua+saveLua, numbersLua+paceLua+settleLua+saveLua)
}

func newRedis(rdb redis.UniversalClient, limits func(Model) Limits, reserve, settle string) *Redis {
	if limits == nil {
		limits = func(Model) Limits { return Limits{} }
	}
	return &Redis{
		rdb: rdb, limits: limits, now: func() string { return "" },
		reserve: redis.NewScript(reserve), settle: redis.NewScript(settle),
	}
}

// Load loads the scripts, which the pipelines of ReserveIn and SettleIn need:
// where one fails with NOSCRIPT, load and repeat it.
func (r *Redis) Load(ctx context.Context) error {
	for _, s := range []*redis.Script{r.reserve, r.settle} {
		if err := s.Load(ctx, r.rdb).Err(); err != nil {
			return fmt.Errorf("load scripts of package limit: %w", err)
		}
	}
	return nil
}

// Reserve asks for one call.
func (r *Redis) Reserve(ctx context.Context, a Ask) (Slot, error) {
	return slotOf(r.reserve.Run(ctx, r.rdb, paceKeys(a.Model), r.asked(&a)...), a.Model)
}

// ReserveIn adds Reserve to a pipeline; the function gives its answer after Exec.
func (r *Redis) ReserveIn(ctx context.Context, p redis.Pipeliner, a Ask) func() (Slot, error) {
	cmd := r.reserve.EvalSha(ctx, p, paceKeys(a.Model), r.asked(&a)...)
	return func() (Slot, error) { return slotOf(cmd, a.Model) }
}

func slotOf(cmd *redis.Cmd, m Model) (Slot, error) {
	reply, err := cmd.Result()
	var s Slot
	if err == nil {
		s, err = decodeSlot(reply)
	}
	if err != nil {
		return Slot{}, fmt.Errorf("reserve a call of %s: %w", m.Model, err)
	}
	return s, nil
}

// Settle says what became of a call, and returns for how long it parked.
func (r *Redis) Settle(ctx context.Context, m Model, ticket string, res Result) (time.Duration, error) {
	return parkedBy(r.settle.Run(ctx, r.rdb, paceKeys(m), r.settled(m, ticket, &res)...), "settle a call of", m)
}

// SettleIn adds Settle to a pipeline; the function gives its answer after Exec.
func (r *Redis) SettleIn(ctx context.Context, p redis.Pipeliner, m Model, ticket string, res Result) func() (time.Duration, error) {
	cmd := r.settle.EvalSha(ctx, p, paceKeys(m), r.settled(m, ticket, &res)...)
	return func() (time.Duration, error) { return parkedBy(cmd, "settle a call of", m) }
}

func parkedBy(cmd *redis.Cmd, what string, m Model) (time.Duration, error) {
	n, err := cmd.Int64()
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", what, m.Model, err)
	}
	return millis(n), nil
}

// Cancel gives back what a call that was not sent has or waits for.
func (r *Redis) Cancel(ctx context.Context, m Model, ticket string) error {
	_, err := parkedBy(r.settle.Run(ctx, r.rdb, paceKeys(m), r.canceled(m, ticket)...), "cancel a call of", m)
	return err
}

// CancelIn adds Cancel to a pipeline; the function gives its error after Exec.
func (r *Redis) CancelIn(ctx context.Context, p redis.Pipeliner, m Model, ticket string) func() error {
	cmd := r.settle.EvalSha(ctx, p, paceKeys(m), r.canceled(m, ticket)...)
	return func() error {
		_, err := parkedBy(cmd, "cancel a call of", m)
		return err
	}
}

// Park parks the model or its lane and returns for how long.
func (r *Redis) Park(ctx context.Context, m Model, lane string, retryAfter time.Duration) (time.Duration, error) {
	args := append(r.args(m, "", lane), "park", int(Limited), retryMS(retryAfter))
	return parkedBy(r.settle.Run(ctx, r.rdb, paceKeys(m), args...), "park", m)
}

// Restart says that the model's breaker closed.
func (r *Redis) Restart(ctx context.Context, m Model) error {
	_, err := parkedBy(r.settle.Run(ctx, r.rdb, paceKeys(m), append(r.args(m, "", ""), "restart", 0, 0)...), "restart", m)
	return err
}

// List returns the pace of the models, in their order, in one pipeline.
func (r *Redis) List(ctx context.Context, models []Model) ([]Pace, error) {
	pipe := r.rdb.Pipeline()
	clock := pipe.Time(ctx)
	cmds := make([]*redis.SliceCmd, len(models))
	for i, m := range models {
		cmds[i] = pipe.HMGet(ctx, paceKeys(m)[0], "pace", "learned", "park:")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("list the pace of %d models: %w", len(models), err)
	}
	now := clock.Val().UnixMilli()
	if ms, err := strconv.ParseInt(r.now(), 10, 64); err == nil {
		now = ms
	}
	list := make([]Pace, len(models))
	for i, m := range models {
		hash := map[string]string{}
		for j, field := range []string{"pace", "learned", "park:"} {
			hash[field], _ = cmds[i].Val()[j].(string)
		}
		list[i] = decodeState(hash).pace(r.limits(m), now)
		list[i].Model = m
	}
	return list, nil
}

// args are those of pace.lua.
func (r *Redis) args(m Model, ticket, lane string) []any {
	l := r.limits(m)
	return append(make([]any, 0, 17), r.now(), clamp(int64(l.RPM), 0, maxRPM), clamp(int64(l.TPM), 0, maxTPM),
		clamp(int64(l.Concurrency), 0, maxFlight), ticket, lane)
}

func (r *Redis) asked(a *Ask) []any {
	c := a.clean()
	return append(r.args(a.Model, c.ticket, c.lane), c.tokens, c.patience, c.lease)
}

func (r *Redis) settled(m Model, ticket string, res *Result) []any {
	o := res.clean()
	alone := 0
	if o.alone {
		alone = 1
	}
	return append(r.args(m, ticket, o.lane), "settle", int(o.kind), o.retryAfter, o.tokens, o.latency, alone,
		o.requests.limit, o.requests.remaining, o.requests.reset, o.allowed.limit, o.allowed.remaining)
}

func (r *Redis) canceled(m Model, ticket string) []any {
	return append(r.args(m, ticket, ""), "cancel", 0, 0)
}

// paceKeys share a slot of a cluster with the breakers of the provider.
func paceKeys(m Model) []string {
	prefix := "nightshift:{" + m.Provider + "}:"
	return []string{prefix + "pace:" + m.Model, prefix + "places:" + m.Model, prefix + "ends:" + m.Model}
}
