package breaker

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The scripts; record.lua stands before the two that change a breaker.
var (
	//go:embed lua/record.lua
	recordLua string
	//go:embed lua/admit.lua
	admitLua string
	//go:embed lua/report.lua
	reportLua string
	//go:embed lua/due.lua
	dueLua string
)

// Redis is a Store shared by all processes that use the same Redis. An
// operation is one script; its time is the server's. It is safe for concurrent
// use.
//
// A client that repeats a command whose reply was lost does no harm: reports
// count once by their ticket, and a repeated admission is granted the same one.
type Redis struct {
	rdb      redis.UniversalClient
	settings func(Key) Settings
	notify   *notifier

	admit, report, due *redis.Script
	now                func() string // "": the server's clock; tests set it
}

var _ Store = (*Redis)(nil)

// NewRedis returns a store on rdb, which stays the caller's. Settings is asked
// at every operation, so it must be quick and safe for concurrent use; zero
// fields take their defaults. All processes should have the same settings;
// where they differ, each applies its own to the shared record.
func NewRedis(rdb redis.UniversalClient, settings func(Key) Settings, opts ...Option) *Redis {
	return newRedis(rdb, settings, recordLua+admitLua, recordLua+reportLua, opts)
}

func newRedis(rdb redis.UniversalClient, settings func(Key) Settings, admit, report string, opts []Option) *Redis {
	return &Redis{
		rdb: rdb, settings: settings, notify: newNotifier(opts),
		admit: redis.NewScript(admit), report: redis.NewScript(report), due: redis.NewScript(dueLua),
		now: func() string { return "" },
	}
}

// Admit lets one call through, or returns *OpenError.
func (r *Redis) Admit(ctx context.Context, key Key) (Ticket, error) {
	op := Op{Kind: OpAdmit, ID: newID()}
	reply, err := r.do(ctx, key, op)
	if err != nil {
		return Ticket{}, fmt.Errorf("admit call to %s: %w", key.Model, err)
	}
	if reply.Code == Rejected {
		return Ticket{}, reply.rejection(key)
	}
	return reply.ticket(key, op.ID, false), nil
}

// AdmitProbe takes the probe lease, or returns *OpenError or ErrNotDue.
func (r *Redis) AdmitProbe(ctx context.Context, key Key) (Ticket, error) {
	op := Op{Kind: OpAdmitProbe, ID: newID()}
	reply, err := r.do(ctx, key, op)
	switch {
	case err != nil:
		return Ticket{}, fmt.Errorf("admit probe of %s: %w", key.Model, err)
	case reply.Code == Rejected:
		return Ticket{}, reply.rejection(key)
	case reply.Code == NotDue:
		return Ticket{}, ErrNotDue
	}
	return reply.ticket(key, op.ID, true), nil
}

// Report gives the outcome of an admitted call.
func (r *Redis) Report(ctx context.Context, t Ticket, rep Report) error {
	op := Op{Kind: OpReport, ID: t.ID, Epoch: t.Epoch, Probe: t.Probe, Report: rep.cleaned()}
	if _, err := r.do(ctx, t.Key, op); err != nil {
		return fmt.Errorf("report call to %s: %w", t.Key.Model, err)
	}
	return nil
}

// Release gives a ticket back. Only a probe's ticket holds anything.
func (r *Redis) Release(ctx context.Context, t Ticket) error {
	if !t.Probe {
		return nil
	}
	op := Op{Kind: OpRelease, ID: t.ID, Epoch: t.Epoch, Probe: true}
	if _, err := r.do(ctx, t.Key, op); err != nil {
		return fmt.Errorf("release probe of %s: %w", t.Key.Model, err)
	}
	return nil
}

// Due returns the provider's breakers whose probe is due and wanted.
func (r *Redis) Due(ctx context.Context, provider string) ([]Key, error) {
	members, err := r.due.Run(ctx, r.rdb, []string{dueKey(provider)}, r.now(), breakerPrefix(provider)).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("list due breakers of %s: %w", provider, err)
	}
	keys := make([]Key, len(members))
	for i, m := range members {
		model, region, _ := strings.Cut(m, "\n")
		keys[i] = Key{Provider: provider, Model: model, Region: region}
	}
	return keys, nil
}

// List returns the state of the breakers, in their order, in one pipeline.
func (r *Redis) List(ctx context.Context, keys []Key) ([]Status, error) {
	pipe := r.rdb.Pipeline()
	clock := pipe.Time(ctx)
	hashes := make([]*redis.MapStringStringCmd, len(keys))
	for i, k := range keys {
		hashes[i] = pipe.HGetAll(ctx, breakerKey(k))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("list %d breakers: %w", len(keys), err)
	}
	now := clock.Val().UnixMilli()
	if ms, err := strconv.ParseInt(r.now(), 10, 64); err == nil {
		now = ms
	}
	list := make([]Status, len(keys))
	for i, k := range keys {
		rec, err := decodeRecord(hashes[i].Val())
		if err != nil {
			return nil, fmt.Errorf("read breaker %s: %w", k.Model, err)
		}
		list[i] = rec.status(k, now, r.settings(k).WithDefaults())
	}
	return list, nil
}

// do runs the operation's script, then tells of the transition it made.
func (r *Redis) do(ctx context.Context, key Key, op Op) (Reply, error) {
	s := r.settings(key).WithDefaults()
	script, args := r.admit, r.args(key, op, s)
	if op.Kind == OpReport || op.Kind == OpRelease {
		script, args = r.report, append(args, reportArgs(op, s)...)
	}
	raw, err := script.Run(ctx, r.rdb, []string{breakerKey(key), dueKey(key.Provider)}, args...).Slice()
	if err != nil {
		return Reply{}, err
	}
	reply, err := decodeReply(raw)
	if err != nil {
		return Reply{}, err
	}
	if reply.Change.From != "" {
		r.notify.add(key, reply.Change)
		r.notify.drain()
	}
	return reply, nil
}

// args are those of record.lua.
func (r *Redis) args(key Key, op Op, s Settings) []any {
	probe := op.Probe || op.Kind == OpAdmitProbe
	args := make([]any, 0, 21)
	return append(args, r.now(), encodeID(op.ID), flag(probe), dueMember(key), s.ttl().Milliseconds(),
		s.MaxCooldown.Milliseconds(), s.ProbeLease.Milliseconds(), s.wantedFor())
}

// reportArgs are those that report.lua adds.
func reportArgs(op Op, s Settings) []any {
	rep := op.Report
	if op.Kind == OpRelease {
		rep = Report{Reason: releasedReason}
	}
	return []any{
		op.Epoch, int(rep.Outcome), flag(rep.Hard), rep.Reason, retryAfter(rep, s),
		s.Window, s.Failures, s.MinResults, s.Stale.Milliseconds(), s.Cooldown.Milliseconds(), s.remembered(),
		autoStale.Milliseconds(), autoStaleMax.Milliseconds(),
	}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// newID is unique in the fleet by chance: 63 random bits, never 0.
func newID() uint64 { return rand.Uint64() | 1 }

// All keys of a provider share a slot of a cluster.
func breakerPrefix(provider string) string { return "nightshift:{" + provider + "}:breaker:" }
func breakerKey(k Key) string              { return breakerPrefix(k.Provider) + k.Model }
func dueKey(provider string) string        { return "nightshift:{" + provider + "}:due" }

// dueMember carries the region along, so that Due can return whole keys.
func dueMember(k Key) string {
	if k.Region == "" {
		return k.Model
	}
	return k.Model + "\n" + k.Region
}

// millis is for the fields of a reply.
func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
