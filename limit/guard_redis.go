package limit

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// The scripts; guard_lib.lua stands before those of calls.
var (
	//go:embed lua/guard_lib.lua
	guardLibLua string
	//go:embed lua/guard_reserve.lua
	guardReserveLua string
	//go:embed lua/guard_settle.lua
	guardSettleLua string
	//go:embed lua/guard_reopen.lua
	guardReopenLua string
	//go:embed lua/guard_grant.lua
	guardGrantLua string
)

const (
	// guardTTL is when Redis may forget an hour in which nothing happens.
	guardTTL = 48 * time.Hour
	// purseTTL is when Redis may forget what a batch has of its own, counted
	// from the last time that a person gave it something.
	purseTTL = 90 * 24 * time.Hour
)

// GuardRedis is a guard that a whole fleet shares; an operation is one script,
// by the server's clock. It is safe for concurrent use.
type GuardRedis struct {
	rdb redis.UniversalClient
	o   GuardOptions
	now func() string // "": the server's clock; tests set it

	reserve, settle, reopen, grant *redis.Script
}

var _ Guarder = (*GuardRedis)(nil)

// NewGuardRedis returns a guard on rdb, which stays the caller's. All processes
// should have the same limits; where they differ, each applies its own to the
// shared counts.
func NewGuardRedis(rdb redis.UniversalClient, o GuardOptions) *GuardRedis {
	return &GuardRedis{
		rdb: rdb, o: o.withDefaults(), now: func() string { return "" },
		reserve: redis.NewScript(guardLibLua + guardReserveLua), settle: redis.NewScript(guardLibLua + guardSettleLua),
		reopen: redis.NewScript(guardReopenLua), grant: redis.NewScript(guardGrantLua),
	}
}

// Load makes the scripts known to the server, for pipelines: after NOSCRIPT,
// load and run the pipeline again, which does no harm.
func (g *GuardRedis) Load(ctx context.Context) error {
	for _, s := range []*redis.Script{g.reserve, g.settle} {
		if err := s.Load(ctx, g.rdb).Err(); err != nil {
			return fmt.Errorf("load the guard's scripts: %w", err)
		}
	}
	return nil
}

// Reserve counts one call, or returns *OverError.
func (g *GuardRedis) Reserve(ctx context.Context, c Charge) error {
	c = c.clean()
	return g.reserved(c, g.reserve.Run(ctx, g.rdb, g.keys(c), g.reserveArgs(c)...))
}

// ReserveIn adds Reserve to a pipeline; the function gives its answer once the
// pipeline has run.
func (g *GuardRedis) ReserveIn(ctx context.Context, p redis.Pipeliner, c Charge) func() error {
	c = c.clean()
	cmd := g.reserve.EvalSha(ctx, p, g.keys(c), g.reserveArgs(c)...)
	return func() error { return g.reserved(c, cmd) }
}

// Settle corrects the estimate by what the call cost, in nano-dollars.
func (g *GuardRedis) Settle(ctx context.Context, c Charge, usd int64) error {
	return settled(c, g.settle.Run(ctx, g.rdb, g.keys(c), g.settleArgs(c, usd, false)...))
}

// SettleIn is Settle in a pipeline, as ReserveIn is Reserve.
func (g *GuardRedis) SettleIn(ctx context.Context, p redis.Pipeliner, c Charge, usd int64) func() error {
	cmd := g.settle.EvalSha(ctx, p, g.keys(c), g.settleArgs(c, usd, false)...)
	return func() error { return settled(c, cmd) }
}

// Release gives back a call that was not sent.
func (g *GuardRedis) Release(ctx context.Context, c Charge) error {
	return settled(c, g.settle.Run(ctx, g.rdb, g.keys(c), g.settleArgs(c, 0, true)...))
}

// ReleaseIn is Release in a pipeline, as ReserveIn is Reserve.
func (g *GuardRedis) ReleaseIn(ctx context.Context, p redis.Pipeliner, c Charge) func() error {
	cmd := g.settle.EvalSha(ctx, p, g.keys(c), g.settleArgs(c, 0, true)...)
	return func() error { return settled(c, cmd) }
}

// Reopen sets a producer's count of the hour to nothing, as `worker guard
// release` does; [AllProducers] is the count of all.
func (g *GuardRedis) Reopen(ctx context.Context, producer, by string) error {
	if err := g.reopen.Run(ctx, g.rdb, hourKeys(producer), g.now(), by, guardTTL.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("release the guard of %s: %w", producer, err)
	}
	return nil
}

// Grant adds calls of a batch's own. A repeat of a grant by the same person at
// the same time changes nothing.
func (g *GuardRedis) Grant(ctx context.Context, batch string, a Grant) error {
	err := g.grant.Run(ctx, g.rdb, []string{purseKey(batch)}, max(a.Calls, 0), a.By, a.At.UnixMilli(), purseTTL.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("grant batch %s an allowance: %w", batch, err)
	}
	return nil
}

// SetBudget caps what a batch may cost, in nano-dollars; 0: no cap.
func (g *GuardRedis) SetBudget(ctx context.Context, batch string, nano int64) error {
	p := g.rdb.TxPipeline()
	p.HSet(ctx, purseKey(batch), "budget", clampCharge(nano))
	p.PExpire(ctx, purseKey(batch), purseTTL)
	if _, err := p.Exec(ctx); err != nil {
		return fmt.Errorf("set the budget of batch %s: %w", batch, err)
	}
	return nil
}

func (g *GuardRedis) reserved(c Charge, cmd *redis.Cmd) error {
	r, err := decodeGuard(cmd)
	if err != nil {
		return fmt.Errorf("count a call of %s: %w", c.Producer, err)
	}
	g.o.tell(c.Producer, r)
	return r.err(c)
}

func settled(c Charge, cmd *redis.Cmd) error {
	if err := cmd.Err(); err != nil {
		return fmt.Errorf("settle a call of %s: %w", c.Producer, err)
	}
	return nil
}

// guardScopes are the scopes as guard_reserve.lua numbers them.
var guardScopes = []GuardScope{"", GuardProducer, GuardGlobal, GuardBudget}

var errGuardReply = errors.New("the guard's script replied nonsense")

func decodeGuard(cmd *redis.Cmd) (guardReply, error) {
	n, err := cmd.Int64Slice()
	switch {
	case err != nil:
		return guardReply{}, err
	case len(n) != 6 || n[0] < 0 || int(n[0]) >= len(guardScopes):
		return guardReply{}, errGuardReply
	}
	return guardReply{
		scope: guardScopes[n[0]], wait: n[1], change: int(n[2]), until: n[3], allChange: int(n[4]), allUntil: n[5],
	}, nil
}

func (g *GuardRedis) args(c Charge, usd int64) []any {
	args := make([]any, 0, 16)
	return append(args, g.now(), c.Producer, c.Ticket, usd, guardMinutes, guardTTL.Milliseconds())
}

func (g *GuardRedis) reserveArgs(c Charge) []any {
	l, all := g.o.of(c.Producer), g.o.Global
	return append(g.args(c, c.USD), c.Line, flag(c.Always), max(l.Calls, 0), max(l.USD, 0), max(all.Calls, 0), max(all.USD, 0),
		c.Batch, placeGrace.Milliseconds(), budgetWait.Milliseconds())
}

func (g *GuardRedis) settleArgs(c Charge, usd int64, unsent bool) []any {
	return append(g.args(c, clampCharge(usd)), flag(unsent))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// All keys of the guard share a slot of a cluster.
const guardPrefix = "nightshift:{guard}:"

const (
	heldKey      = guardPrefix + "held"
	producersKey = guardPrefix + "producers"
)

func purseKey(batch string) string { return guardPrefix + "b:" + batch }

// hourKeys are an hour, its lines with places, and when they are due.
func hourKeys(producer string) []string {
	of := ":p:" + producer
	if producer == AllProducers {
		of = ":all"
	}
	return []string{guardPrefix + "hour" + of, guardPrefix + "waits" + of, guardPrefix + "dues" + of}
}

func (g *GuardRedis) keys(c Charge) []string {
	keys := append(hourKeys(c.Producer), hourKeys(AllProducers)...)
	return append(keys, heldKey, purseKey(c.Batch), producersKey)
}
