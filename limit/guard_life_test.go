package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/internal/convoy"
	"nightshift/internal/redistest"
)

// Whoever is refused and comes back at the time that was named is let in, if
// nobody came in between, whatever others did before. A clock that stepped back
// has it come again, which ends.
func TestGuardKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGuards(nil)
		draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
		g.limits["ann"] = GuardLimits{Calls: int64(draw("calls", 0, 4)), USD: int64(draw("usd", 0, 3)) * 50}
		g.o.Global = GuardLimits{Calls: int64(draw("all", 0, 6))}
		g.build()
		usd, n := int64(draw("cost", 0, 60)), 0
		ask := func(line string) *OverError {
			n++
			err := g.memory.Reserve(context.Background(), Charge{Producer: "ann", Line: line, Ticket: fmt.Sprint(n), USD: usd})
			var over *OverError
			errors.As(err, &over)
			return over
		}
		back := 0
		for range draw("steps", 1, 40) {
			g.now = g.now.Add(time.Duration(draw("seconds", 0, 300)) * time.Second)
			if draw("step", 0, 20) == 0 {
				minutes := draw("minutes", -130, 130)
				g.now = g.now.Add(time.Duration(minutes) * time.Minute)
				if minutes < 0 {
					back++
				}
			}
			ask(fmt.Sprint("l", draw("line", 0, 9)))
		}
		over := ask("me")
		for comes := 1; over != nil; comes++ {
			if over.Wait <= 0 || over.Wait > 24*time.Hour {
				t.Fatalf("refused for %s", over.Wait)
			}
			g.now = g.now.Add(over.Wait)
			if over = ask("me"); over != nil && comes > 12*back {
				t.Fatalf("come %d times, refused again for %s; the clock stepped back %d times", comes, over.Wait, back)
			}
		}
	})
}

// Case 35 at full speed: one producer asks for as much as it can, another works
// beside it; exactly N calls of the first go out, and none of the second is refused.
func TestCase35_ALoopGetsItsCallsAndNotOneMore(t *testing.T) {
	const limit, asked, workers = 300, 150, 8
	g := newGuards(redistest.Client(t))
	g.limits["loop"] = GuardLimits{Calls: limit}
	var loop, other, tickets atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range asked {
				for producer, in := range map[string]*atomic.Int64{"loop": &loop, "ann": &other} {
					c := Charge{Producer: producer, Line: fmt.Sprint(producer, i%20), Ticket: fmt.Sprint(tickets.Add(1)), USD: 1}
					switch err := g.redis.Reserve(t.Context(), c); {
					case err == nil && i%10 == 9: // the breaker was open
						if err := g.redis.Release(t.Context(), c); err != nil {
							t.Error(err)
						}
					case err == nil:
						in.Add(1)
						if err := g.redis.Settle(t.Context(), c, 2); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	all.Wait()
	for range 20 { // places of lines that are asleep bind nobody once they are over
		c := Charge{Producer: "loop", Ticket: fmt.Sprint(tickets.Add(1))}
		if g.redis.Reserve(t.Context(), c) == nil {
			loop.Add(1)
		}
	}
	if loop.Load() > limit || loop.Load() < limit-20 || other.Load() != workers*asked*9/10 {
		t.Errorf("%d calls of the loop, %d of the other", loop.Load(), other.Load())
	}
	list, err := g.redis.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if want := map[string]int64{"loop": loop.Load(), "ann": other.Load()}[s.Producer]; want != 0 && s.Calls != want {
			t.Errorf("%d calls of %s are counted, %d went out", s.Calls, s.Producer, want)
		}
	}
}

// What a cancelled batch's lines held is free once their times are over, and who
// comes late still has its place until then.
func TestGuardPlacesOfACancelledBatchEnd(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 3}, func(b *guardBundle) {
		for range 3 {
			b.in(b.charge("", 0))
		}
		var due time.Duration
		for _, line := range []string{"cancelled1", "cancelled2", "late"} {
			due = b.over(b.charge(line, 0), GuardProducer)
		}
		b.now = b.now.Add(due + placeGrace)
		b.over(b.charge("new", 0), GuardProducer)
		b.in(b.charge("late", 0))
		b.now = b.now.Add(time.Millisecond)
		b.in(b.charge("new", 0))
		b.in(b.charge("newer", 0))
	})
}

// A call that was reserved before a person released the guard is not of the new
// count: its end neither gives it back there nor adds to it.
func TestGuardReleasedWithCallsUnderWay(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 2}, func(b *guardBundle) {
		unsent, dear := b.in(b.charge("", 10)), b.in(b.charge("", 10))
		b.ok(b.store.Reopen(b.Context(), "ann", "eve"))
		b.now = b.now.Add(time.Millisecond) // the minute stays the same
		b.in(b.charge("", 10))
		b.ok(b.store.Release(b.Context(), unsent))
		b.ok(b.store.Settle(b.Context(), dear, 500))
		if s := b.status(); s.Calls != 1 || s.USD != 10 {
			b.Errorf("%d calls of %d are counted after the release, want 1 of 10", s.Calls, s.USD)
		}
		back := b.in(b.charge("", 10))
		b.over(b.charge("", 10), GuardProducer)
		b.ok(b.store.Release(b.Context(), back)) // one that was reserved since is given back
		b.in(b.charge("", 10))
	})
}

// A Redis that loses keys, all or some, counts anew and holds nobody for ever.
func TestGuardOutlivesLostKeys(t *testing.T) {
	all := append(hourKeys("ann"), heldKey, producersKey, purseKey("b"))
	for _, lost := range append([][]string{all}, [][]string{all[:1], all[1:2], all[2:3], all[3:4], all[4:5], all[5:]}...) {
		g := newGuards(redistest.Client(t))
		g.limits["ann"] = GuardLimits{Calls: 2, USD: 1000}
		b := &guardBundle{T: t, guards: g, store: g.redis}
		b.ok(b.store.SetBudget(t.Context(), "b", 1000))
		var flying []Charge
		for range 2 {
			c := b.charge("", 10)
			c.Batch = "b"
			flying = append(flying, b.in(c))
		}
		b.over(b.charge("w", 10), GuardProducer)
		b.ok(b.rdb.Del(t.Context(), lost...).Err())
		b.ok(b.store.Settle(t.Context(), flying[0], 20))
		b.ok(b.store.Release(t.Context(), flying[1]))
		if s := b.status(); s.Calls < 0 || s.USD < 0 || s.Calls > 2 {
			t.Errorf("without %v: %+v", lost, s)
		}
		b.now = b.now.Add(2 * time.Hour)
		b.in(b.charge("w", 10))
		b.in(b.charge("x", 10))
		b.over(b.charge("y", 10), GuardProducer)
	}
}

// A call that is never settled is forgotten after its hour, and so is all else
// that the guard holds of it: of 100,000 calls in seven hours, every tenth of
// which nobody settles, it keeps those of the last hour.
func TestGuardKeepsNothingForEver(t *testing.T) {
	const calls, every = 100_000, 250 * time.Millisecond
	const hour = int(61 * time.Minute / every / 10)
	charge := func(i int) Charge {
		return Charge{Producer: "ann", Batch: "b", Line: "x", Ticket: fmt.Sprint(i), USD: 1}
	}
	t.Run("memory", func(t *testing.T) {
		g := newGuards(nil)
		for i := range calls {
			if err := g.memory.Reserve(t.Context(), charge(i)); err != nil {
				t.Fatal(err)
			}
			if i%10 != 0 {
				_ = g.memory.Settle(t.Context(), charge(i), 1)
			}
			g.now = g.now.Add(every)
		}
		b := g.memory.book
		if held, minutes := len(b.held), len(b.producer("ann").Minutes); held > hour+30 || minutes > 62 || len(b.batches) != 0 {
			t.Errorf("kept: %d calls, %d minutes, %d batches", held, minutes, len(b.batches))
		}
	})
	t.Run("redis", func(t *testing.T) {
		g := newGuards(redistest.Client(t))
		ctx := t.Context()
		for i := 0; i < calls; {
			var p convoy.Party
			var answers []func() error
			for range 500 {
				answers = append(answers, g.redis.ReserveIn(&p, charge(i)))
				if i%10 != 0 {
					answers = append(answers, g.redis.SettleIn(&p, charge(i), 1))
				}
				g.now = g.now.Add(every)
				i++
			}
			convoy.New(g.rdb).Send(ctx, &p)
			for _, answer := range answers {
				if err := answer(); err != nil {
					t.Fatal(err)
				}
			}
		}
		held, fields := g.rdb.HLen(ctx, heldKey).Val(), g.rdb.HLen(ctx, hourKeys("ann")[0]).Val()
		if keys := g.rdb.DBSize(ctx).Val(); int(held) > hour+30 || fields > 2*62+8 || keys > 4 {
			t.Errorf("kept: %d calls, %d fields of an hour, %d keys", held, fields, keys)
		}
	})
}
