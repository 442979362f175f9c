package ladder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
	"nightshift/limit"
)

// purse is what the entries' batch has spent and reserved of its budget.
func (j *joint) purse() (spent, reserved int64) {
	j.Helper()
	var p struct {
		Spent    int64 `redis:"spent"`
		Reserved int64 `redis:"reserved"`
	}
	if err := j.rdb.HMGet(j.Context(), "nightshift:{guard}:b:b", "spent", "reserved").Scan(&p); err != nil {
		j.Fatal(err)
	}
	return p.Spent, p.Reserved
}

// back has Redis asked again, and hear what it missed.
func (j *joint) back() {
	j.Helper()
	j.cut.Store(false)
	j.skip.Add(int64(2 * time.Second))
	if err := j.gate.GiveUp(j.Context(), j.entry("nobody")); err != nil {
		j.Fatal(err)
	}
}

// waits asks for a call that has to wait for the one before it.
func (j *joint) waits(ticket string) Entry {
	j.Helper()
	e := j.entry(ticket)
	var wait *WaitError
	if _, err := j.gate.Enter(j.Context(), e); !errors.As(err, &wait) || wait.Slot.Verdict != limit.Wait {
		j.Fatal(err)
	}
	e.Waiting = true
	return e
}

// Whatever way a call takes through the gate, and whatever is lost on it, nothing
// of its batch's budget stays reserved: what is held back of a budget is of calls
// under way alone.
func TestNoWayThroughTheGateKeepsABudgetReserved(t *testing.T) {
	leave := func(j *joint, p Pass, x Exit) {
		if _, err := j.gate.Leave(j.Context(), p, x); err != nil {
			j.Error(err)
		}
	}
	ridden := func(send bool) func(*joint) {
		return func(j *joint) {
			l := &Leaving{gate: j.gate, pass: j.enter("one"), exit: passed(7), warn: func(err error) { j.Error(err) }}
			pipe := j.rdb.Pipeline()
			if l.Ride(pipe); send {
				_, _ = pipe.Exec(j.Context())
			}
			l.Done()
		}
	}
	partly := func(alone bool) func(*joint) {
		return func(j *joint) {
			j.after = loseLast
			e := j.entry("one")
			e.Ask.Alone = alone
			if p, err := j.gate.Enter(j.Context(), e); err == nil {
				leave(j, p, passed(7))
			}
		}
	}
	for name, way := range map[string]struct {
		take   func(*joint)
		spent int64
	}{
		"left":                        {func(j *joint) { leave(j, j.enter("one"), passed(7)) }, 7},
		"left dearer than thought":    {func(j *joint) { leave(j, j.enter("one"), passed(900)) }, 900},
		"left twice":                  {func(j *joint) { p := j.enter("one"); leave(j, p, passed(7)); leave(j, p, passed(7)) }, 7},
		"not sent":                    {func(j *joint) { leave(j, j.enter("one"), Exit{Unsent: true}) }, 0},
		"ridden":                      {ridden(true), 7},
		"ridden, never sent":          {ridden(false), 7},
		"left without Redis":          {func(j *joint) { p := j.enter("one"); j.cut.Store(true); leave(j, p, passed(7)) }, 7},
		"not sent, without Redis":     {func(j *joint) { p := j.enter("one"); j.cut.Store(true); leave(j, p, Exit{Unsent: true}) }, 0},
		"alone":                       {func(j *joint) { j.cut.Store(true); leave(j, j.enter("one"), passed(7)) }, 7},
		"alone, its reservation made": {partly(true), 7},
		"refused, and was reserved":   {partly(false), 0},
		"ended while it asked": {func(j *joint) {
			ctx, cancel := context.WithCancel(j.Context())
			j.after = func(cmds []redis.Cmder) { loseLast(cmds); cancel() }
			_, _ = j.gate.Enter(ctx, j.entry("one"))
		}, 0},
		"refused by the breaker": {func(j *joint) {
			if err := j.breakers.Force(j.Context(), doorKey, breaker.Force{Action: breaker.ForceOpen}); err != nil {
				j.Fatal(err)
			}
			_, _ = j.gate.Enter(j.Context(), j.entry("one"))
		}, 0},
		"waited and given up": {func(j *joint) {
			p := j.enter("one")
			if err := j.gate.GiveUp(j.Context(), j.waits("two")); err != nil {
				j.Error(err)
			}
			leave(j, p, passed(7))
		}, 7},
		"waited and let go": {func(j *joint) {
			p := j.enter("one")
			e := j.waits("two")
			leave(j, p, passed(7))
			p, err := j.gate.Enter(j.Context(), e)
			if err != nil {
				j.Fatal(err)
			}
			leave(j, p, passed(8))
		}, 15},
		"waited and given up, told late": {func(j *joint) {
			p := j.enter("one")
			j.after = func([]redis.Cmder) { j.cut.Store(true) }
			e := j.waits("two")
			if err := j.gate.GiveUp(j.Context(), e); err != nil {
				j.Error(err)
			}
			leave(j, p, passed(7))
		}, 7},
		"waited, told late, and let go": {func(j *joint) {
			p := j.enter("one")
			j.after = func([]redis.Cmder) { j.cut.Store(true) }
			e := j.waits("two")
			leave(j, p, passed(7))
			j.cut.Store(false)
			j.skip.Add(int64(2 * time.Second))
			_, _ = j.gate.Enter(j.Context(), e)
			p, err := j.gate.Enter(j.Context(), e)
			if err != nil {
				j.Fatal(err)
			}
			leave(j, p, passed(8))
		}, 15},
	} {
		t.Run(name, func(t *testing.T) {
			j := joined(t, limit.Limits{Concurrency: 1}, 0)
			if err := j.guard.SetBudget(t.Context(), "b", 10_000); err != nil {
				t.Fatal(err)
			}
			if _, err := j.gate.Leave(t.Context(), j.enter("warm"), passed(1)); err != nil { // the scripts are loaded
				t.Fatal(err)
			}
			way.take(j)
			j.back()
			if spent, reserved := j.purse(); spent != way.spent+1 || reserved != 0 {
				t.Errorf("spent %d, reserved %d; want %d and nothing", spent, reserved, way.spent+1)
			}
			if f, w, _, usd := j.state(); f != 0 || w != 0 || usd != way.spent+1 {
				t.Errorf("%d in flight, %d waiting, %d counted", f, w, usd)
			}
		})
	}
}
