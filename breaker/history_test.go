package breaker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// allowed are the arrows of doc.go's diagram, and those of a parent's probe that
// answers for its model.
var allowed = map[State][]State{
	Closed:   {Open},
	Open:     {HalfOpen, Closed},
	HalfOpen: {Open, Closed},
}

// annals are what a record's history must be: all its transitions, newest first.
type annals []Change

// check adds the step's transition, if it made one, and holds the record's
// history to the last ten.
func (a annals) check(before, after Record, c Change, op Op, now int64) (annals, error) {
	if c.From != "" {
		switch {
		case c.From != before.state():
			return a, fmt.Errorf("a transition from %s while %s", c.From, before.state())
		case op.Kind != OpForce && !slices.Contains(allowed[c.From], c.To):
			return a, fmt.Errorf("%s became %s by %+v", c.From, c.To, op)
		case c.From == Open && c.To == Closed && op.Kind != OpForce && op.Scope != ScopeParent:
			return a, fmt.Errorf("an open breaker closed without a probe by %+v", op)
		case c.At != now:
			return a, fmt.Errorf("noted at %d, made at %d", c.At, now)
		}
		a = append(annals{c}, a...)
	}
	if after.state() != before.state() && c.From == "" {
		return a, fmt.Errorf("%s became %s without a transition by %+v", before.state(), after.state(), op)
	}
	if len(a) > 0 && after.state() != a[0].To {
		return a, fmt.Errorf("it is %s, the last transition led to %s", after.state(), a[0].To)
	}
	if want := a[:min(len(a), 10)]; !slices.Equal([]Change(want), after.History) {
		return a, fmt.Errorf("the history is %+v, want %+v", after.History, want)
	}
	return a, nil
}

func (r *Record) state() State {
	if r.closed() {
		return Closed
	}
	return r.State
}

// past is a random life of two models and their parent, in Step alone.
type past struct {
	now     int64
	ids     uint64
	tickets []Ticket
	records map[string]Record // by model; the parent's by ""
	annals  map[string]annals
}

func (p *past) step(t *rapid.T, s Levels) error {
	later := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, 30 * time.Second, 5 * time.Minute, -time.Hour}).Draw(t, "later")
	p.now += later.Milliseconds()
	op := p.op(t)
	after, r := Step(Pair{Model: p.records[op.Model], Parent: p.records[""]}, op, p.now, s)
	if r.Code == Granted {
		p.tickets = append(p.tickets, r.ticket(Key{Provider: "p", Model: op.Model}, op.ID))
	}
	if err := p.check(op.Model, after.Model, r.Change, op); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := p.check("", after.Parent, r.ParentChange, op); err != nil {
		return fmt.Errorf("parent: %w", err)
	}
	return nil
}

func (p *past) check(name string, after Record, c Change, op Op) (err error) {
	p.annals[name], err = p.annals[name].check(p.records[name], after, c, op, p.now)
	p.records[name] = after
	return err
}

// op draws an operation; an end of a call is as likely as a begin.
func (p *past) op(t *rapid.T) Op {
	p.ids++
	op := Op{Kind: OpAdmit, ID: p.ids, Model: rapid.SampledFrom([]string{"p/a", "p/a", "p/b"}).Draw(t, "model")}
	what := rapid.IntRange(0, 19).Draw(t, "what")
	switch {
	case what == 0:
		op.Kind, op.Scope = OpForce, rapid.SampledFrom([]Scope{ScopeModel, ScopeParent}).Draw(t, "scope")
		op.Force = genForce(t)
	case what < 10 && len(p.tickets) > 0:
		i := max(len(p.tickets)-1-rapid.IntRange(0, 5).Draw(t, "ticket"), 0)
		return p.tickets[i].ended(OpReport, genReport(t))
	case what < 14:
		op.Kind = OpAdmitProbe
	}
	return op
}

func TestTheHistoryHasTheLastTenTransitionsInOrder(t *testing.T) {
	most := 0
	rapid.Check(t, func(t *rapid.T) {
		s := genLevels(t)
		p := &past{now: 1_750_000_000_000, records: map[string]Record{}, annals: map[string]annals{}}
		for i := range rapid.IntRange(50, 200).Draw(t, "steps") {
			if err := p.step(t, s); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		for _, a := range p.annals {
			most = max(most, len(a))
		}
	})
	if most <= 10 {
		t.Errorf("no life had more than %d transitions", most)
	}
	t.Logf("up to %d transitions in a life", most)
}
