package ladder

import (
	"slices"
	"time"

	"nightshift/config"
)

// goals are the weights of the goals that have a name (design section 7).
var goals = map[string]config.Weights{
	"balanced":    {Success: .4, Latency: .3, Cost: .3},
	"speed":       {Success: .2, Latency: .6, Cost: .2},
	"cost":        {Success: .2, Latency: .2, Cost: .6},
	"reliability": {Success: .7, Latency: .2, Cost: .1},
}

// explore is the share of choices that try another model first, so that a model
// which is passed over is seen to be better than it was.
const explore = 0.02

// freeShare is what a model that costs nothing counts for, as a share of the
// cheapest price. With the goal cost, two thirds are what keeps both the free
// model before the cheapest one, and that one before one of twice its price,
// however slow it is: .6 × 1/3 is the weight of latency.
const freeShare = 2.0 / 3

// minJudged is how many answers must have been judged before their share of
// invalid ones says anything.
const minJudged = 10

// candidate is a model rung with what is known of its model.
type candidate struct {
	index   int     // of the rung
	success float64 // share of calls
	latency float64 // ms; 0: not known
	cost    float64 // of a typical call; below 0: the model has no price
	demoted bool    // too many of its answers are invalid
}

// rank puts the candidates in the order of the weights, best first; without
// weights, they stay as they are. Equals stay as they are too.
func rank(all []candidate, w config.Weights) {
	if w == (config.Weights{}) {
		return
	}
	fastest, cheapest := best(all, func(c candidate) float64 { return c.latency }), best(all, func(c candidate) float64 { return c.cost })
	if slices.ContainsFunc(all, func(c candidate) bool { return c.cost == 0 }) {
		cheapest *= freeShare // beside nothing, every price would be as bad as the dearest
	}
	score := func(c candidate) float64 {
		return w.Success*c.success + w.Latency*ratio(fastest, c.latency, c.latency > 0, 1) + w.Cost*ratio(cheapest, c.cost, c.cost >= 0, .5)
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		switch x, y := score(a), score(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
}

// best is the smallest of the figures above 0; 0 where there is none.
func best(all []candidate, figure func(candidate) float64) float64 {
	smallest := 0.0
	for _, c := range all {
		if f := figure(c); f > 0 && (smallest == 0 || f < smallest) {
			smallest = f
		}
	}
	return smallest
}

// ratio is how good a figure is beside the best one: 1 is as good, a half is
// twice as much. What is not known counts as the given one.
func ratio(best, figure float64, known bool, unknown float64) float64 {
	switch {
	case !known:
		return unknown
	case figure <= best:
		return 1
	}
	return best / figure
}

// demote puts the models of too many invalid answers behind the others.
func demote(all []candidate) {
	slices.SortStableFunc(all, func(a, b candidate) int {
		switch {
		case a.demoted == b.demoted:
			return 0
		case b.demoted:
			return -1
		}
		return 1
	})
}

// venture moves now and then another candidate to the front. random is uniform
// in [0, 1).
func venture(all []candidate, random float64) {
	if len(all) < 2 || random >= explore {
		return
	}
	i := 1 + int(random/explore*float64(len(all)-1))
	c := all[i]
	copy(all[1:i+1], all[:i])
	all[0] = c
}

// typical is what a typical call costs at a price, in USD: 1,000 tokens in, 500
// out. Below 0: there is no price.
func typical(p *config.Price) float64 {
	if p == nil {
		return -1
	}
	return (1000*p.Input+500*p.Output)/1e6 + p.PerCall
}

// weights are those of the line's goal, or of the ladder's.
func (l *Ladder) weights(goal string) config.Weights {
	switch goal {
	case "":
		return l.goal
	case config.GoalOwn:
		return l.own
	}
	return goals[goal] // none for "order"
}

// route is the order of the rungs for a line, best first, and the rung of which
// an answer is not degraded: the one that it would begin with if no model were
// demoted; of a line that names a model below the first rung, the first. Rungs
// that have not the line's endpoint do not count. Only model rungs without a
// condition of time change places, among themselves; a line that names a model
// begins with it.
func (l *Ladder) route(r Request, now time.Time) (order []int, first int) {
	start := startOf(&r, len(l.rungs))
	n := len(l.rungs) - start
	order = make([]int, 0, 2*n)
	places, all := order[n:n], make([]candidate, 0, n)
	weights := l.weights(r.Goal)
	weighs := weights != (config.Weights{})
	for i := start; i < len(l.rungs); i++ {
		order = append(order, i)
		if x := &l.rungs[i]; x.Model != "" && x.serves(r.Endpoint) && x.After == 0 && !x.AtDeadline && (i > start || r.Rung == 0) {
			places = append(places, i-start)
			all = append(all, l.candidate(x, weighs, now))
		}
	}
	rank(all, weights)
	place(order, places, all)
	first = l.firstServing(order, r.Endpoint)
	for i := 0; i < start && r.Rung > 0; i++ {
		if l.rungs[i].serves(r.Endpoint) {
			first = i
			break
		}
	}
	demote(all)
	if l.explores(r.Goal, all) {
		before := all[0].index
		if venture(all, l.rand()); all[0].index != before {
			first = all[0].index
		}
	}
	place(order, places, all)
	return order, first
}

// place writes the candidates into their places of the order.
func place(order, places []int, all []candidate) {
	for n, c := range all {
		order[places[n]] = c.index
	}
}

// explores says whether another model may be tried first: where figures decide.
func (l *Ladder) explores(goal string, all []candidate) bool {
	return l.weights(goal) != (config.Weights{}) || slices.ContainsFunc(all, func(c candidate) bool { return c.demoted })
}

// candidate is what is known of a rung's model; without weights, its quality alone.
func (l *Ladder) candidate(r *rung, weighs bool, now time.Time) candidate {
	c := candidate{index: r.index, cost: r.cost}
	var f figures
	if weighs {
		f = l.router.figures(r.key)
		c.success, c.latency = f.success(now), f.latency()
	} else {
		f.Judged, f.Invalid = l.router.quality(r.key)
	}
	invalid := f.tooManyInvalid(l.maxInvalid)
	l.tellQuality(r, f, invalid)
	c.demoted = l.demotes && invalid
	return c
}

// tellQuality logs when a model's answers become too bad for this ladder, and
// when they are good again.
func (l *Ladder) tellQuality(r *rung, f figures, invalid bool) {
	if r.invalid.Load() == invalid || !r.invalid.CompareAndSwap(!invalid, invalid) {
		return
	}
	attrs := []any{"ladder", l.name, "model", r.key.Model, "invalid", f.Invalid, "judged", f.Judged, "demoted", invalid && l.demotes}
	if invalid {
		l.log.Warn("too many of the model's answers are invalid", attrs...)
	} else {
		l.log.Info("the model's answers are good enough again", attrs...)
	}
}
