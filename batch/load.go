package batch

import (
	"time"

	"nightshift/breaker"
)

// reasonBreaker is a wait for an open breaker, as package ladder names it.
const reasonBreaker = "breaker_open"

// AtDoors tells what lines wait for by the breakers as they are now. A line
// sleeps a while longer than its breaker's own time, so that a probe can come
// first; people want to know when that is. A line whose breaker has closed
// waits no more: the keeper is waking it.
func (st *Status) AtDoors(doors []breaker.Status) {
	now := map[string]breaker.Status{}
	for _, d := range doors {
		now[d.Key.Model] = d
	}
	waits := []WaitingFor{}
	for _, w := range st.WaitingFor {
		d, known := now[w.Model]
		if w.Reason == reasonBreaker && known {
			if d.State == breaker.Closed {
				continue
			}
			w.Until = d.Until
		}
		waits = append(waits, w)
	}
	st.WaitingFor = waits
}

// Load is what a queue has before it.
type Load struct {
	Backlog  int64 // lines not released
	Runnable int64 // lines that could run now: not deferred, cancelled or expired
	// Slack is the time from the forecast end of the tightest batch to its
	// deadline, negative where it will be late; nil without such a batch.
	Slack *time.Duration
}

// Loads sums up the unfinished batches by queue. A batch without a forecast
// yet has the time to its deadline as its slack.
func Loads(backlogs []Backlog, statuses []Status, now time.Time) map[string]Load {
	loads := map[string]Load{}
	for _, b := range backlogs {
		if b.Cancelled || !b.Deadline.IsZero() && !now.Before(b.Deadline) {
			continue
		}
		l := loads[b.Queue]
		l.Backlog += b.Waiting
		l.Runnable += b.Waiting + b.Out
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
