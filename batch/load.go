package batch

import (
	"time"

	"nightshift/breaker"
)

// reasonBreaker is a wait for an open breaker, as package ladder names it.
const reasonBreaker = "breaker_open"

// AtDoors tells what lines wait for by the breakers as they are now, those of
// models and of their parents. A line sleeps a while longer than its breaker's
// own time, so that a probe can come first; people want to know when that is. A
// line whose model may be called again waits no more: the keeper is waking it.
func (st *Status) AtDoors(doors []breaker.Status) {
	state, keys := map[breaker.Key]breaker.Status{}, map[string]breaker.Key{}
	for _, d := range doors {
		state[d.Key] = d
		if d.Scope == breaker.ScopeModel {
			keys[d.Key.Model] = d.Key
		}
	}
	waits := []WaitingFor{}
	for _, w := range st.WaitingFor {
		if key, known := keys[w.Model]; w.Reason == reasonBreaker && known {
			door, shut := lastShut(state[key], state[key.Parent()])
			if !shut {
				continue
			}
			w.Until, w.HeldBy, w.Parent = door.Until, "", ""
			if door.Scope == breaker.ScopeParent {
				w.Parent = door.Key.String()
			}
			if door.Held.State == breaker.Open {
				w.HeldBy = door.Held.By
			}
		}
		waits = append(waits, w)
	}
	st.WaitingFor = waits
}

// lastShut is the level that lets a call through last, if one does not now. One
// without a time is held open for good.
func lastShut(levels ...breaker.Status) (last breaker.Status, shut bool) {
	for _, l := range levels {
		if l.State != breaker.Open && l.State != breaker.HalfOpen {
			continue
		}
		if !shut || l.Until.IsZero() || !last.Until.IsZero() && l.Until.After(last.Until) {
			last, shut = l, true
		}
	}
	return last, shut
}

// Load is what a queue has before it.
type Load struct {
	Backlog  int64 // lines not released
	Runnable int64 // lines that could run now: not deferred, cancelled or expired, and due to begin
	// Slack is the time from the forecast end of the tightest batch to its
	// deadline, negative where it will be late; nil without such a batch.
	Slack *time.Duration
}

// Loads sums up the unfinished batches by queue. A batch without a forecast
// yet has the time to its deadline as its slack.
func Loads(backlogs []Backlog, statuses []Status, now time.Time) map[string]Load {
	loads := map[string]Load{}
	for _, b := range backlogs {
		if !b.alive(now) {
			continue
		}
		l := loads[b.Queue]
		l.Backlog += b.Waiting
		if b.begun(now) {
			l.Runnable += b.Waiting
		}
		l.Runnable += b.Out
		for _, n := range b.Deferred {
			l.Runnable -= int64(n)
		}
		loads[b.Queue] = l
	}
	for _, st := range statuses {
		if st.Deadline == nil || st.State == Done || st.State == Cancelling || st.State == Enqueuing {
			continue
		}
		end := now
		if st.ETA != nil {
			end = *st.ETA
		}
		l := loads[st.Queue]
		if slack := st.Deadline.Sub(end); l.Slack == nil || slack < *l.Slack {
			l.Slack = &slack
		}
		loads[st.Queue] = l
	}
	return loads
}
