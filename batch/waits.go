package batch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/limit"
)

// How many lines that wait a status looks at: of one batch, and of each of many. A
// keeper defers about a hundred lines of a class (design, section 3), so that
// these are mostly all; of more, they are picked at random.
const (
	waitSample       = 1024
	waitSampleOfMany = 256
)

// reasonGuard is a wait for the hourly guard, as package ladder names it.
const reasonGuard = "guard"

// AtGuards tells what lines wait for by the hourly guards as they are now. While
// its producer's is open nothing of a batch is released, so a batch that has no
// line under way waits for it, also where no line of it was refused. Lines whose
// guard is closed wait for it no more: the keeper is waking them.
func (st *Status) AtGuards(guards []limit.GuardStatus) {
	if st.FinishedAt != nil || st.State == Cancelling {
		return
	}
	until, open := guardOf(st.Producer, guards)
	waits := slices.DeleteFunc(slices.Clone(st.WaitingFor), func(w WaitingFor) bool { return w.Reason == reasonGuard && !open })
	held := slices.ContainsFunc(waits, func(w WaitingFor) bool { return w.Reason == reasonGuard })
	if open && !held && st.Idle && st.Outstanding > 0 {
		waits = append(waits, WaitingFor{Reason: reasonGuard, Until: until})
		if st.State == Running {
			st.State = Waiting
		}
	}
	slices.SortStableFunc(waits, func(a, b WaitingFor) int { return a.Until.Compare(b.Until) })
	st.WaitingFor = append([]WaitingFor{}, waits...) // never nil
	st.heldETA()
}

// heldETA drops an ETA that comes before the guard lets the first line go on: the
// rate of the last minutes says nothing of a batch that it keeps.
func (st *Status) heldETA() {
	i := slices.IndexFunc(st.WaitingFor, func(w WaitingFor) bool { return w.Reason == reasonGuard })
	if st.State != Waiting || i < 0 || st.ETA == nil || !st.ETA.Before(st.WaitingFor[i].Until) {
		return
	}
	st.ETA, st.OnTime = nil, nil
	if until := st.WaitingFor[i].Until; st.Deadline != nil && until.After(*st.Deadline) {
		st.judge(until)
	}
}

// waitingFor sums up what lines wait for, the earliest first: of one model and
// reason, the earliest time and how many lines. Of more lines than it is shown, the
// numbers are estimates.
func waitingFor(waits []redis.KeyValue, lines int64) ([]WaitingFor, error) {
	type cause struct{ model, reason string }
	sums := map[cause]WaitingFor{}
	for _, line := range waits {
		var w Wait
		if err := json.Unmarshal([]byte(line.Value), &w); err != nil {
			return nil, fmt.Errorf("read what line %s waits for: %w", line.Key, err)
		}
		c := cause{w.Model, w.Reason}
		sum, known := sums[c]
		if !known || w.Until.Before(sum.Until) {
			sum.Until = w.Until
		}
		sum.Lines++
		sums[c] = sum
	}
	all := []WaitingFor{}
	for c, sum := range sums {
		n := math.Round(float64(sum.Lines) * float64(lines) / float64(len(waits)))
		all = append(all, WaitingFor{Model: c.model, Reason: c.reason, Until: sum.Until, Lines: max(1, int64(n))})
	}
	slices.SortFunc(all, func(a, b WaitingFor) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Reason, b.Reason))
	})
	return all, nil
}

// guardOf says whether a guard keeps the producer from new calls, and until when.
func guardOf(producer string, guards []limit.GuardStatus) (until time.Time, open bool) {
	for _, g := range guards {
		if !g.Open || g.Producer != producer && g.Producer != limit.AllProducers {
			continue
		}
		open = true
		if g.Until.After(until) {
			until = g.Until
		}
	}
	return until, open
}
