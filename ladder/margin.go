package ladder

import (
	"slices"
	"time"
)

// minMargin is the least time before its deadline at which a line gives up
// waiting for an at_deadline rung; the deadline itself would be too late.
const minMargin = time.Second

// MarginAt returns when the at_deadline rungs of a line open, and its calls end:
// margin before the deadline, as a whole second, since the queue wakes lines at
// whole seconds and one before the margin would be for nothing.
func MarginAt(deadline time.Time, margin time.Duration) time.Time {
	return floorSecond(deadline.Add(-max(margin, minMargin)))
}

// hasLastResort says whether an at_deadline rung is left that this line may get,
// of those without a model alone if texts is set.
func (a *attempt) hasLastResort(texts bool) bool {
	if a.r.Deadline.IsZero() {
		return false
	}
	for i := a.start(); i < len(a.l.rungs); i++ {
		r := &a.l.rungs[i]
		open := r.AtDeadline && !slices.Contains(a.out.Progress.RuledOut, i) && !a.named(r) && r.serves(a.r.Endpoint)
		if open && (r.Model != "" && !texts && !a.tooLarge(r) || r.Model == "" && a.preset(r) != nil) {
			return true
		}
	}
	return false
}

// margin is when the line stops to wait for its models, because an at_deadline
// rung remains; zero: none does.
func (a *attempt) margin() time.Time {
	if !a.hasLastResort(false) {
		return time.Time{}
	}
	return MarginAt(a.r.Deadline, a.r.Margin)
}

// callsEnd is when calls to a rung, and waits for it, must have ended: the
// line's deadline; its margin while an at_deadline rung remains; and for models
// that are such rungs, the middle between the two while a text is left for after.
func (a *attempt) callsEnd(r *rung) time.Time {
	m := a.margin()
	switch {
	case m.IsZero():
		return a.r.Deadline
	case !r.AtDeadline || a.named(r):
		return m
	case a.hasLastResort(true):
		return m.Add(a.r.Deadline.Sub(m) / 2)
	}
	return a.r.Deadline
}

// usual is how long an answer of the rung's model takes; 0: not known.
func (l *Ladder) usual(r *rung) time.Duration {
	return time.Duration(l.router.figures(r.key).usual(l.now())) * time.Millisecond
}

// hasTime passes over the rungs for which the line's time is up, so that an
// at_deadline rung comes in time, and those that would need more than twice the
// time that is left: such a call is paid for, and cut.
func (a *attempt) hasTime(r *rung) move {
	end := a.callsEnd(r)
	if r.Model == "" || end.IsZero() {
		return proceed
	}
	left := end.Sub(a.l.now())
	if left > a.timeout(r) { // no call takes longer
		return proceed
	}
	least := a.l.usual(r) / 2
	if r.AtDeadline && !a.hasLastResort(true) {
		least = 0 // nothing comes after it, and other calls were ended for it
	}
	if left > least {
		return proceed
	}
	if left > 0 {
		a.wait(Wait{Model: r.key.Model, Reason: ReasonDeadline, Until: end})
	}
	return a.skip(r, "no time is left for a call before the deadline")
}

// lastResort is when an at_deadline rung opens to the line; zero: none is to come.
func (a *attempt) lastResort() time.Time {
	if m := a.margin(); a.l.now().Before(m) {
		return m
	}
	return time.Time{}
}
