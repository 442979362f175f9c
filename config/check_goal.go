package config

import "fmt"

// goal checks what a ladder is ordered by.
func (c *checker) goal(l Ladder, p path) {
	own := l.Weights != (Weights{})
	at := p.child("weights")
	switch {
	case l.Goal == GoalOwn && !own && !c.problems.under(at.String()):
		c.report(p.child("goal"), "the goal own needs weights", "add them, as in weights: {success: 0.5, latency: 0.2, cost: 0.3}")
	case l.Goal != GoalOwn && own:
		c.report(at, fmt.Sprintf("without effect while the goal is %s", l.Goal), "write goal: own, or delete the weights")
	}
	// The other goals weigh the price little: without one, a model counts as
	// half as cheap as the cheapest.
	if l.Goal != "cost" && (l.Goal != GoalOwn || l.Weights.Cost == 0) {
		return
	}
	for i, r := range l.Rungs {
		m, known := c.cfg.Models[r.Model]
		if known && r.Price == nil && m.Price == nil {
			c.report(p.child("rungs").index(i), fmt.Sprintf("%s has no price, which the goal %s weighs", quoted(r.Model), l.Goal),
				"give the model a price; one that costs nothing has price: {input: 0, output: 0}")
		}
	}
}
