package batch

import (
	"slices"
	"time"
)

const (
	// spare is the part of the time left that a batch should have to spare: the
	// rate is a guess, and the last lines take as long as their calls.
	spare = 0.1
	// hopeless is how much more than the time left a batch may need, having the
	// whole queue, and still go before others: of a batch that is a little late
	// most lines are in time. One that needs more would make all others late and
	// be late itself.
	hopeless = 1.25
)

// alive says whether lines of the batch may begin.
func (b Backlog) alive(now time.Time) bool {
	return !b.Cancelled && (b.Deadline.IsZero() || now.Before(b.Deadline))
}

// begun says whether its time has come.
func (b Backlog) begun(now time.Time) bool { return !now.Before(b.NotBefore) }

// load is how many lines the queue has still to end for the batch. Those that
// the guard of its producer does not let go are not for this queue to do soon.
func (b Backlog) load(calls Calls) int64 {
	waiting := b.Waiting
	if n, bounded := calls.Producers[b.Producer]; bounded {
		waiting = min(waiting, int64(max(n, 0)+max(calls.Own[b.ID], 0)))
	}
	return waiting + b.Out
}

// urgent returns the batches of a level that go before all others of it, the
// earliest deadline first: those that would be late with equal shares and can be
// in time if they go first, and with them all whose deadline is earlier, which
// would otherwise wait for them. So many lines of higher levels are done before.
func urgent(backlogs level, before int64, p Picking) []Backlog {
	if !(p.Rate > 0) {
		return nil
	}
	var due []Backlog
	for _, b := range backlogs {
		if b.Waiting > 0 && !b.Deadline.IsZero() {
			due = append(due, b)
		}
	}
	slices.SortFunc(due, urgency)
	ends := equalEnds(backlogs, p)
	var first []Backlog
	start := float64(before) / p.Rate
	last, ahead := 0, start
	for _, b := range due {
		left := b.Deadline.Sub(p.Now).Seconds()
		alone := ahead + float64(b.load(p.Calls))/p.Rate
		if alone > hopeless*left {
			continue
		}
		ahead = alone
		first = append(first, b)
		if start+ends[b.ID] > (1-spare)*left {
			last = len(first)
		}
	}
	return first[:last]
}

// equalEnds returns in how many seconds each batch would be done if all
// producers got equal shares of the rate until they have nothing left: when one
// has had x lines done, each has had x, or all it has.
func equalEnds(backlogs level, p Picking) map[string]float64 {
	live := slices.SortedFunc(slices.Values(backlogs), urgency)
	total, behind := map[string]int64{}, map[string]int64{}
	for _, b := range live {
		total[b.Producer] += b.load(p.Calls)
		behind[b.ID] = total[b.Producer] // the last line of it
	}
	ends := map[string]float64{}
	for id, x := range behind {
		var done int64
		for _, n := range total {
			done += min(n, x)
		}
		ends[id] = float64(done) / p.Rate
	}
	return ends
}
