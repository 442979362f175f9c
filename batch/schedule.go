package batch

import (
	"slices"
	"time"

	"nightshift/internal/hours"
)

// Reasons of a wait that is no line's own: nothing of the batch is released.
const (
	ReasonSchedule = "schedule" // its --at is still to come
	ReasonHours    = "hours"    // its queue is closed
	ReasonPaused   = "paused"   // a person paused its queue
)

// open says whether lines of the batch are still to be done and may be.
func (st *Status) open() bool {
	return st.Outstanding > 0 && (st.State == Running || st.State == Waiting || st.State == Scheduled)
}

// waitFor adds a reason, of which there is one.
func (st *Status) waitFor(w WaitingFor) {
	st.WaitingFor = slices.DeleteFunc(st.WaitingFor, func(o WaitingFor) bool { return o.Reason == w.Reason })
	st.WaitingFor = append(st.WaitingFor, w)
	slices.SortStableFunc(st.WaitingFor, func(a, b WaitingFor) int { return a.Until.Compare(b.Until) })
}

// atSchedule tells of a batch whose time has not come.
func (st *Status) atSchedule(now time.Time) {
	if st.NotBefore == nil || !now.Before(*st.NotBefore) || !st.open() {
		return
	}
	st.waitFor(WaitingFor{Reason: ReasonSchedule, Until: *st.NotBefore})
	if st.Out == 0 {
		st.State = Scheduled
	}
}

// AtHours tells what the hours of its queue mean for a batch. While it is closed,
// a batch of which nothing was released is scheduled. The rate is that of open
// hours, and so is the time that is left.
func (st *Status) AtHours(h hours.Hours, now time.Time) {
	if h.Always() || !st.open() {
		return
	}
	if st.ETA != nil {
		eta := h.After(now, st.ETA.Sub(now)).UTC()
		st.ETA = &eta
		st.judge(eta)
	}
	start := now
	if st.NotBefore != nil && st.NotBefore.After(now) {
		start = *st.NotBefore
	}
	opens := h.Next(start)
	if opens.Equal(start) {
		return
	}
	st.waitFor(WaitingFor{Reason: ReasonHours, Until: opens.UTC()})
	switch {
	case st.Out == 0:
		st.State = Scheduled
	case st.Idle:
		st.State = Waiting
	}
}

// AtPause tells that a person paused the queue of the batch. Nothing of it is
// under way where its queue has no active task.
func (st *Status) AtPause(by string, active int) {
	if !st.open() {
		return
	}
	st.waitFor(WaitingFor{Reason: ReasonPaused, HeldBy: by})
	if st.State == Running && (st.Idle || active == 0) {
		st.State = Waiting
	}
}
