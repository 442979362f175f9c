package ladder

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/redistest"
	"nightshift/provider"
)

// routed is a bundle with two priced models: a is fast and cheap, b neither.
func routed(t *testing.T) *bundle {
	b := setup(t, "b", "a")
	b.callers["p/b"].takes = 4 * time.Second
	m := b.models["p/b"]
	m.Price = &config.Price{Input: 4, Output: 8}
	b.models["p/b"] = m
	return b
}

func byGoal(goal string, tries int, names ...string) config.Ladder {
	c := nightly(tries, names...)
	c.Goal, c.Quality = goal, config.Quality{Invalid: 25, Action: "warn"}
	return c
}

func TestRank(t *testing.T) {
	cheap := candidate{index: 0, success: .9, latency: 8000, cost: .001}
	fast := candidate{index: 1, success: .9, latency: 1000, cost: .02}
	sure := candidate{index: 2, success: 1, latency: 8000, cost: .02}
	for goal, want := range map[string][]int{
		"order": {0, 1, 2}, "cost": {0, 1, 2}, "speed": {1, 0, 2}, "reliability": {1, 0, 2},
	} {
		all := []candidate{cheap, fast, sure}
		rank(all, goals[goal])
		equal(t, goal, indexes(all), want)
	}
	flaky := []candidate{{index: 0, success: .3, latency: 1000, cost: .01}, {index: 1, success: 1, latency: 2000, cost: .02}}
	rank(flaky, goals["reliability"])
	equal(t, "a flaky one by reliability", indexes(flaky), []int{1, 0})
	prices := []candidate{
		{index: 0, success: 1, latency: 1000, cost: .002},
		{index: 1, success: 1, latency: 90_000, cost: .001},
		{index: 2, success: 1, latency: 900_000, cost: 0},
	}
	rank(prices, goals["cost"])
	equal(t, "by price alone, also beside a free one", indexes(prices), []int{2, 1, 0})
	slow := []candidate{{index: 0, success: 1, latency: 1000, cost: .001}, {index: 1, success: 1, latency: 900_000, cost: 0}}
	rank(slow, goals["cost"])
	equal(t, "a free one, however slow", indexes(slow), []int{1, 0})
}

func indexes(all []candidate) []int {
	var out []int
	for _, c := range all {
		out = append(out, c.index)
	}
	return out
}

// Whatever the figures are, nobody is lost or doubled, and without weights
// nobody moves.
func TestRankKeepsEveryCandidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) candidate {
			return candidate{
				success: rapid.Float64Range(0, 1).Draw(t, "success"), latency: rapid.Float64Range(0, 1e6).Draw(t, "latency"),
				cost: rapid.SampledFrom([]float64{-1, 0, .001, .5}).Draw(t, "cost"), demoted: rapid.Bool().Draw(t, "demoted"),
			}
		}), 1, 8).Draw(t, "all")
		for i := range all {
			all[i].index = i
		}
		w := rapid.SampledFrom([]config.Weights{{}, goals["cost"], goals["speed"], {Cost: 1}}).Draw(t, "weights")
		rank(all, w)
		if w == (config.Weights{}) && !slices.IsSorted(indexes(all)) {
			t.Fatal("moved without weights")
		}
		demote(all)
		venture(all, rapid.Float64Range(0, .999).Draw(t, "random"))
		got := indexes(all)
		slices.Sort(got)
		for i, x := range got {
			if i != x {
				t.Fatalf("candidates %v", got)
			}
		}
	})
}

func TestAGoalGoesByTheFigures(t *testing.T) {
	b := routed(t)
	l := b.ladder(byGoal("speed", 1, "b", "a"))
	out := b.run(l, line())
	same(t, "the cheaper one first", out.Answer.Model, "p/a")
	same(t, "the line's first choice is not degraded", out.Answer.Degraded, false)
	b.script("a", down())
	out = b.run(l, line())
	same(t, "then the next", out.Answer.Model, "p/b")
	same(t, "which is", out.Answer.Degraded, true)
}

func TestALineHasAGoalOfItsOwn(t *testing.T) {
	b := routed(t)
	c := byGoal("order", 1, "b", "a")
	l := b.ladder(c)
	same(t, "as written", b.run(l, line()).Answer.Model, "p/b")
	r := line()
	r.Goal = "cost"
	same(t, "by cost", b.run(l, r).Answer.Model, "p/a")
	c.Goal, c.Weights = config.GoalOwn, config.Weights{Cost: 1}
	same(t, "by own weights", b.run(b.ladder(c), line()).Answer.Model, "p/a")
}

// A line that names its model begins there, and the others follow by the goal.
func TestANamedModelComesFirst(t *testing.T) {
	b := routed(t)
	b.add("c")
	r := line()
	r.Rung = 1
	l := b.ladder(byGoal("cost", 1, "c", "b", "a"))
	same(t, "named", b.run(l, r).Answer.Model, "p/b")
}

// Texts and rungs with conditions keep their places.
func TestOnlyModelsWithoutConditionsChangePlaces(t *testing.T) {
	b := routed(t)
	c := byGoal("cost", 1, "b", "a")
	c.Rungs = append(c.Rungs[:1:1], config.Rung{Model: "p/a", AtDeadline: true}, config.Rung{Model: "p/a", Tries: 1}, config.Rung{Text: "none"})
	order, first := b.ladder(c).route(line(), b.Now())
	equal(t, "order", order, []int{2, 1, 0, 3})
	same(t, "first", first, 2)
}

// The better model fails for ten minutes, and answers again: within six calls to
// it, it is the first choice again, in the outage it is not.
func TestARecoveredModelIsPreferredWithinSixCalls(t *testing.T) {
	b := routed(t)
	l := b.ladder(byGoal("balanced", 1, "b", "a"))
	b.script("a", down())
	for range 10 {
		b.run(l, line())
	}
	order, _ := l.route(line(), b.Now())
	same(t, "in the outage first", l.rungs[order[0]].key.Model, "p/b")
	b.script("a", nil)
	for n := 1; ; n++ {
		if n > 6 {
			t.Fatal("six answers, and still not preferred")
		}
		b.run(b.sharing(l, "a"), line()) // as an explored choice or a fall from b brings it
		if order, _ = l.route(line(), b.Now()); l.rungs[order[0]].key.Model == "p/a" {
			t.Logf("preferred after %d calls", n)
			return
		}
	}
}

// sharing is a ladder of the named models with the router of l.
func (b *bundle) sharing(l *Ladder, names ...string) *Ladder {
	c := b.ladder(nightly(1, names...))
	c.router = l.router
	return c
}

func TestTwoPercentOfTheChoicesExplore(t *testing.T) {
	b := routed(t)
	l := b.ladder(byGoal("cost", 1, "b", "a"))
	explored := 0
	for i := range 1000 {
		l.rand = func() float64 { return float64(i) / 1000 }
		if order, first := l.route(line(), b.Now()); order[0] == 0 {
			explored++
			same(t, "an explored choice is no degradation", first, 0)
		}
	}
	same(t, "explored", explored, 20)
	l.rand = func() float64 { return 0 }
	l.goal = config.Weights{}
	order, _ := l.route(line(), b.Now())
	equal(t, "in the written order nobody explores", order, []int{0, 1})
}

// verdicts are those of a breaker's store.
type verdicts map[string][2]int

func (v verdicts) List(_ context.Context, keys []breaker.Key) ([]breaker.Status, error) {
	if v == nil {
		return nil, errors.New("redis is away")
	}
	var all []breaker.Status
	for _, k := range keys {
		all = append(all, breaker.Status{Key: k, Invalid: v[k.Model][0], Judged: v[k.Model][1]})
	}
	return all, nil
}

func TestAModelOfInvalidAnswersIsTold_AndDemoted(t *testing.T) {
	for action, want := range map[string]string{"warn": "p/a", "demote": "p/b"} {
		b := setup(t, "a", "b")
		c := byGoal("order", 1, "a", "b")
		c.Quality.Action = action
		l := b.ladder(c)
		v := verdicts{"p/a": {3, 9}}
		l.router.verdicts = v
		l.router.exchange(t.Context())
		same(t, "nine say nothing", b.run(l, line()).Answer.Model, "p/a")
		v["p/a"] = [2]int{13, 50}
		l.router.exchange(t.Context())
		out := b.run(l, line())
		same(t, action, out.Answer.Model, want)
		same(t, "degraded", out.Answer.Degraded, action == "demote")
		b.run(l, line())
		same(t, "told once", strings.Count(b.log.String(), "too many of the model's answers are invalid"), 1)
		v["p/a"] = [2]int{12, 50}
		l.router.exchange(t.Context())
		same(t, "recovered", b.run(l, line()).Answer.Model, "p/a")
		same(t, "told", strings.Count(b.log.String(), "good enough again"), 1)
	}
}

// Two workers share what they see, and each goes by its own while Redis is away.
func TestWorkersShareTheirFigures(t *testing.T) {
	key := breaker.Key{Provider: "p", Model: "p/a"}
	store := NewRedisAverages(redistest.Client(t))
	one := NewRouter(RouterOptions{Keys: []breaker.Key{key}, Store: store})
	two := NewRouter(RouterOptions{Keys: []breaker.Key{key}, Store: store})
	one.observe(key, breaker.Report{Outcome: breaker.Success, Latency: 3 * time.Second})
	one.observe(key, breaker.Report{Outcome: breaker.None, Latency: time.Hour})
	same(t, "seen here at once", one.figures(key).latency(), 3000)
	one.exchange(t.Context())
	two.exchange(t.Context())
	same(t, "seen there", two.figures(key).latency(), 3000)
	two.observe(key, breaker.Report{Outcome: breaker.Failure})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	two.exchange(ended)
	before := two.figures(key).success(time.Now())
	two.exchange(t.Context())
	same(t, "a failed exchange loses nothing", two.figures(key).success(time.Now()), before)
	one.exchange(t.Context())
	if s := one.figures(key).success(time.Now()); s > .6 {
		t.Errorf("success elsewhere %v", s)
	}
}

func TestOnlyWhatSaysSomethingIsSampled(t *testing.T) {
	b := setup(t, "a")
	b.script("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Message: "no"})
	l := b.ladder(nightly(1, "a"))
	b.run(l, line())
	key := breaker.Key{Provider: "p", Model: "p/a"}
	same(t, "samples", l.router.figures(key).Success.Weight, 0)
}
