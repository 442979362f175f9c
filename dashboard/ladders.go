package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/ladder"
)

// laddersView is what templates/ladders.html shows.
type laddersView struct{ Ladders []ladderView }

// ladderView is a ladder with the live state of its rungs.
type ladderView struct {
	Ladder
	Answered int64 // lines of its queues' batches that were answered
	Rungs    []rungView
	Others   []batch.Answerer // who answered and is no rung any more
}

// rungView is one rung.
type rungView struct {
	config.Rung
	Number  int
	Breaker *breakerView // of its model; nil: a text
	Parent  *breakerView // of its provider, where that is not closed
	Lines   int64        // that it answered
	Share   float64      // of Answered, in thousandths
	Demoted bool         // it goes last, for its invalid answers
}

// laddersPage shows each ladder, and who answered.
func (d *Dashboard) laddersPage(ctx context.Context, _ *http.Request) content {
	s := d.see(ctx, partBreakers, partPaces, partFigures, partBatches)
	breakers := map[string]*breakerView{}
	views := d.breakerViews(s)
	for i := range views {
		breakers[views[i].Name] = &views[i]
	}
	var v laddersView
	for _, l := range d.opts.Ladders {
		v.Ladders = append(v.Ladders, newLadderView(l, breakers, answeredOf(l, s.batches)))
	}
	return content{title: "Ladders", section: "ladders", name: "ladders", view: v, lacks: s.missing}
}

// answeredOf counts who answered lines of the batches that climb a ladder.
func answeredOf(l Ladder, all []batch.Status) map[string]int64 {
	n := map[string]int64{}
	for _, b := range all {
		if !slices.Contains(l.Queues, b.Queue) {
			continue
		}
		for model, lines := range b.AnsweredBy {
			n[model] += lines
		}
	}
	return n
}

func newLadderView(l Ladder, breakers map[string]*breakerView, answered map[string]int64) ladderView {
	v := ladderView{Ladder: l}
	for _, n := range answered {
		v.Answered += n
	}
	for i, r := range l.Ladder.Rungs {
		rung := rungView{Rung: r, Number: i + 1}
		by := cmp.Or(r.Model, ladder.TextModel)
		rung.Lines = answered[by]
		rung.Share = thousandths(rung.Lines, v.Answered)
		delete(answered, by) // the first rung of a model has all of its lines
		if b := breakers[r.Model]; b != nil {
			rung.Breaker = b
			if p := breakers[b.Key.Parent().String()]; p != nil && p.State != "closed" {
				rung.Parent = p
			}
			rung.Demoted = l.Quality.Action == "demote" && b.InvalidShare() > float64(l.Quality.Invalid)
		}
		v.Rungs = append(v.Rungs, rung)
	}
	v.Others = batch.Status{AnsweredBy: answered}.Answerers()
	return v
}

// Condition is when the rung is open to a line, in words; "" is at once.
func (r rungView) Condition() string {
	switch {
	case r.AtDeadline:
		return "only when waiting longer would miss the deadline"
	case r.After > 0:
		return short(r.After) + " after an open breaker first refused the line"
	}
	return ""
}

// Kind is what stands on a rung without a model.
func (r rungView) Kind() string {
	if len(r.Rules) > 0 {
		return "texts by rule"
	}
	return "a text"
}

// State is the state that counts for the rung: a parent that is open shuts all.
func (r rungView) State() string {
	switch {
	case r.Breaker == nil:
		return "ready"
	case r.Parent != nil:
		return string(r.Parent.State)
	case r.Breaker.State != "closed":
		return string(r.Breaker.State)
	case r.Breaker.Pace != nil && r.Breaker.Pace.Parked > 0:
		return "parked"
	}
	return "closed"
}

// Until is when its state may change; zero: nobody knows, or it need not.
func (r rungView) Until() time.Time {
	switch {
	case r.Breaker == nil:
		return time.Time{}
	case r.Parent != nil:
		return r.Parent.Until
	case r.Breaker.State != "closed":
		return r.Breaker.Until
	case r.Breaker.Pace != nil:
		return r.Breaker.Pace.Until()
	}
	return time.Time{}
}

// QueueNames are the queues that climb the ladder.
func (v ladderView) QueueNames() string { return strings.Join(v.Queues, ", ") }
