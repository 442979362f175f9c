package dashboard

import (
	"context"
	"net/http"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/limit"
	"nightshift/provider"
)

const (
	// nightSpan is how far back the night reaches: the batches and the minutes that
	// Tonight counts.
	nightSpan = 12 * time.Hour
	// maxUnfinished and maxEnded bound the lists of Tonight; /batches has all.
	maxUnfinished = 50
	maxEnded      = 5
)

// tonightView is what templates/tonight.html shows.
type tonightView struct {
	Alarms     []alarm
	Breakers   int // in all
	Producers  int
	Sums       sums
	Unfinished []batchView
	MoreOpen   int // unfinished ones that are left out
	Ended      []batchView
	NoBatch    bool
	Chart      []chartView
	Fleet      fleetView
}

// tonight is the first page: what runs, what waits, what it costs.
func (d *Dashboard) tonight(ctx context.Context, _ *http.Request) content {
	s := d.see(ctx, partBatches, partBreakers, partGuards, partFleet, partMinutes)
	v := tonightView{
		Breakers: len(s.breakers), Sums: sum(s), Fleet: newFleetView(s.fleet),
		NoBatch: len(s.batches) == 0 && !s.Lacks(partBatches), Chart: d.nightChart(s),
	}
	guards := guardViews(s.guards)
	v.Producers = len(guards)
	v.Alarms = alarms(d.breakerViews(s), guards, v.Fleet, s.Lacks(partFleet))
	for _, b := range byUrgency(s.batches) {
		switch {
		case b.State == batch.Done && len(v.Ended) < maxEnded && tonightToo(b, s.now):
			v.Ended = append(v.Ended, newBatchView(b))
		case b.State == batch.Done:
		case len(v.Unfinished) < maxUnfinished:
			v.Unfinished = append(v.Unfinished, newBatchView(b))
		default:
			v.MoreOpen++
		}
	}
	return content{title: "Tonight", section: "tonight", name: "tonight", view: v, lacks: s.missing}
}

// tonightToo says whether a batch belongs to the night: it runs, or ended lately.
func tonightToo(b batch.Status, now time.Time) bool {
	return b.FinishedAt == nil || now.Sub(*b.FinishedAt) <= nightSpan
}

// sums are the figures on top of Tonight.
type sums struct {
	Unfinished, Waiting, Late int // batches
	Left                      int64
	Rate                      float64      // lines a minute
	End                       *time.Time   // when the last batch with an ETA ends
	NoETA                     int          // unfinished batches without one
	Cost, Waste               provider.USD // of the batches of the night
	Hour                      provider.USD // of the last hour, all producers
	HourKnown                 bool
	Done, Degraded            int64 // lines that were answered in the batches of the night
}

func sum(s *seen) (v sums) {
	for _, b := range s.batches {
		if !tonightToo(b, s.now) {
			continue
		}
		v.Cost += b.CostUSD
		v.Waste += b.WastedUSD
		v.Done += b.Succeeded
		v.Degraded += b.Degraded
		if b.State == batch.Done {
			continue
		}
		v.Unfinished++
		v.Left += b.Outstanding
		v.Rate += b.RatePerMinute
		if b.State == batch.Waiting {
			v.Waiting++
		}
		if b.OnTime != nil && !*b.OnTime {
			v.Late++
		}
		if b.ETA == nil {
			v.NoETA++
		} else if v.End == nil || b.ETA.After(*v.End) {
			v.End = b.ETA
		}
	}
	for _, g := range s.guards {
		if g.Producer == limit.AllProducers {
			v.Hour, v.HourKnown = provider.USD(g.USD), true
		}
	}
	return v
}

// WasteShare is how much of the cost was for nothing, in per cent.
func (v sums) WasteShare() float64 {
	if v.Cost <= 0 {
		return 0
	}
	return 100 * v.Waste.Float() / v.Cost.Float()
}

// DegradedShare is how many answers were not of the first choice, in per cent.
func (v sums) DegradedShare() float64 {
	if v.Done == 0 {
		return 0
	}
	return 100 * float64(v.Degraded) / float64(v.Done)
}

// alarm is something that a person should know first.
type alarm struct {
	Key   string // unique on the page
	Class string // bad, warn
	State string // in a word
	What  string // a name
	Why   string
	Next  string     // what comes at Until
	Until *time.Time // nil: nobody knows
	Lines int64      // that wait for it
	Path  string     // where more of it is
}

// alarms are the breakers that are not closed, the guards that tripped, and what is
// wrong with the fleet.
func alarms(breakers []breakerView, guards []guardView, f fleetView, noFleet bool) (all []alarm) {
	for _, b := range breakers {
		if b.State != breaker.Closed {
			all = append(all, breakerAlarm(b))
		}
	}
	for _, g := range guards {
		if g.Open {
			all = append(all, alarm{
				Key: "guard " + g.Producer, Class: "warn", State: "guard open", What: g.Name, Why: usedUp(g),
				Next: "has room", Until: timeOrNil(g.Until), Lines: g.Waiting, Path: "/guard",
			})
		}
	}
	if noFleet {
		return all
	}
	for _, q := range f.Queues {
		if q.Paused {
			why := "nobody knows who paused it"
			if q.PausedBy != "" {
				why = "paused by " + q.PausedBy
			}
			all = append(all, alarm{Key: "queue " + q.Name, Class: "warn", State: "paused", What: "queue " + q.Name, Why: why, Lines: q.Backlog + q.Out, Path: "/fleet"})
		}
	}
	return append(all, fleetAlarms(f)...)
}

func fleetAlarms(f fleetView) (all []alarm) {
	switch {
	case f.Live == 0:
		all = append(all, alarm{Key: "workers", Class: "bad", State: "nobody works", What: "No worker runs", Why: "start one with: worker run", Path: "/fleet"})
	case f.KeeperID == "":
		all = append(all, alarm{Key: "keeper", Class: "warn", State: "no keeper", What: "Nobody is the keeper", Why: "a worker takes over within seconds; until then no line is released", Path: "/fleet"})
	}
	if f.Live > 0 {
		for _, q := range f.Unserved {
			all = append(all, alarm{Key: "unserved " + q.Name, Class: "bad", State: "not served", What: "queue " + q.Name, Why: "no worker serves it", Lines: q.Backlog + q.Out, Path: "/fleet"})
		}
	}
	if f.Lost > 0 {
		all = append(all, alarm{Key: "lost", Class: "warn", State: "lost", What: number(f.Lost, "worker", "workers"), Why: "said nothing more in the last hour: killed, or without Redis", Path: "/fleet"})
	}
	if len(f.Hashes) > 1 {
		all = append(all, alarm{Key: "hashes", Class: "warn", State: "differ", What: number(len(f.Hashes), "configuration", "configurations"), Why: "workers and dashboard do not all have the same one", Path: "/fleet"})
	}
	return all
}

func breakerAlarm(b breakerView) alarm {
	a := alarm{
		Key: "breaker " + b.Name, Class: "bad", State: words(b.State), What: b.Name, Why: b.Reason,
		Next: "next probe", Until: b.End, Lines: b.Waiting, Path: "/breakers#" + anchor(b.Name),
	}
	switch {
	case b.State == breaker.HalfOpen:
		a.Class, a.Next = "warn", "a probe is under way, its lease ends"
	case b.ForGood():
		a.Next = "until somebody closes it"
	case b.Held.State == breaker.Open:
		a.Next = "held, probed"
	}
	return a
}

// usedUp says which limit of a guard is reached.
func usedUp(g guardView) string {
	if g.Limits.USD > 0 && g.USD >= g.Limits.USD && (g.Limits.Calls == 0 || g.Calls < g.Limits.Calls) {
		return usd(g.USDUsed()) + " of " + usd(g.USDLimit()) + " an hour"
	}
	if g.Limits.Calls > 0 {
		return count(g.Calls) + " of " + count(g.Limits.Calls) + " calls an hour"
	}
	return count(g.Calls) + " calls in the hour"
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
