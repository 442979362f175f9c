package limit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"nightshift/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var model = Model{Provider: "openai", Model: "openai/gpt-4o"}

type bundle struct {
	*testing.T
	store ParkStore

	mu  sync.Mutex
	now time.Time
}

func (b *bundle) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bundle) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// suite runs the test against all stores, each new.
func suite(t *testing.T, test func(*bundle)) {
	start := time.UnixMilli(1_750_000_000_000)
	t.Run("memory", func(t *testing.T) {
		b := &bundle{T: t, now: start}
		b.store = NewParkMemory(b.clock)
		test(b)
	})
	t.Run("redis", func(t *testing.T) {
		b := &bundle{T: t, now: start}
		b.store = b.onRedis()
		test(b)
	})
	t.Run("fallback", func(t *testing.T) { // nobody can tell it from its Redis
		b := &bundle{T: t, now: start}
		b.store = NewParkFallback(b.onRedis(), NewParkMemory(b.clock), FallbackOptions{})
		test(b)
	})
}

func (b *bundle) onRedis() *ParkRedis {
	r := NewParkRedis(redistest.Client(b.T))
	r.now = func() string { return strconv.FormatInt(b.clock().UnixMilli(), 10) }
	return r
}

func (b *bundle) park(retryAfter, want time.Duration) {
	b.Helper()
	if got, err := b.store.Park(b.Context(), model, retryAfter); err != nil || got != want {
		b.Fatalf("parked for %s (%v), want %s", got, err, want)
	}
	b.parked(want)
}

func (b *bundle) parked(want time.Duration) {
	b.Helper()
	if got, err := b.store.Parked(b.Context(), model); err != nil || got != want {
		b.Fatalf("still parked for %s (%v), want %s", got, err, want)
	}
}

func TestCase22_WithoutAHeaderTheWaitDoubles(t *testing.T) {
	suite(t, func(b *bundle) {
		b.parked(0)
		for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			want := time.Duration(seconds) * time.Second
			b.park(0, want)
			b.pass(want)
			b.parked(0)
			b.pass(want) // the next refusal follows within twice the wait
		}
		b.pass(time.Minute)
		b.pass(time.Millisecond) // later than twice the wait: the streak is over
		b.park(0, time.Second)
	})
}

func TestCase23_RetryAfterParksForTheFleet(t *testing.T) {
	suite(t, func(b *bundle) {
		b.park(30*time.Second, 30*time.Second)
		b.pass(29 * time.Second)
		b.parked(time.Second)
		b.pass(time.Second)
		b.parked(0)
	})
}

func TestCase46_TheLaterTimeWins(t *testing.T) {
	suite(t, func(b *bundle) {
		b.park(time.Minute, time.Minute)
		b.park(5*time.Second, time.Minute)
		b.pass(10 * time.Second)
		b.park(time.Minute, time.Minute)
		b.park(0, time.Minute)
	})
}

func TestRefusalsOfOneMomentCountOnce(t *testing.T) {
	suite(t, func(b *bundle) {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if got, err := b.store.Park(b.Context(), model, 0); err != nil || got != time.Second {
					b.Errorf("parked for %s, %v", got, err)
				}
			})
		}
		wg.Wait()
		b.pass(time.Second)
		b.park(0, 2*time.Second)
	})
}

func TestRetryAfterIsClamped(t *testing.T) {
	suite(t, func(b *bundle) {
		b.park(-time.Hour, time.Second) // nonsense is none
		b.park(time.Microsecond, time.Second)
		b.park(72*time.Hour, time.Hour)
		b.park(1<<63-1, time.Hour)
	})
}

func TestModelsAreParkedApart(t *testing.T) {
	suite(t, func(b *bundle) {
		b.park(time.Minute, time.Minute)
		if got, err := b.store.Parked(b.Context(), Model{Provider: "openai", Model: "openai/o3"}); err != nil || got != 0 {
			b.Errorf("another model is parked for %s, %v", got, err)
		}
	})
}

func TestAClockThatStepsBackDoesNotParkForEver(t *testing.T) {
	suite(t, func(b *bundle) {
		b.park(time.Second, time.Second)
		b.pass(-time.Minute)
		b.parked(61 * time.Second)
		b.pass(-time.Millisecond)
		b.parked(0)
		b.park(0, time.Second)
	})
}

// A life is random refusals as data, so that it can be run against broken scripts.
type refusal struct {
	Later, RetryAfter time.Duration
}

var genLife = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) refusal {
	return refusal{
		Later: rapid.OneOf(
			rapid.SampledFrom([]time.Duration{0, 0, time.Second, 2 * time.Second, 3 * time.Second, time.Minute, -time.Second, -2 * time.Hour, time.Hour}),
			rapid.Map(rapid.IntRange(0, 10_000), func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }),
		).Draw(t, "later"),
		RetryAfter: rapid.SampledFrom([]time.Duration{
			0, 0, 0, 0, 0, -time.Second, time.Microsecond, 3 * time.Second, 2 * time.Hour,
		}).Draw(t, "retry after"),
	}
}), 1, 60)

func runLife(r *ParkRedis, life []refusal) error {
	ctx := context.Background()
	now, st := int64(1_750_000_000_000), State{}
	m := Model{Provider: "p", Model: "p/" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	r.now = func() string { return strconv.FormatInt(now, 10) }
	for i, x := range life {
		now += x.Later.Milliseconds()
		if got, err := r.Parked(ctx, m); err != nil || got != millis(Parked(st, now)) {
			return fmt.Errorf("step %d: parked for %s (%v), want %d ms", i, got, err, Parked(st, now))
		}
		next, until := Park(st, x.RetryAfter, now)
		st = next
		if until < now || until > now+maxRetry.Milliseconds()+maxStepBack.Milliseconds() {
			return fmt.Errorf("step %d: parked until %d at %d", i, until, now)
		}
		if got, err := r.Park(ctx, m, x.RetryAfter); err != nil || got != millis(until-now) {
			return fmt.Errorf("step %d: parks for %s (%v), want %d ms", i, got, err, until-now)
		}
		if err := sameState(r, m, st, until-now); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func sameState(r *ParkRedis, m Model, want State, left int64) error {
	h, err := r.rdb.HGetAll(context.Background(), parkKey(m)).Result()
	if err != nil {
		return err
	}
	got := h["at"] + " " + h["until"] + " " + h["wait"]
	if got != fmt.Sprint(want.At, want.Until, want.Wait) {
		return fmt.Errorf("state %v, want %+v", h, want)
	}
	ttl, err := r.rdb.PTTL(context.Background(), parkKey(m)).Result()
	if err != nil || ttl < 2*longestWait {
		return fmt.Errorf("expires in %s (%v), parked for %d ms", ttl, err, left)
	}
	return nil
}

func checkLives(t *testing.T, rdb redis.UniversalClient) {
	r := NewParkRedis(rdb)
	rapid.Check(t, func(t *rapid.T) {
		if err := runLife(r, genLife.Draw(t, "life")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestScriptAgreesWithPark(t *testing.T) { checkLives(t, redistest.Client(t)) }

func TestScriptAgreesWithParkOnMiniredis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	checkLives(t, rdb)
}

func TestEveryMutationOfTheScriptIsNoticed(t *testing.T) {
	rdb := redistest.Client(t)
	streak := make([]refusal, 10) // random lives seldom double so often
	for i := range streak {
		streak[i].Later = time.Second << min(max(i-1, 0), 6)
	}
	lives := func(r *ParkRedis) error {
		if err := runLife(r, streak); err != nil {
			return err
		}
		for seed := range 200 {
			if err := runLife(r, genLife.Example(seed)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := lives(NewParkRedis(rdb)); err != nil {
		t.Fatalf("the script as it is: %v", err)
	}
	for name, m := range map[string]struct{ old, broken string }{
		"a step back is not noticed":       {"if now < at - max_step_back then", "if false then"},
		"any step back voids":              {"at - max_step_back", "at"},
		"waits are negative":               {"math.max(till - now, 0)", "till - now"},
		"the last time wins":               {"math.max(till, now + retry_after)", "now + retry_after"},
		"each refusal of a moment doubles": {"elseif now >= till then", "else"},
		"a park ends a moment late":        {"elseif now >= till then", "elseif now > till then"},
		"the streak never ends":            {"wait == 0 or now > till + 2 * wait", "wait == 0"},
		"the streak ends at once":          {"now > till + 2 * wait", "now > till"},
		"waits do not double":              {"math.min(2 * wait, longest_wait)", "wait"},
		"waits have no cap":                {"math.min(2 * wait, longest_wait)", "2 * wait"},
		"the state expires too early":      {"text(parked_till - now + ttl)", "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(parkLua, m.old) != 1 {
				t.Fatalf("the script does not hold exactly one %q", m.old)
			}
			broken := NewParkRedis(rdb)
			broken.script = redis.NewScript(strings.Replace(parkLua, m.old, m.broken, 1))
			if err := lives(broken); err == nil {
				t.Errorf("nobody noticed: %q instead of %q", m.broken, m.old)
			}
		})
	}
}
