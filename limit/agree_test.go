package limit

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"nightshift/internal/redistest"
)

// move is one operation as data, so that a life can be run against broken scripts.
type move struct {
	Later  time.Duration
	Op     string
	Ticket int
	Ask    Ask
	Result Result
	Limits Limits
}

var (
	genDuration = rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, 1, -1, time.Millisecond, time.Second, 30 * time.Second, 2 * time.Minute, math.MinInt64, math.MaxInt64, 48 * time.Hour}),
		rapid.Map(rapid.IntRange(0, 5_000), func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }),
	)
	genNumber = rapid.OneOf(
		rapid.Int64Range(-2, 2_000), rapid.SampledFrom([]int64{0, 0, 1, 600, 1_000_000, math.MinInt64, math.MaxInt64}),
	)
	genBudget = rapid.Custom(func(t *rapid.T) Budget {
		return Budget{
			Known: rapid.IntRange(0, 3).Draw(t, "known") == 0, Limit: genNumber.Draw(t, "limit"),
			Remaining: genNumber.Draw(t, "remaining"), Reset: genDuration.Draw(t, "reset"),
		}
	})
	genLimits = rapid.SampledFrom([]Limits{
		{},
		{},
		{},
		{RPM: 60},
		{RPM: 600, TPM: 1000},
		{RPM: 5},
		{RPM: 1},
		{Concurrency: 2},
		{Concurrency: 1, RPM: 6000},
		{TPM: 600},
		{RPM: -1, TPM: math.MinInt, Concurrency: -5},
		{RPM: math.MaxInt, TPM: math.MaxInt, Concurrency: math.MaxInt},
	})
	genLater = rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, 0, 0, 100 * time.Millisecond, time.Second, 1001 * time.Millisecond, 3 * time.Second, 10 * time.Second, time.Minute, 11 * time.Minute, -time.Second, -2 * time.Hour}),
		rapid.Map(rapid.IntRange(0, 1500), func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }),
	)
	genMove = rapid.Custom(func(t *rapid.T) move {
		return move{
			Later:  genLater.Draw(t, "later"),
			Op:     rapid.SampledFrom([]string{"reserve", "reserve", "reserve", "reserve", "settle", "settle", "settle", "cancel", "park", "restart"}).Draw(t, "op"),
			Ticket: rapid.IntRange(0, 7).Draw(t, "ticket"),
			Ask: Ask{
				Lane: rapid.SampledFrom([]string{"", "", "", "flex"}).Draw(t, "lane"), Tokens: genNumber.Draw(t, "tokens"),
				Patience: genDuration.Draw(t, "patience"), Lease: genDuration.Draw(t, "lease"),
			},
			Result: Result{
				Kind: rapid.SampledFrom([]ResultKind{Passed, Passed, Passed, Limited, Limited, Unclear, 0}).Draw(t, "kind"),
				Lane: rapid.SampledFrom([]string{"", "", "", "flex"}).Draw(t, "limited lane"), RetryAfter: rapid.SampledFrom([]time.Duration{0, 0, 0, 0, -1, time.Second, 3 * time.Second, math.MaxInt64}).Draw(t, "retry after"),
				Tokens: genNumber.Draw(t, "real tokens"), Latency: genDuration.Draw(t, "latency"),
				Told:  Told{genBudget.Draw(t, "told requests"), genBudget.Draw(t, "told tokens")},
				Alone: rapid.IntRange(0, 5).Draw(t, "alone") == 0,
			},
			Limits: genLimits.Draw(t, "limits"),
		}
	})
)

// genLives is a life under limits that seldom change, so that states grow old.
var genLives = rapid.Custom(func(t *rapid.T) []move {
	list := rapid.SliceOfN(genMove, 1, 80).Draw(t, "moves")
	quiet, calm := rapid.Bool().Draw(t, "one configuration"), rapid.Bool().Draw(t, "nothing told")
	for i := range list {
		if quiet {
			list[i].Limits = list[0].Limits
		}
		if calm {
			list[i].Result.Told, list[i].Result.RetryAfter = Told{}, 0
			list[i].Ask.Lease, list[i].Ask.Patience = 0, 0
			list[i].Later = max(list[i].Later, 0) % (2 * time.Second)
		}
	}
	return list
})

// pair runs a state and a script side by side.
type pair struct {
	*Redis
	st     *state
	m      Model
	now    int64
	limits Limits
}

func newPair(r *Redis) *pair {
	p := &pair{Redis: r, st: newState(), now: 1_750_000_000_000}
	p.m = Model{Provider: "p", Model: "p/" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	r.limits = func(Model) Limits { return p.limits }
	r.now = func() string { return strconv.FormatInt(p.now, 10) }
	return p
}

func runLives(r *Redis, list []move) error {
	p := newPair(r)
	defer r.rdb.Del(context.Background(), paceKeys(p.m)...)
	for i, m := range list {
		p.now += m.Later.Milliseconds()
		p.limits = m.Limits
		if err := p.step(&m); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, m.Op, err)
		}
		if err := p.same(); err != nil {
			return fmt.Errorf("after step %d, %s: %w", i, m.Op, err)
		}
		if err := p.sound(m.Op); err != nil {
			return fmt.Errorf("after step %d, %s: %w", i, m.Op, err)
		}
	}
	return nil
}

// step makes one move on both and compares the answers.
func (p *pair) step(m *move) error {
	ctx, ticket := context.Background(), "t"+strconv.Itoa(m.Ticket)
	var want, got any
	var err error
	switch m.Op {
	case "reserve":
		a := m.Ask
		a.Model, a.Ticket = p.m, ticket
		s := p.st.reserve(p.limits, a.clean(), p.now).public()
		if s.Verdict == Wait && (s.Wait <= 0 || s.Wait > parkPoll*time.Millisecond) || s.Verdict != Go && s.Wait > maxRetry+maxStepBack {
			return fmt.Errorf("nonsense %+v", s)
		}
		want = s
		got, err = p.Reserve(ctx, a)
	case "settle":
		want = millis(p.st.settle(p.limits, ticket, m.Result.clean(), p.now))
		got, err = p.Settle(ctx, p.m, ticket, m.Result)
	case "cancel":
		p.st.cancel(p.limits, ticket, p.now)
		err = p.Cancel(ctx, p.m, ticket)
	case "park":
		want = millis(p.st.parkOnly(p.limits, m.Ask.Lane, retryMS(m.Result.RetryAfter), p.now))
		got, err = p.Park(ctx, p.m, m.Ask.Lane, m.Result.RetryAfter)
	case "restart":
		p.st.restart(p.limits, p.now)
		err = p.Restart(ctx, p.m)
	}
	if err == nil && got != want {
		err = fmt.Errorf("the script says %+v, the step %+v", got, want)
	}
	return err
}

// same compares the whole states.
func (p *pair) same() error {
	ctx, keys := context.Background(), paceKeys(p.m)
	hash, err := p.rdb.HGetAll(ctx, keys[0]).Result()
	if err != nil {
		return err
	}
	got := decodeState(hash)
	for field, text := range hash {
		ticket, ok := strings.CutPrefix(field, "t:")
		if !ok {
			continue
		}
		var c call
		var pl place
		switch {
		case scan(strings.TrimPrefix(text, "c "), []*int64{&c.N, &c.Begun, &c.Flight, &c.Tokens, &c.End}):
			got.Calls[ticket] = c
		case scan(strings.TrimPrefix(text, "p "), []*int64{&pl.Seq, &pl.Tokens, &pl.End}):
			got.Places[ticket] = pl
		default:
			return fmt.Errorf("ticket %q", text)
		}
	}
	if diff := cmp.Diff(p.st, got, cmp.AllowUnexported(state{}, numbers{}, adapted{})); diff != "" {
		return fmt.Errorf("state (-step +script):\n%s", diff)
	}
	return p.sameSets(keys)
}

func (p *pair) sameSets(keys []string) error {
	ctx := context.Background()
	wantPlaces, wantEnds := map[string]float64{}, map[string]float64{}
	for t, c := range p.st.Calls {
		wantEnds[t] = float64(c.End)
	}
	for t, pl := range p.st.Places {
		wantPlaces[t], wantEnds[t] = float64(pl.Seq), float64(pl.End)
	}
	for i, want := range []map[string]float64{nil, wantPlaces, wantEnds} {
		if i == 0 {
			continue
		}
		list, err := p.rdb.ZRangeWithScores(ctx, keys[i], 0, -1).Result()
		if err != nil {
			return err
		}
		got := map[string]float64{}
		for _, z := range list {
			got[z.Member.(string)] = z.Score
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("%s (-step +script):\n%s", keys[i], diff)
		}
	}
	for _, key := range keys {
		ttl, err := p.rdb.PTTL(ctx, key).Result()
		if err != nil || ttl == -1 || ttl >= 0 && ttl < 20*time.Hour {
			return fmt.Errorf("%s expires in %s (%v)", key, ttl, err)
		}
	}
	return nil
}

// sound holds the state to what must be true of each.
func (p *pair) sound(op string) error {
	s := p.st
	switch {
	case s.Flight != int64(len(s.Calls)) || s.Waiting != int64(len(s.Places)) || s.WaitTok < 0:
		return fmt.Errorf("counts: %+v", s.numbers)
	case s.Rate != 0 && (s.Rate < minRate || s.Rate > maxRate) || s.Cap < 0 || s.Cap > 1000*maxFlight:
		return fmt.Errorf("learned: %+v", s.adapted)
	case s.rate(p.limits, p.now) < 0 || op == "reserve" && s.rate(p.limits, p.now) > 0 && s.Req > s.burst(s.rate(p.limits, p.now)):
		return fmt.Errorf("bucket: %+v", s.numbers)
	}
	return nil
}

func checkPacing(t *testing.T, rdb redis.UniversalClient) {
	rapid.Check(t, func(t *rapid.T) {
		if err := runLives(NewRedis(rdb, nil), genLives.Draw(t, "life")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestScriptsAgreeWithSteps(t *testing.T) { checkPacing(t, redistest.Client(t)) }

func TestScriptsAgreeWithStepsOnMiniredis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	checkPacing(t, rdb)
}
