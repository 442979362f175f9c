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

	"nightshift/internal/redistest"
)

// guardBundle is one guard, of either kind, and its clock.
type guardBundle struct {
	*testing.T
	*guards
	store interface {
		Guarder
		Reopen(ctx context.Context, producer, by string) error
		Grant(ctx context.Context, batch string, g Grant) error
		SetBudget(ctx context.Context, batch string, nano int64) error
		List(ctx context.Context) ([]GuardStatus, error)
		Room(ctx context.Context, producers, batches []string) (Rooms, error)
	}
	next int
}

// eachGuard runs a test with both stores; limits are ann's.
func eachGuard(t *testing.T, limits GuardLimits, test func(b *guardBundle)) {
	t.Run("memory", func(t *testing.T) {
		g := newGuards(nil)
		g.limits["ann"] = limits
		test(&guardBundle{T: t, guards: g, store: g.memory})
	})
	t.Run("redis", func(t *testing.T) {
		g := newGuards(redistest.Client(t))
		g.limits["ann"] = limits
		test(&guardBundle{T: t, guards: g, store: g.redis})
	})
}

func (b *guardBundle) charge(line string, usd int64) Charge {
	b.next++
	return Charge{Producer: "ann", Line: line, Ticket: fmt.Sprint("ticket", b.next), USD: usd}
}

// in wants the call let in, over wants it refused and returns the wait.
func (b *guardBundle) in(c Charge) Charge {
	b.Helper()
	if err := b.store.Reserve(b.Context(), c); err != nil {
		b.Fatalf("%s: %v", c.Line, err)
	}
	return c
}

func (b *guardBundle) over(c Charge, scope GuardScope) time.Duration {
	b.Helper()
	err := b.store.Reserve(b.Context(), c)
	var over *OverError
	if !errors.As(err, &over) || over.Scope != scope {
		b.Fatalf("%s: got %v, want over %s", c.Line, err, scope)
	}
	return over.Wait
}

func (b *guardBundle) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *guardBundle) status() GuardStatus {
	b.Helper()
	list, err := b.store.List(b.Context())
	b.ok(err)
	for _, s := range list {
		if s.Producer == "ann" {
			return s
		}
	}
	return GuardStatus{}
}

func TestGuardLetsInUntilTheMomentThatItNames(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 2}, func(b *guardBundle) {
		b.in(b.charge("1", 0))
		b.now = b.now.Add(7 * time.Minute)
		b.in(b.charge("2", 0))
		wait := b.over(b.charge("3", 0), GuardProducer)
		if wait <= 53*time.Minute || wait > 54*time.Minute {
			t.Errorf("the first call falls out of the hour in %s", wait)
		}
		b.now = b.now.Add(wait - time.Millisecond)
		if again := b.over(b.charge("3", 0), GuardProducer); again != time.Millisecond {
			t.Errorf("a millisecond before its time it waits for %s", again)
		}
		b.now = b.now.Add(time.Millisecond)
		b.in(b.charge("3", 0))
		b.over(b.charge("4", 0), GuardProducer)
	})
}

func TestGuardGivesPlacesInTheOrderOfAsking(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 3}, func(b *guardBundle) {
		for i := range 3 {
			b.in(b.charge(fmt.Sprint("first", i), 0))
			b.now = b.now.Add(10 * time.Minute)
		}
		due := map[string]time.Time{}
		for _, line := range []string{"a", "b", "c", "d"} {
			due[line] = b.now.Add(b.over(b.charge(line, 0), GuardProducer))
		}
		for i, pair := range [][2]string{{"a", "b"}, {"b", "c"}} {
			if got := due[pair[1]].Sub(due[pair[0]]); got != 10*time.Minute {
				t.Errorf("place %d follows the one before by %s", i+2, got)
			}
		}
		if got := due["d"].Sub(due["a"]); got != 61*time.Minute {
			t.Errorf("who comes fourth of three waits a window longer: %s", got)
		}
		b.now = due["a"]
		if wait := b.over(b.charge("new", 0), GuardProducer); wait < 61*time.Minute {
			t.Errorf("one that came later waits for %s: the place is another's", wait)
		}
		b.in(b.charge("a", 0))
		b.now = due["b"].Add(3 * time.Minute)
		b.in(b.charge("b", 0))
	})
}

func TestGuardForgetsAPlaceThatNobodyComesFor(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 1}, func(b *guardBundle) {
		b.in(b.charge("1", 0))
		b.now = b.now.Add(b.over(b.charge("dead", 0), GuardProducer) + placeGrace)
		b.over(b.charge("", 0), GuardProducer)
		b.now = b.now.Add(time.Millisecond)
		b.in(b.charge("", 0))
	})
}

// In any hour, of whatever phase, at most N calls: the times of all calls are
// kept and every window looked at.
func TestGuardHoldsEveryHourToTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGuards(nil)
		limit := rapid.Int64Range(1, 6).Draw(t, "limit")
		g.limits["ann"] = GuardLimits{Calls: limit}
		var times []time.Time
		for i := range 300 {
			g.now = g.now.Add(time.Duration(rapid.IntRange(30_000, 20*60_000).Draw(t, "ms")) * time.Millisecond)
			if g.memory.Reserve(context.Background(), Charge{Producer: "ann", Ticket: fmt.Sprint(i)}) == nil {
				times = append(times, g.now)
			}
		}
		if int64(len(times)) < 2*limit {
			t.Fatalf("only %d calls were let in", len(times))
		}
		for i := int(limit); i < len(times); i++ {
			if hour := times[i].Sub(times[i-int(limit)]); hour < time.Hour {
				t.Fatalf("%d calls within %s", limit+1, hour)
			}
		}
	})
}

func TestFiftyRaceForTheLastCall(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 1}, func(b *guardBundle) {
		for round := range 40 {
			var in atomic.Int64
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					c := Charge{Producer: "ann", Line: fmt.Sprint(round, i), Ticket: fmt.Sprint(round, "-", i)}
					if b.store.Reserve(b.Context(), c) == nil {
						in.Add(1)
					}
				})
			}
			all.Wait()
			if in.Load() != 1 {
				t.Fatalf("round %d: %d calls were let in", round, in.Load())
			}
			b.ok(b.store.Reopen(b.Context(), "ann", "test"))
		}
	})
}

func TestGuardCountsADeadWorkersCall(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 2}, func(b *guardBundle) {
		b.in(b.charge("dead", 0))
		unsent := b.in(b.charge("unsent", 0))
		b.ok(b.store.Release(b.Context(), unsent))
		b.ok(b.store.Release(b.Context(), unsent)) // once only
		b.in(b.charge("2", 0))
		b.over(b.charge("3", 0), GuardProducer)
	})
}

func TestGuardCountsARepeatedQuestionOnce(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 2}, func(b *guardBundle) {
		c := b.charge("1", 5)
		b.in(c)
		b.now = b.now.Add(time.Minute)
		b.in(c)
		b.ok(b.store.Settle(b.Context(), c, 7))
		b.ok(b.store.Settle(b.Context(), c, 7))
		if s := b.status(); s.Calls != 1 || s.USD != 7 {
			t.Errorf("counted %d calls, %d nano-dollars", s.Calls, s.USD)
		}
	})
}

func TestGuardCorrectsTheCostBothWays(t *testing.T) {
	eachGuard(t, GuardLimits{USD: 100}, func(b *guardBundle) {
		cheap := b.in(b.charge("cheap", 60))
		b.over(b.charge("2", 60), GuardProducer)
		b.ok(b.store.Settle(b.Context(), cheap, 10))
		dear := b.in(b.charge("2", 60))
		b.ok(b.store.Settle(b.Context(), dear, 500))
		if s := b.status(); s.USD != 510 || !s.Open {
			t.Errorf("%+v", s)
		}
		b.now = b.now.Add(b.over(b.charge("3", 1), GuardProducer))
		b.in(b.charge("3", 101)) // dearer than the limit: alone
	})
}

func TestGuardIsOpenForCallsOfThePriceThatItRefused(t *testing.T) {
	eachGuard(t, GuardLimits{USD: 250}, func(b *guardBundle) {
		b.in(b.charge("1", 210))
		if b.status().Open {
			t.Error("open before it refused anything")
		}
		wait := b.over(b.charge("2", 90), GuardProducer)
		if s := b.status(); !s.Open || !s.Until.Equal(b.now.Add(wait).UTC()) {
			t.Errorf("%+v, its place falls due in %s", s, wait)
		}
		b.now = b.now.Add(wait)
		b.in(b.charge("2", 90))
		if s := b.status(); s.Open {
			t.Errorf("afterwards %+v", s)
		}
	})
}

func TestGuardOfAllHoldsEverybody(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 5}, func(b *guardBundle) {
		b.o.Global = GuardLimits{Calls: 2}
		memory := b.store == b.memory
		b.build()
		if b.store = b.redis; memory {
			b.store = b.memory
		}
		b.in(b.charge("1", 0))
		other := b.charge("2", 0)
		other.Producer = "bob"
		b.in(other)
		wait := b.over(b.charge("3", 0), GuardGlobal)
		b.now = b.now.Add(wait)
		b.in(b.charge("3", 0))
	})
}

func TestGuardIsReleasedByAPerson(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 1}, func(b *guardBundle) {
		b.in(b.charge("1", 0))
		b.over(b.charge("2", 0), GuardProducer)
		b.ok(b.store.Reopen(b.Context(), "ann", "eve"))
		b.in(b.charge("3", 0))
		if s := b.status(); s.ReleasedBy != "eve" || !s.Released.Equal(b.now.UTC()) || s.Calls != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestGuardTellsOfEachOpeningOnce(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 1}, func(b *guardBundle) {
		b.in(b.charge("1", 0)) // the last one: the keeper may release no other
		if changes := append(b.changes[0], b.changes[1]...); len(changes) != 1 || !changes[0].Open {
			t.Errorf("with its last call %+v", changes)
		}
		var wait time.Duration
		for i := range 5 {
			w := b.over(b.charge(fmt.Sprint("w", i%2), 0), GuardProducer)
			wait = max(w, wait)
		}
		b.now = b.now.Add(wait + placeGrace + time.Minute)
		b.limits["ann"] = GuardLimits{Calls: 9}
		b.in(b.charge("", 0))
		changes := append(b.changes[0], b.changes[1]...)
		if len(changes) != 2 || !changes[0].Open || changes[0].Until.IsZero() || changes[1].Open {
			t.Errorf("%+v", changes)
		}
	})
}

func TestGuardLeavesRoomBeyondThePlaces(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 3}, func(b *guardBundle) {
		room := func() Room {
			r, err := b.store.Room(b.Context(), []string{"ann", "bob"}, nil)
			b.ok(err)
			if bob := r.Producers["bob"]; !bob.Unlimited || !r.All.Unlimited {
				t.Errorf("%+v", r)
			}
			return r.Producers["ann"]
		}
		if r := room(); r.Calls != 3 {
			t.Errorf("at first %+v", r)
		}
		for range 3 {
			b.in(b.charge("", 0))
		}
		b.over(b.charge("a", 0), GuardProducer)
		if r := room(); r.Calls != -1 {
			t.Errorf("with one place %+v", r)
		}
		b.now = b.now.Add(61 * time.Minute)
		if r := room(); r.Calls != 2 || r.Ready != 1 {
			t.Errorf("when its time has come %+v", r)
		}
	})
}

func TestGuardTakesNonsense(t *testing.T) {
	eachGuard(t, GuardLimits{Calls: 5, USD: 100}, func(b *guardBundle) {
		huge := b.charge("1", 1<<62)
		b.in(huge)
		b.over(b.charge("2", 1), GuardProducer)
		b.ok(b.store.Settle(b.Context(), huge, -1<<62))
		b.in(b.charge("2", -1<<62))
		if s := b.status(); s.USD != 0 || s.Calls != 2 {
			t.Errorf("%+v", s)
		}
	})
}
