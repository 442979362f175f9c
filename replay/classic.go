package replay

import (
	"context"
	"time"

	"nightshift/breaker"
)

// rule is a breaker as libraries have it: per model, with a fixed cooldown, after
// which calls of lines are the trials.
type rule struct {
	trips    func() trip
	cooldown time.Duration
	trials   int // at a time, and in a round; 0: everybody is let in again
	needed   int // of them
}

// trip says whether an outcome opens the breaker.
type trip interface {
	add(failed bool, now time.Time) bool
}

// consecutive trips on n failures in a row.
func consecutive(n int) func() trip { return func() trip { return &row{n: n} } }

type row struct{ n, got int }

func (r *row) add(failed bool, _ time.Time) bool {
	if !failed {
		r.got = 0
		return false
	}
	r.got++
	return r.got >= r.n
}

// inTime trips when a share of at least n outcomes of the last d failed; with no
// share, on n failures of the last d.
func inTime(d time.Duration, n int, share float64) func() trip {
	return func() trip { return &window{d: d, n: n, share: share} }
}

type window struct {
	d     time.Duration
	n     int
	share float64
	all   []result
	bad   int
}

type result struct {
	at     time.Time
	failed bool
}

func (w *window) add(failed bool, now time.Time) bool {
	w.all = append(w.all, result{now, failed})
	if failed {
		w.bad++
	}
	for len(w.all) > 0 && w.all[0].at.Before(now.Add(-w.d)) {
		w.drop()
	}
	if w.share == 0 {
		return failed && w.bad >= w.n
	}
	return failed && len(w.all) >= w.n && float64(w.bad) >= w.share*float64(len(w.all))
}

func (w *window) drop() {
	if w.all[0].failed {
		w.bad--
	}
	w.all = w.all[1:]
}

// ofLast trips when a share of the last n outcomes failed, once there are n.
func ofLast(n int, share float64) func() trip {
	return func() trip { return &ring{window{n: n, share: share}} }
}

type ring struct{ window }

func (r *ring) add(failed bool, now time.Time) bool {
	r.d = 1 << 62
	for len(r.all) >= r.n {
		r.drop()
	}
	return r.window.add(failed, now)
}

// classic is a rule for each model.
type classic struct {
	m      *machine
	rule   rule
	models map[breaker.Key]*single
	keys   map[string]breaker.Key
}

// single is the breaker of one model.
type single struct {
	trip
	state     breaker.State
	epoch     int64
	until     time.Time
	out       int // trials
	good, bad int
}

func newClassic(m *machine, r rule) doors {
	c := &classic{m: m, rule: r, models: map[breaker.Key]*single{}, keys: map[string]breaker.Key{}}
	for _, k := range m.Setup.Keys {
		c.keys[k.Model] = k
		c.models[k] = &single{trip: r.trips(), state: breaker.Closed, epoch: 1}
	}
	return c
}

// Admit implements ladder.Breakers.
func (c *classic) Admit(_ context.Context, key breaker.Key, _ ...breaker.AdmitOption) (breaker.Ticket, error) {
	s, now := c.models[key], c.m.clock.now
	t := breaker.Ticket{Key: key, ID: 1, Epoch: s.epoch}
	if s.state == breaker.Open && !now.Before(s.until) {
		if c.rule.trials == 0 {
			c.change(key, s, breaker.Closed)
		} else {
			c.change(key, s, breaker.HalfOpen)
		}
		t.Epoch = s.epoch
	}
	switch {
	case s.state == breaker.Closed:
		return t, nil
	case s.state == breaker.HalfOpen && s.out+s.good+s.bad < c.rule.trials:
		s.out++
		t.Probe, t.Scope = true, breaker.ScopeModel
		return t, nil
	}
	e := &breaker.OpenError{Key: key, Scope: breaker.ScopeModel, State: s.state, Until: s.until, Reason: "policy", RetryAfter: s.until.Sub(now)}
	if s.state == breaker.HalfOpen { // libraries tell no time; a trial takes seconds
		e.RetryAfter = 5 * time.Second
		e.Until = now.Add(e.RetryAfter)
	}
	return breaker.Ticket{}, e
}

// Report implements ladder.Breakers.
func (c *classic) Report(_ context.Context, t breaker.Ticket, r breaker.Report) error {
	s, now := c.models[t.Key], c.m.clock.now
	failed := r.Outcome == breaker.Failure
	if t.Epoch != s.epoch || !failed && r.Outcome != breaker.Success && !t.Probe {
		return nil // begun before the last change, or no evidence
	}
	switch {
	case s.state == breaker.Closed && s.add(failed, now):
		c.change(t.Key, s, breaker.Open)
	case s.state == breaker.HalfOpen && t.Probe:
		s.out--
		if failed {
			s.bad++
		} else {
			s.good++
		}
		if s.good >= c.rule.needed {
			c.change(t.Key, s, breaker.Closed)
		} else if c.rule.trials-s.bad < c.rule.needed {
			c.change(t.Key, s, breaker.Open)
		}
	}
	return nil
}

// Release implements ladder.Breakers.
func (c *classic) Release(_ context.Context, t breaker.Ticket) error {
	if s := c.models[t.Key]; t.Probe && t.Epoch == s.epoch {
		s.out--
	}
	return nil
}

func (c *classic) change(key breaker.Key, s *single, to breaker.State) {
	c.m.tally.changed(everywhere, key, s.state, to, c.m.clock.now)
	s.state, s.out, s.good, s.bad = to, 0, 0, 0
	s.epoch++
	switch to {
	case breaker.Open:
		s.until = c.m.clock.now.Add(c.rule.cooldown)
	case breaker.Closed:
		s.trip = c.rule.trips()
	}
}

// opened implements doors: nobody is told, lines come when their time has come.
func (c *classic) opened(models []string) bool {
	for _, name := range models {
		if c.models[c.keys[name]].state == breaker.Closed {
			return true
		}
	}
	return false
}
