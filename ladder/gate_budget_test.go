package ladder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/breaker"
	"nightshift/internal/convoy"
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

func (j *joint) leave(p Pass, x Exit) {
	j.Helper()
	if _, err := j.gate.Leave(j.Context(), p, x); err != nil {
		j.Error(err)
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

// passage is a way through the gate, and what its calls cost.
type passage struct {
	take  func(*joint)
	spent int64
}

// keepNothing takes each of the ways: whatever is lost on it, nothing of the
// batch's budget stays reserved. What is held back of it is of calls under way alone.
func keepNothing(t *testing.T, ways map[string]passage) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			j := joined(t, limit.Limits{Concurrency: 1}, 0)
			if err := j.guard.SetBudget(t.Context(), "b", 10_000); err != nil {
				t.Fatal(err)
			}
			j.leave(j.enter("warm"), passed(1)) // the scripts are loaded
			w.take(j)
			j.back()
			if spent, reserved := j.purse(); spent != w.spent+1 || reserved != 0 {
				t.Errorf("spent %d, reserved %d; want %d and nothing", spent, reserved, w.spent+1)
			}
			if flight, waiting, _, usd := j.state(); flight != 0 || waiting != 0 || usd != w.spent+1 {
				t.Errorf("%d in flight, %d waiting, %d counted", flight, waiting, usd)
			}
		})
	}
}

func TestACallThatEndedKeepsNothingOfABudget(t *testing.T) {
	ridden := func(send bool) func(*joint) {
		return func(j *joint) {
			l := &Leaving{gate: j.gate, pass: j.enter("one"), exit: passed(7), warn: func(err error) { j.Error(err) }}
			var party convoy.Party
			if l.Ride(&party); send {
				convoy.New(j.rdb).Send(j.Context(), &party)
			}
			l.Done()
		}
	}
	away := func(x Exit) func(*joint) {
		return func(j *joint) {
			p := j.enter("one")
			j.cut.Store(true)
			j.leave(p, x)
		}
	}
	keepNothing(t, map[string]passage{
		"left":                               {func(j *joint) { j.leave(j.enter("one"), passed(7)) }, 7},
		"left, dearer than foreseen":         {func(j *joint) { j.leave(j.enter("one"), passed(900)) }, 900},
		"left twice":                         {func(j *joint) { p := j.enter("one"); j.leave(p, passed(7)); j.leave(p, passed(7)) }, 7},
		"not sent":                           {func(j *joint) { j.leave(j.enter("one"), Exit{Unsent: true}) }, 0},
		"ridden":                             {ridden(true), 7},
		"ridden, never sent":                 {ridden(false), 7},
		"left without Redis":                 {away(passed(7)), 7},
		"not sent, without Redis":            {away(Exit{Unsent: true}), 0},
		"let go without Redis":               {func(j *joint) { j.cut.Store(true); j.leave(j.enter("one"), passed(7)) }, 7},
		"let go without Redis, but reserved": {func(j *joint) { j.after = loseLast; j.leave(j.enter("one"), passed(7)) }, 7},
	})
}

func TestACallThatWasNotLetGoKeepsNothingOfABudget(t *testing.T) {
	keepNothing(t, map[string]passage{
		"had its call without Redis": {func(j *joint) {
			j.after = loseLast
			e := j.entry("one")
			e.Ask.Alone = false
			if _, err := j.gate.Enter(j.Context(), e); !errors.Is(err, ErrAlone) {
				j.Error(err)
			}
		}, 0},
		"ended while it asked": {func(j *joint) {
			ctx, cancel := context.WithCancel(j.Context())
			j.after = func(cmds []redis.Cmder) { loseLast(cmds); cancel() }
			if _, err := j.gate.Enter(ctx, j.entry("one")); err == nil {
				j.Error("it was let go")
			}
		}, 0},
		"refused by the breaker": {func(j *joint) {
			if err := j.breakers.Force(j.Context(), doorKey, breaker.Force{Action: breaker.ForceOpen}); err != nil {
				j.Fatal(err)
			}
			if _, err := j.gate.Enter(j.Context(), j.entry("one")); err == nil {
				j.Error("it was let go")
			}
		}, 0},
	})
}

func TestACallThatWaitedKeepsNothingOfABudget(t *testing.T) {
	giveUp := func(j *joint, e Entry) {
		if err := j.gate.GiveUp(j.Context(), e); err != nil {
			j.Error(err)
		}
	}
	enter := func(j *joint, e Entry) Pass {
		p, err := j.gate.Enter(j.Context(), e)
		if err != nil {
			j.Fatal(err)
		}
		return p
	}
	late := func(j *joint) { j.after = func([]redis.Cmder) { j.cut.Store(true) } }
	keepNothing(t, map[string]passage{
		"given up": {func(j *joint) {
			p := j.enter("one")
			giveUp(j, j.waits("two"))
			j.leave(p, passed(7))
		}, 7},
		"let go": {func(j *joint) {
			p := j.enter("one")
			e := j.waits("two")
			j.leave(p, passed(7))
			j.leave(enter(j, e), passed(8))
		}, 15},
		"given up, told late": {func(j *joint) {
			p := j.enter("one")
			late(j)
			giveUp(j, j.waits("two"))
			j.leave(p, passed(7))
		}, 7},
		"let go, told late": {func(j *joint) {
			p := j.enter("one")
			late(j)
			e := j.waits("two")
			j.leave(p, passed(7))
			j.back()
			j.leave(enter(j, e), passed(8))
		}, 15},
	})
}
