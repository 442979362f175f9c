package dashboard

import (
	"context"
	"net/http"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
)

// maxDots is how many of the last calls a ring shows.
const maxDots = 40

// breakersView is what templates/breakers.html shows.
type breakersView struct {
	Groups    []breakerGroup
	Total     int
	NotClosed int
	Held      int
	Chart     []chartView
}

// breakerGroup is a parent and the models below it.
type breakerGroup struct {
	Parent breakerView
	Models []breakerView
}

// breakersPage shows all breakers, each parent with its models.
func (d *Dashboard) breakersPage(ctx context.Context, _ *http.Request) content {
	s := d.see(ctx, partBreakers, partPaces, partFigures, partBatches)
	v := breakersView{Groups: groupBreakers(d.breakerViews(s)), Total: len(s.breakers), Chart: d.latencyChart(s)}
	for _, b := range s.breakers {
		if b.State != breaker.Closed {
			v.NotClosed++
		}
		if b.Held.State != "" {
			v.Held++
		}
	}
	return content{title: "Breakers", section: "breakers", name: "breakers", view: v, lacks: s.missing}
}

// breakerView is a breaker as the pages show it.
type breakerView struct {
	breaker.Status
	Name    string
	Opens   int        // failures that open it
	Base    string     // its first cooldown
	Step    int        // which cooldown comes next: 1 is the first, each doubles
	Dots    []bool     // its last calls, the oldest first; true: failed
	Empty   int        // places of the ring that are free
	Pace    *paceView  // nil: not known, or a parent's
	Figures Figures    // of a model
	Waiting int64      // lines that wait for it
	End     *time.Time // Until, where there is one
}

func (d *Dashboard) breakerViews(s *seen) []breakerView {
	waiting := waitingByModel(s.batches)
	views := make([]breakerView, 0, len(s.breakers))
	for _, b := range s.breakers {
		views = append(views, d.breakerView(b, s, waiting))
	}
	return views
}

func (d *Dashboard) breakerView(b breaker.Status, s *seen, waiting map[string]int64) breakerView {
	v := breakerView{Status: b, Name: b.Key.String(), Dots: b.Ring, Waiting: waiting[b.Key.String()]}
	numbers := d.opts.Settings(b.Key).WithDefaults()
	v.Opens, v.Base, v.Step = numbers.Failures, short(numbers.Cooldown), step(b.Cooldown, numbers.Cooldown)
	if len(v.Dots) > maxDots {
		v.Dots = v.Dots[len(v.Dots)-maxDots:]
	}
	v.Empty = max(0, min(b.Window, maxDots)-len(v.Dots))
	if !b.Until.IsZero() {
		v.End = &b.Until
	}
	if b.Scope == breaker.ScopeModel {
		v.Pace, v.Figures = s.paces[b.Key.Model], s.figures[b.Key.Model]
	}
	return v
}

// step says which doubling of a first cooldown another is, from 1.
func step(cooldown, first time.Duration) int {
	n := 1
	for first > 0 && first < cooldown {
		first *= 2
		n++
	}
	return n
}

// Success is the share of its calls that were answered, in per cent.
func (b breakerView) Success() float64 { return 100 * b.Figures.Success }

// InvalidShare is the share of invalid answers among those that were judged.
func (b breakerView) InvalidShare() float64 {
	if b.Judged == 0 {
		return 0
	}
	return 100 * float64(b.Invalid) / float64(b.Judged)
}

// ForGood says that somebody holds it open until it is closed.
func (b breakerView) ForGood() bool { return b.State == breaker.Open && b.Until.IsZero() }

// waitingByModel counts the lines that wait for a model, or for its parent.
func waitingByModel(all []batch.Status) map[string]int64 {
	n := map[string]int64{}
	for _, b := range all {
		for _, w := range b.WaitingFor {
			n[w.Model] += w.Lines
			if w.Parent != "" {
				n[w.Parent] += w.Lines
			}
		}
	}
	return n
}

// groupBreakers puts each model below its parent, in the order in which they come.
func groupBreakers(all []breakerView) []breakerGroup {
	var groups []breakerGroup
	place := map[breaker.Key]int{}
	group := func(parent breaker.Key) *breakerGroup {
		if _, ok := place[parent]; !ok {
			place[parent] = len(groups)
			groups = append(groups, breakerGroup{Parent: breakerView{Name: parent.String()}})
		}
		return &groups[place[parent]]
	}
	for _, b := range all {
		if g := group(b.Key.Parent()); b.Scope == breaker.ScopeParent {
			g.Parent = b
		} else {
			g.Models = append(g.Models, b)
		}
	}
	return groups
}
