package ladder

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
	"nightshift/internal/convoy"
	"nightshift/internal/redistest"
	"nightshift/internal/standby"
	"nightshift/limit"
	"nightshift/provider"
)

// tripping counts round trips and can keep them from their Redis.
type tripping struct {
	trips atomic.Int64
	cut   atomic.Bool
	after func([]redis.Cmder) // is called of the next pipeline that Redis answered, once
}

var errCut = errors.New("connection refused")

func (h *tripping) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *tripping) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.cut.Load() {
			cmd.SetErr(errCut)
			return errCut
		}
		h.trips.Add(1)
		return next(ctx, cmd)
	}
}

func (h *tripping) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.cut.Load() {
			for _, c := range cmds {
				c.SetErr(errCut)
			}
			return errCut
		}
		h.trips.Add(1)
		err := next(ctx, cmds)
		if after := h.after; after != nil {
			h.after = nil
			after(cmds)
		}
		return err
	}
}

// loseLast has a pipeline's last answer lost.
func loseLast(cmds []redis.Cmder) { cmds[len(cmds)-1].SetErr(errCut) }

// joint is a gate over a real Redis.
type joint struct {
	*testing.T
	tripping
	rdb      *redis.Client
	side     *standby.Switch
	gate     *RedisGate
	breakers *breaker.Redis
	pace     *limit.Redis
	guard    *limit.GuardRedis
	skip     atomic.Int64 // ns that the process's clock is ahead
}

var doorKey = breaker.Key{Provider: "p", Model: "p/a"}

func joined(t *testing.T, limits limit.Limits, calls int64) *joint {
	j := &joint{T: t, rdb: redistest.Client(t)}
	j.rdb.AddHook(&j.tripping)
	settings := func(breaker.Key) breaker.Settings {
		return breaker.Settings{Window: 4, Failures: 2, Cooldown: time.Minute, TaskProbes: true}
	}
	paces := func(limit.Model) limit.Limits { return limits }
	j.breakers, j.pace = breaker.NewRedis(j.rdb, settings), limit.NewRedis(j.rdb, paces)
	j.guard = limit.NewGuardRedis(j.rdb, limit.GuardOptions{Limits: func(string) limit.GuardLimits { return limit.GuardLimits{Calls: calls} }})
	now := func() time.Time { return time.Now().Add(time.Duration(j.skip.Load())) }
	j.side = standby.New(standby.Options{Now: now})
	j.gate = NewRedisGate(RedisGateOptions{
		Redis: j.rdb, Switch: j.side, Breakers: j.breakers, Pace: j.pace, Guard: j.guard, Now: now,
		OwnBreakers: breaker.NewFallback(j.breakers, breaker.NewMemory(settings, now), breaker.FallbackOptions{Switch: j.side}),
		OwnPace:     limit.NewFallback(j.pace, limit.NewMemory(paces, now), limit.FallbackOptions{Switch: j.side}),
		OwnGuard:    limit.NewGuardFallback(j.guard, now, limit.FallbackOptions{Switch: j.side}),
	})
	return j
}

func (j *joint) entry(ticket string) Entry {
	return Entry{
		Key:    doorKey,
		Ask:    limit.Ask{Model: modelOf(doorKey), Ticket: ticket, Tokens: 100, Patience: 20 * time.Second, Lease: time.Minute, Alone: true},
		Charge: limit.Charge{Producer: "anna", Batch: "b", Line: "b:" + ticket, Ticket: ticket, USD: 500},
	}
}

func (j *joint) enter(ticket string) Pass {
	j.Helper()
	p, err := j.gate.Enter(j.Context(), j.entry(ticket))
	if err != nil {
		j.Fatal(err)
	}
	return p
}

func passed(usd provider.USD) Exit {
	return Exit{Report: &breaker.Report{Outcome: breaker.Success}, Result: limit.Result{Kind: limit.Passed, Tokens: 10}, USD: usd}
}

// state is what the stores hold: calls in flight, places, calls and cost counted.
func (j *joint) state() (inFlight, waiting, calls, usd int64) {
	j.Helper()
	paces, err := j.pace.List(j.Context(), []limit.Model{modelOf(doorKey)})
	if err != nil {
		j.Fatal(err)
	}
	guards, err := j.guard.List(j.Context())
	if err != nil {
		j.Fatal(err)
	}
	for _, g := range guards {
		if g.Producer == "anna" {
			calls, usd = g.Calls, g.USD
		}
	}
	return paces[0].InFlight, paces[0].Waiting, calls, usd
}

func (j *joint) want(inFlight, waiting, calls, usd int64) {
	j.Helper()
	if f, w, c, u := j.state(); f != inFlight || w != waiting || c != calls || u != usd {
		j.Errorf("%d in flight, %d waiting, %d calls for %d; want %d, %d, %d, %d", f, w, c, u, inFlight, waiting, calls, usd)
	}
}

func TestACallTakesOneRoundTripInAndNoneOut(t *testing.T) {
	j := joined(t, limit.Limits{}, 0)
	_, _ = j.gate.Leave(t.Context(), j.enter("warm"), passed(1)) // the scripts are loaded
	before := j.trips.Load()
	p := j.enter("one")
	same(t, "round trips in", j.trips.Load()-before, 1)
	j.want(1, 0, 2, 501)

	var party convoy.Party
	l := &Leaving{gate: j.gate, pass: p, exit: passed(7), warn: func(err error) { t.Error(err) }}
	l.Ride(&party)
	before = j.trips.Load()
	convoy.New(j.rdb).Send(t.Context(), &party)
	l.Done()
	same(t, "round trips out", j.trips.Load()-before, 1)
	j.want(0, 0, 2, 8)
	list, err := j.breakers.List(t.Context(), []breaker.Key{doorKey})
	if err != nil || list[0].Results != 2 {
		t.Errorf("reported: %+v, %v", list, err)
	}
}

func TestWhatAPartyDidNotBringIsToldAfterIt(t *testing.T) {
	send := func(j *joint, p *convoy.Party) { convoy.New(j.rdb).Send(j.Context(), p) }
	for name, send := range map[string]func(*joint, *convoy.Party){
		"never sent": func(*joint, *convoy.Party) {},
		"scripts forgotten": func(j *joint, p *convoy.Party) {
			j.rdb.ScriptFlush(j.Context())
			send(j, p)
		},
		"cut off": func(j *joint, p *convoy.Party) {
			j.cut.Store(true)
			send(j, p)
			j.cut.Store(false)
		},
		"sent, and repeated": send,
	} {
		t.Run(name, func(t *testing.T) {
			j := joined(t, limit.Limits{}, 0)
			l := &Leaving{gate: j.gate, pass: j.enter("one"), exit: passed(7), warn: func(err error) { t.Error(err) }}
			var party, again convoy.Party
			l.Ride(&party)
			send(j, &party)
			l.Ride(&again)
			same(t, "rides of the second", again.Len(), 0)
			l.Done()
			j.want(0, 0, 1, 7)
		})
	}
	var none *Leaving
	none.Ride(nil)
	none.Done()
}

func TestWhatOneGrantsAnotherRefuses(t *testing.T) {
	t.Run("breaker", func(t *testing.T) {
		j := joined(t, limit.Limits{}, 0)
		if err := j.breakers.Force(t.Context(), doorKey, breaker.Force{Action: breaker.ForceOpen, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		var open *breaker.OpenError
		if _, err := j.gate.Enter(t.Context(), j.entry("one")); !errors.As(err, &open) {
			t.Errorf("%v", err)
		}
		j.want(0, 0, 0, 0)
	})
	t.Run("guard", func(t *testing.T) {
		j := joined(t, limit.Limits{}, 1)
		j.enter("one")
		var over *limit.OverError
		if _, err := j.gate.Enter(t.Context(), j.entry("two")); !errors.As(err, &over) || over.Wait <= 0 {
			t.Errorf("%v", err)
		}
		j.want(1, 0, 1, 500)
	})
	t.Run("pace", func(t *testing.T) {
		j := joined(t, limit.Limits{RPM: 6}, 0)
		j.enter("one")
		e := j.entry("two")
		var wait *WaitError
		for range 2 { // the second time the guard is not asked
			if _, err := j.gate.Enter(t.Context(), e); !errors.As(err, &wait) || wait.Slot.Verdict != limit.Wait {
				t.Fatalf("%v", err)
			}
			j.want(1, 1, 1, 500)
			e.Waiting = true
		}
		if err := j.gate.GiveUp(t.Context(), e); err != nil {
			t.Error(err)
		}
		j.want(1, 0, 1, 500)
	})
}

// A turn that comes after a wait is charged then, and refused where the hour is full by then.
func TestTheGuardIsAskedLastOfWhoWaited(t *testing.T) {
	j := joined(t, limit.Limits{Concurrency: 1}, 2)
	first := j.enter("one")
	var wait *WaitError
	for _, ticket := range []string{"two", "three"} {
		if _, err := j.gate.Enter(t.Context(), j.entry(ticket)); !errors.As(err, &wait) {
			t.Fatalf("%v", err)
		}
	}
	turn := func(ticket string) (Pass, error) {
		e := j.entry(ticket)
		e.Waiting = true
		return j.gate.Enter(t.Context(), e)
	}
	_, _ = j.gate.Leave(t.Context(), first, passed(1))
	second, err := turn("two")
	if err != nil {
		t.Fatal(err)
	}
	j.want(1, 1, 2, 501)
	_, _ = j.gate.Leave(t.Context(), second, passed(1))
	var over *limit.OverError
	if _, err := turn("three"); !errors.As(err, &over) {
		t.Errorf("%v", err)
	}
	j.want(0, 0, 2, 2)
}

func TestOneCallWithoutRedisAndItIsBooked(t *testing.T) {
	j := joined(t, limit.Limits{}, 0)
	known := j.enter("known")
	j.cut.Store(true)
	if _, err := j.gate.Leave(t.Context(), known, passed(7)); err != nil { // told later
		t.Fatal(err)
	}
	lone := j.enter("lone")
	e := j.entry("next")
	e.Ask.Alone = false
	if _, err := j.gate.Enter(t.Context(), e); !errors.Is(err, ErrAlone) {
		t.Errorf("a second call: %v", err)
	}
	if _, err := j.gate.Leave(t.Context(), lone, passed(9)); err != nil {
		t.Fatal(err)
	}
	j.cut.Store(false)
	j.skip.Add(int64(2 * time.Second)) // it is asked again
	_, _ = j.gate.Leave(t.Context(), j.enter("back"), passed(1))
	j.want(0, 0, 3, 17)
	if j.side.Away() {
		t.Error("it decides alone still")
	}
}

func TestAParkFoundWithoutRedisHolds(t *testing.T) {
	j := joined(t, limit.Limits{}, 0)
	p := j.enter("one")
	j.cut.Store(true)
	x := Exit{Report: &breaker.Report{Outcome: breaker.Limited}, Result: limit.Result{Kind: limit.Limited, RetryAfter: time.Minute}}
	if parked, err := j.gate.Leave(t.Context(), p, x); err != nil || parked < 59*time.Second {
		t.Errorf("parked for %s, %v", parked, err)
	}
	var wait *WaitError
	for _, cut := range []bool{true, false} {
		j.cut.Store(cut)
		if _, err := j.gate.Enter(t.Context(), j.entry("two")); !errors.As(err, &wait) || wait.Slot.Verdict != limit.Refuse {
			t.Errorf("cut off %v: %v", cut, err)
		}
		j.skip.Add(int64(2 * time.Second))
	}
	j.want(0, 0, 1, 0)
}
