package limit

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/convoy"
)

// The scripts of calls; numbers.lua and pace.lua stand before the others, save.lua after.
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
	kept    sync.Map      // sharing -> *shared
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

// Reserve asks for one call.
func (r *Redis) Reserve(ctx context.Context, a Ask) (Slot, error) {
	return slotOf(convoy.Run(ctx, r.rdb, r.asked(&a)), a.Model)
}

// ReserveIn adds Reserve to a party; the function gives its answer once that was sent.
func (r *Redis) ReserveIn(p *convoy.Party, a Ask) func() (Slot, error) {
	answer := p.Add(r.asked(&a))
	return func() (Slot, error) { return slotOf(answer, a.Model) }
}

func slotOf(answer *convoy.Answer, m Model) (Slot, error) {
	if n, err := answer.Int(); err == nil && Verdict(n) == Go {
		return Slot{Verdict: Go}, nil
	}
	reply, err := answer.Slice()
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
	return parkedBy(convoy.Run(ctx, r.rdb, r.settled(m, ticket, &res)), "settle a call of", m)
}

// SettleIn adds Settle to a party; the function gives its answer once that was sent.
func (r *Redis) SettleIn(p *convoy.Party, m Model, ticket string, res Result) func() (time.Duration, error) {
	answer := p.Add(r.settled(m, ticket, &res))
	return func() (time.Duration, error) { return parkedBy(answer, "settle a call of", m) }
}

func parkedBy(answer *convoy.Answer, what string, m Model) (time.Duration, error) {
	n, err := answer.Int()
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", what, m.Model, err)
	}
	return millis(n), nil
}

// Cancel gives back what a call that was not sent has or waits for.
func (r *Redis) Cancel(ctx context.Context, m Model, ticket string) error {
	_, err := parkedBy(convoy.Run(ctx, r.rdb, r.change(m, "", ticket, "cancel", 0, 0)), "cancel a call of", m)
	return err
}

// CancelIn adds Cancel to a party; the function gives its error once that was sent.
func (r *Redis) CancelIn(p *convoy.Party, m Model, ticket string) func() error {
	answer := p.Add(r.change(m, "", ticket, "cancel", 0, 0))
	return func() error {
		_, err := parkedBy(answer, "cancel a call of", m)
		return err
	}
}

// Park parks the model or its lane and returns for how long.
func (r *Redis) Park(ctx context.Context, m Model, lane string, retryAfter time.Duration) (time.Duration, error) {
	return parkedBy(convoy.Run(ctx, r.rdb, r.change(m, lane, "", "park", Limited, retryMS(retryAfter))), "park", m)
}

// Restart says that the model's breaker closed.
func (r *Redis) Restart(ctx context.Context, m Model) error {
	_, err := parkedBy(convoy.Run(ctx, r.rdb, r.change(m, "", "", "restart", 0, 0)), "restart", m)
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

// sharing are calls that have keys and arguments in common.
type sharing struct {
	m     Model
	lane  string
	width int // arguments of each alone
}

// shared is what they have in common, made once for limits that stay, and a time of
// a test.
type shared struct {
	limits Limits
	now    string
	keys   []string
	args   []any
}

func (r *Redis) shared(of sharing) *shared {
	l, now := r.limits(of.m), r.now()
	if v, ok := r.kept.Load(of); ok && v.(*shared).limits == l && v.(*shared).now == now {
		return v.(*shared)
	}
	s := &shared{limits: l, now: now, keys: paceKeys(of.m), args: []any{
		now, clamp(int64(l.RPM), 0, maxRPM), clamp(int64(l.TPM), 0, maxTPM),
		clamp(int64(l.Concurrency), 0, maxFlight), of.lane, of.width,
	}}
	r.kept.Store(of, s)
	return s
}

// call is one of pace.lua; own are the arguments of the call alone.
func (r *Redis) call(script *redis.Script, m Model, lane string, own ...any) convoy.Call {
	s := r.shared(sharing{m, lane, len(own)})
	return convoy.Call{Script: script, Keys: s.keys, Shared: s.args, Own: own}
}

func (r *Redis) asked(a *Ask) convoy.Call {
	c := a.clean()
	return r.call(r.reserve, a.Model, c.lane, c.ticket, c.tokens, c.patience, c.lease)
}

func (r *Redis) settled(m Model, ticket string, res *Result) convoy.Call {
	o := res.clean()
	return r.call(r.settle, m, o.lane, ticket, "settle", int(o.kind), o.retryAfter, o.tokens, o.latency, flag(o.alone), o.told())
}

// told is what headers said, as settle.lua reads it.
func (o *outcome) told() string {
	if o.requests.limit == 0 && o.allowed.limit == 0 {
		return ""
	}
	return fmt.Sprintf("%d %d %d %d %d", o.requests.limit, o.requests.remaining, o.requests.reset, o.allowed.limit, o.allowed.remaining)
}

// change is an operation of settle.lua that tells of no outcome.
func (r *Redis) change(m Model, lane, ticket, op string, kind ResultKind, retryAfter int64) convoy.Call {
	return r.call(r.settle, m, lane, ticket, op, int(kind), retryAfter, 0, 0, 0, "")
}

// paceKeys share a slot of a cluster with the breakers of the provider.
func paceKeys(m Model) []string {
	prefix := "nightshift:{" + m.Provider + "}:"
	return []string{prefix + "pace:" + m.Model, prefix + "places:" + m.Model, prefix + "ends:" + m.Model}
}
