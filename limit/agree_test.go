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

	"nightshift/internal/convoy"
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
	// Together says that the script makes it with the one before; both have the
	// same script, lane, time and limits.
	Together bool
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
			Limits:   genLimits.Draw(t, "limits"),
			Together: rapid.IntRange(0, 2).Draw(t, "together") > 0,
		}
	})
)

// genLives is a life under limits that seldom change, so that states grow old.
var genLives = rapid.Custom(func(t *rapid.T) []move {
	list := rapid.SliceOfN(genMove, 1, 80).Draw(t, "moves")
	quiet, calm := rapid.Bool().Draw(t, "one configuration"), rapid.Bool().Draw(t, "nothing told")
	crowded := rapid.Bool().Draw(t, "crowded")
	for i := range list {
		list[i].Together = list[i].Together && i > 0 && crowded
		if quiet {
			list[i].Limits = list[0].Limits
		}
		if calm {
			list[i].Result.Told, list[i].Result.RetryAfter = Told{}, 0
			list[i].Ask.Lease, list[i].Ask.Patience = 0, 0
			list[i].Later = max(list[i].Later, 0) % (2 * time.Second)
		}
		if list[i].Together {
			list[i].follow(&list[i-1])
		}
	}
	return list
})

// follow makes a move one that the script of another can make with it.
func (m *move) follow(o *move) {
	m.Later, m.Limits = 0, o.Limits
	m.Ask.Lane, m.Result.Lane = o.lane(), o.lane()
	if (m.Op == "reserve") != (o.Op == "reserve") || m.lane() != o.lane() {
		m.Op = o.Op
	}
}

// lane is that of the move's script.
func (m *move) lane() string {
	switch m.Op {
	case "reserve", "park":
		return m.Ask.Lane
	case "settle":
		return m.Result.Lane
	}
	return ""
}

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
	for i := 0; i < len(list); {
		some := crowd(list[i:])
		p.now += some[0].Later.Milliseconds()
		p.limits = some[0].Limits
		err := p.steps(some)
		if err == nil {
			err = p.same()
		}
		if i += len(some); err == nil {
			err = p.sound(list[i-1].Op)
		}
		if err != nil {
			return fmt.Errorf("after step %d, %s, of %d together: %w", i, list[i-1].Op, len(some), err)
		}
	}
	return nil
}

// crowd is the first moves that one script makes.
func crowd(list []move) []move {
	n := 1
	for n < len(list) && list[n].Together {
		n++
	}
	return list[:n]
}

// steps makes moves of the same script and lane on both, on Redis in one call, and
// compares the answers.
func (p *pair) steps(list []move) error {
	var party convoy.Party
	var want []any
	var answers []func() (any, error)
	for i := range list {
		want, answers = append(want, p.step(&list[i])), append(answers, p.ask(&party, &list[i]))
	}
	convoy.New(p.rdb).Send(context.Background(), &party)
	for i, answer := range answers {
		got, err := answer()
		if err == nil && got != want[i] {
			err = fmt.Errorf("the script says %+v, the step %+v", got, want[i])
		}
		if s, ok := got.(Slot); ok && err == nil &&
			(s.Verdict == Wait && (s.Wait <= 0 || s.Wait > parkPoll*time.Millisecond) || s.Verdict != Go && s.Wait > maxRetry+maxStepBack) {
			err = fmt.Errorf("nonsense %+v", s)
		}
		if err != nil {
			return fmt.Errorf("%d of %d: %w", i+1, len(list), err)
		}
	}
	return nil
}

// step makes a move on the state and returns its answer.
func (p *pair) step(m *move) any {
	ticket := "t" + strconv.Itoa(m.Ticket)
	switch m.Op {
	case "reserve":
		return p.st.reserve(p.limits, p.question(m).clean(), p.now).public()
	case "settle":
		return millis(p.st.settle(p.limits, ticket, m.Result.clean(), p.now))
	case "cancel":
		p.st.cancel(p.limits, ticket, p.now)
	case "park":
		return millis(p.st.parkOnly(p.limits, m.Ask.Lane, retryMS(m.Result.RetryAfter), p.now))
	case "restart":
		p.st.restart(p.limits, p.now)
	}
	return time.Duration(0)
}

func (p *pair) question(m *move) *Ask {
	a := m.Ask
	a.Model, a.Ticket = p.m, "t"+strconv.Itoa(m.Ticket)
	return &a
}

// ask has a party make a move.
func (p *pair) ask(party *convoy.Party, m *move) func() (any, error) {
	ticket := "t" + strconv.Itoa(m.Ticket)
	var c convoy.Call
	switch m.Op {
	case "reserve":
		answer := p.ReserveIn(party, *p.question(m))
		return func() (any, error) { return answer() }
	case "settle":
		c = p.settled(p.m, ticket, &m.Result)
	case "cancel":
		c = p.change(p.m, "", ticket, "cancel", 0, 0)
	case "park":
		c = p.change(p.m, m.Ask.Lane, "", "park", Limited, retryMS(m.Result.RetryAfter))
	case "restart":
		c = p.change(p.m, "", "", "restart", 0, 0)
	}
	answer := party.Add(c)
	return func() (any, error) { return parkedBy(answer, m.Op, p.m) }
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
