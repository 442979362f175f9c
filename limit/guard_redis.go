package limit

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/convoy"
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

	last atomic.Pointer[guardShared]
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

// Reserve counts one call, or returns *OverError.
func (g *GuardRedis) Reserve(ctx context.Context, c Charge) error {
	return g.reserved(c, convoy.Run(ctx, g.rdb, g.asked(c)))
}

// ReserveIn adds Reserve to a party; the function gives its answer once that was
// sent.
func (g *GuardRedis) ReserveIn(p *convoy.Party, c Charge) func() error {
	answer := p.Add(g.asked(c))
	return func() error { return g.reserved(c, answer) }
}

// Settle corrects the estimate by what the call cost, in nano-dollars.
func (g *GuardRedis) Settle(ctx context.Context, c Charge, usd int64) error {
	return settled(c, convoy.Run(ctx, g.rdb, g.told(c, usd, false)))
}

// SettleIn is Settle in a party, as ReserveIn is Reserve.
func (g *GuardRedis) SettleIn(p *convoy.Party, c Charge, usd int64) func() error {
	answer := p.Add(g.told(c, usd, false))
	return func() error { return settled(c, answer) }
}

// Release gives back a call that was not sent.
func (g *GuardRedis) Release(ctx context.Context, c Charge) error {
	return settled(c, convoy.Run(ctx, g.rdb, g.told(c, 0, true)))
}

// ReleaseIn is Release in a party, as ReserveIn is Reserve.
func (g *GuardRedis) ReleaseIn(p *convoy.Party, c Charge) func() error {
	answer := p.Add(g.told(c, 0, true))
	return func() error { return settled(c, answer) }
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

func (g *GuardRedis) reserved(c Charge, answer *convoy.Answer) error {
	r, err := decodeGuard(answer)
	if err != nil {
		return fmt.Errorf("count a call of %s: %w", c.Producer, err)
	}
	g.o.tell(c.Producer, r)
	return r.err(c)
}

func settled(c Charge, answer *convoy.Answer) error {
	if err := answer.Err(); err != nil {
		return fmt.Errorf("settle a call of %s: %w", c.Producer, err)
	}
	return nil
}

// guardScopes are the scopes as guard_reserve.lua numbers them.
var guardScopes = []GuardScope{"", GuardProducer, GuardGlobal, GuardBudget}

var errGuardReply = errors.New("the guard's script replied nonsense")

// decodeGuard reads an answer of guard_reserve.lua.
func decodeGuard(answer *convoy.Answer) (guardReply, error) {
	if n, err := answer.Int(); err == nil && n == 0 {
		return guardReply{}, nil
	}
	list, err := answer.Slice()
	if err != nil {
		return guardReply{}, err
	}
	var n [6]int64
	if len(list) != len(n) {
		return guardReply{}, errGuardReply
	}
	for i, v := range list {
		if n[i], err = whole(v); err != nil {
			return guardReply{}, err
		}
	}
	if n[0] < 0 || int(n[0]) >= len(guardScopes) {
		return guardReply{}, errGuardReply
	}
	return guardReply{
		scope: guardScopes[n[0]], wait: n[1], change: int(n[2]), until: n[3], allChange: int(n[4]), allUntil: n[5],
	}, nil
}

// whole is a number, or a text of one.
func whole(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case string:
		return strconv.ParseInt(v, 10, 64)
	}
	return 0, errGuardReply
}

// guardShared is what the calls of a batch have in common, made once for limits
// that stay, and a time of a test.
type guardShared struct {
	producer, batch, now string
	limits               GuardLimits
	keys                 []string
	reserve, settle      []any
}

// shared is kept of the last batch alone: there are ever new ones.
func (g *GuardRedis) shared(c Charge) *guardShared {
	l, all, now := g.o.of(c.Producer), g.o.Global, g.now()
	if s := g.last.Load(); s != nil && s.producer == c.Producer && s.batch == c.Batch && s.limits == l && s.now == now {
		return s
	}
	s := &guardShared{producer: c.Producer, batch: c.Batch, now: now, limits: l, keys: g.keys(c)}
	s.settle = []any{now, guardMinutes, guardTTL.Milliseconds()}
	s.reserve = append(s.settle[:3:3], c.Producer, max(l.Calls, 0), max(l.USD, 0), max(all.Calls, 0), max(all.USD, 0),
		c.Batch, placeGrace.Milliseconds(), budgetWait.Milliseconds())
	g.last.Store(s)
	return s
}

// asked is a call of guard_reserve.lua.
func (g *GuardRedis) asked(c Charge) convoy.Call {
	s := g.shared(c)
	return convoy.Call{Script: g.reserve, Keys: s.keys, Shared: s.reserve, Own: []any{c.Ticket, clampCharge(c.USD), c.Line, flag(c.Always)}}
}

// told is a call of guard_settle.lua.
func (g *GuardRedis) told(c Charge, usd int64, unsent bool) convoy.Call {
	s := g.shared(c)
	return convoy.Call{Script: g.settle, Keys: s.keys, Shared: s.settle, Own: []any{c.Ticket, clampCharge(usd), flag(unsent)}}
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
