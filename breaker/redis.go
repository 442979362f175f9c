package breaker

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/convoy"
)

// The scripts; record.lua stands before those that change a breaker, and
// closed.lua before both for admissions.
var (
	//go:embed lua/closed.lua
	closedLua string
	//go:embed lua/record.lua
	recordLua string
	//go:embed lua/admit.lua
	admitLua string
	//go:embed lua/report.lua
	reportLua string
	//go:embed lua/force.lua
	forceLua string
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
	kept     sync.Map // *shared, by Key

	admit, report, operate, due *redis.Script
	now                         func() string // "": the server's clock; tests set it
}

var _ Store = (*Redis)(nil)

// NewRedis returns a store on rdb, which stays the caller's. Settings is asked
// at every operation for the model's key and for its parent's, whose Model is
// "", so it must be quick and safe for concurrent use; zero fields take their
// defaults. All processes should have the same settings;
// where they differ, each applies its own to the shared record.
func NewRedis(rdb redis.UniversalClient, settings func(Key) Settings, opts ...Option) *Redis {
	return newRedis(rdb, settings, embedded(), opts)
}

// scripts are the texts of the scripts.
type scripts struct{ closed, admit, report, force, due, record string }

func embedded() scripts { return scripts{closedLua, admitLua, reportLua, forceLua, dueLua, recordLua} }

func newRedis(rdb redis.UniversalClient, settings func(Key) Settings, s scripts, opts []Option) *Redis {
	return &Redis{
		rdb: rdb, settings: settings, notify: newNotifier(opts),
		admit: redis.NewScript(s.closed + s.record + s.admit), report: redis.NewScript(s.record + s.report),
		operate: redis.NewScript(s.record + s.force), due: redis.NewScript(s.due),
		now: func() string { return "" },
	}
}

// Admit lets one call through, or returns *OpenError.
func (r *Redis) Admit(ctx context.Context, key Key, opts ...AdmitOption) (Ticket, error) {
	if err := key.check(); err != nil {
		return Ticket{}, fmt.Errorf("admit call: %w", err)
	}
	op := Op{Kind: OpAdmit, Model: key.Model, ID: newID(), NoProbe: noProbe(opts)}
	reply, err := r.do(ctx, key, &op)
	return admitted(key, &op, &reply, err)
}

// admitted is what a reply says to a task's admission.
func admitted(key Key, op *Op, reply *Reply, err error) (Ticket, error) {
	if err != nil {
		return Ticket{}, fmt.Errorf("admit call to %s: %w", key, err)
	}
	if reply.Code == Rejected {
		return Ticket{}, reply.rejection(key)
	}
	return reply.ticket(key, op.ID), nil
}

// AdmitProbe takes a probe's lease, or returns *OpenError or ErrNotDue.
func (r *Redis) AdmitProbe(ctx context.Context, key Key) (Ticket, error) {
	if err := key.check(); err != nil {
		return Ticket{}, fmt.Errorf("admit probe: %w", err)
	}
	op := Op{Kind: OpAdmitProbe, Model: key.Model, ID: newID()}
	reply, err := r.do(ctx, key, &op)
	switch {
	case err != nil:
		return Ticket{}, fmt.Errorf("admit probe of %s: %w", key, err)
	case reply.Code == Rejected:
		return Ticket{}, reply.rejection(key)
	case reply.Code == NotDue:
		return Ticket{}, ErrNotDue
	}
	return reply.ticket(key, op.ID), nil
}

// Report gives the outcome of an admitted call.
func (r *Redis) Report(ctx context.Context, t Ticket, rep Report) error {
	op := t.ended(OpReport, rep)
	if _, err := r.do(ctx, t.Key, &op); err != nil {
		return fmt.Errorf("report call to %s: %w", t.Key, err)
	}
	return nil
}

// Release gives a ticket back. Only a probe's ticket holds anything.
func (r *Redis) Release(ctx context.Context, t Ticket) error {
	if !t.Probe {
		return nil
	}
	op := t.ended(OpRelease, Report{})
	if _, err := r.do(ctx, t.Key, &op); err != nil {
		return fmt.Errorf("release probe of %s: %w", t.Key, err)
	}
	return nil
}

// Force does what an operator wants of a breaker. A hold lives as long as Redis
// keeps its data.
func (r *Redis) Force(ctx context.Context, key Key, f Force) error {
	err := f.Validate()
	if err == nil {
		_, err = r.do(ctx, key, &Op{Kind: OpForce, Model: key.Model, Scope: key.Scope(), Force: f})
	}
	if err != nil {
		return fmt.Errorf("force breaker %s: %w", key, err)
	}
	return nil
}

// Due returns the provider's models to probe.
func (r *Redis) Due(ctx context.Context, provider string) ([]Key, error) {
	list, err := r.due.Run(ctx, r.rdb, []string{dueKey(provider)}, r.now(), modelPrefix(provider), parentPrefix(provider)).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("list due breakers of %s: %w", provider, err)
	}
	var keys []Key
	for e := range slices.Chunk(list, 3) {
		k := Key{Provider: provider, Model: e[1], Region: e[2]}
		probed := k
		if e[0] == "2" {
			probed = k.Parent()
		}
		if !r.settings(probed).TaskProbes {
			keys = append(keys, k)
		}
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
		list[i] = rec.status(k, now, r.settings(k).WithDefaults())
		if err != nil { // one damaged record must not hide the others
			list[i].Reason = "its record in Redis is damaged: " + err.Error()
		}
	}
	return list, nil
}

// do runs the operation's script, then tells of the transitions it made.
func (r *Redis) do(ctx context.Context, key Key, op *Op) (Reply, error) {
	return r.heard(key, convoy.Run(ctx, r.rdb, r.call(key, op)))
}

// call is the operation's call of a script.
func (r *Redis) call(key Key, op *Op) convoy.Call {
	sh := r.shared(key)
	c := convoy.Call{Script: r.admit, Keys: sh.keys, Shared: sh.admit}
	switch op.Kind {
	case OpReport, OpRelease:
		c.Script, c.Shared = r.report, sh.report
		c.Own = append(make([]any, 0, 9), encodeID(op.ID), op.mode(), encodeOutput(op.Report.Output))
		c.Own = appendEvidence(c.Own, op.Epoch, op.evidence(ScopeModel, &sh.levels.Model))
		c.Own = appendEvidence(c.Own, op.ParentEpoch, op.evidence(ScopeParent, &sh.levels.Parent))
	case OpForce:
		c.Script, c.Alone, c.Own = r.operate, true, forceArgs(op, &sh.levels)
	default:
		c.Own = []any{encodeID(op.ID), op.mode()}
	}
	return c
}

// heard reads a script's answer, and tells of the transitions that it made.
func (r *Redis) heard(key Key, answer *convoy.Answer) (Reply, error) {
	raw, err := answer.Result()
	if err != nil {
		return Reply{}, err
	}
	reply, err := decodeReply(raw)
	if err != nil {
		return Reply{}, err
	}
	if reply.changed() {
		r.notify.add(key, &reply)
		r.notify.drain()
	}
	return reply, nil
}

// shared is what all calls to a model have in common, made once for settings that
// stay, and a time of a test.
type shared struct {
	levels        Levels
	now           string
	keys          []string
	admit, report []any
}

func (r *Redis) shared(key Key) *shared {
	levels, now := Levels{Model: r.settings(key).WithDefaults(), Parent: r.settings(key.Parent()).WithDefaults()}, r.now()
	if v, ok := r.kept.Load(key); ok && v.(*shared).levels == levels && v.(*shared).now == now {
		return v.(*shared)
	}
	sh := &shared{levels: levels, now: now, keys: []string{breakerKey(key), breakerKey(key.Parent()), dueKey(key.Provider)}}
	sh.admit = append(make([]any, 0, 18), now, key.Model)
	sh.admit = appendSettings(sh.admit, dueMember(key), &levels.Model)
	sh.admit = appendSettings(sh.admit, dueMember(key.Parent()), &levels.Parent)
	sh.report = append(make([]any, 0, 33), sh.admit...)
	sh.report = append(sh.report, autoStale.Milliseconds(), autoStaleMax.Milliseconds(), encodeTag(modelTag(key.Model)))
	sh.report = appendOutcomes(sh.report, &levels.Model)
	sh.report = appendOutcomes(sh.report, &levels.Parent)
	r.kept.Store(key, sh)
	return sh
}

// mode is the script's word for what is admitted or reported.
func (op *Op) mode() string {
	switch {
	case op.Kind == OpAdmitProbe:
		return "prober"
	case op.Kind == OpAdmit && op.NoProbe:
		return "noprobe"
	case op.Probe:
		return string(op.Scope)
	}
	return "call"
}

func appendSettings(args []any, member string, s *Settings) []any {
	return append(args, member, s.ttl().Milliseconds(), s.MaxCooldown.Milliseconds(), s.ProbeLease.Milliseconds(),
		s.wantedFor(), s.Probes, s.ProbeSuccesses, flag(s.TaskProbes))
}

// appendOutcomes adds the settings that reports go by.
func appendOutcomes(args []any, s *Settings) []any {
	return append(args, s.Window, s.Failures, s.MinResults, s.Stale.Milliseconds(), s.Cooldown.Milliseconds(), s.remembered())
}

// appendEvidence adds what report.lua takes of one level.
func appendEvidence(args []any, epoch int64, e evidence) []any {
	more := ""
	if e.hard || e.unfit || e.wait != 0 || e.reason != "" {
		more = fmt.Sprintf("%d %d %d %s", flag(e.hard), flag(e.unfit), e.wait, e.reason)
	}
	return append(args, epoch, int(e.outcome), more)
}

// forceArgs are what force.lua takes.
func forceArgs(op *Op, s *Levels) []any {
	scope, level := 1, &s.Model
	if op.Scope == ScopeParent {
		scope, level = 2, &s.Parent
	}
	hold := op.Force.hold(0)
	return []any{scope, string(op.Force.Action), hold.Until, op.Force.by(), op.Force.reason(), level.Cooldown.Milliseconds()}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// newID is unique by chance among the tickets that a breaker remembers: 35
// random bits and a one. Of a thousand million calls, two would take another for
// theirs and count nothing.
func newID() uint64 { return rand.Uint64N(1<<idBits) | 1 }

// All keys of a provider share a slot of a cluster.
func modelPrefix(provider string) string  { return "nightshift:{" + provider + "}:breaker:" }
func parentPrefix(provider string) string { return "nightshift:{" + provider + "}:parent:" }
func dueKey(provider string) string       { return "nightshift:{" + provider + "}:due" }

func breakerKey(k Key) string {
	if k.Model == "" {
		return parentPrefix(k.Provider) + k.Region
	}
	return modelPrefix(k.Provider) + k.Model
}

// dueMember carries the region along, so that Due can return whole keys; a
// parent's has no model.
func dueMember(k Key) string {
	if k.Region == "" && k.Model != "" {
		return k.Model
	}
	return k.Model + "\n" + k.Region
}

// millis is for the fields of a reply.
func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
