package ladder

import (
	"fmt"
	"slices"
	"time"

	"nightshift/provider"
)

// admissible says whether a rung is open to this line: proceed, or next. What
// keeps it shut is noted for people, and as a wait where it passes by itself.
func (a *attempt) admissible(i int) move {
	r := &a.l.rungs[i]
	switch {
	case slices.Contains(a.out.Progress.RuledOut, i):
		return a.skip(r, a.whyRuledOut(r))
	case !r.serves(a.r.Endpoint):
		return a.unserved(r)
	case r.Model == "" && a.preset(r) == nil:
		return a.skip(r, "no rule matches the line")
	case !a.fits(r):
		return a.oversized(r)
	case a.named(r):
		return proceed
	}
	if m := a.hasTime(r); m != proceed {
		return m
	}
	return a.isDue(r)
}

// named says that the line itself asked for this rung, by its model's name: no
// condition keeps it waiting for what it named.
func (a *attempt) named(r *rung) bool { return r.index > 0 && r.index == a.start() }

// isDue holds a rung to its after and at_deadline.
func (a *attempt) isDue(r *rung) move {
	switch {
	case r.AtDeadline && a.r.Deadline.IsZero():
		return a.skip(r, "the line has no deadline")
	case r.AtDeadline:
		return a.notBefore(r, a.margin())
	case r.After == 0 || a.isFirst(r):
		return proceed
	case a.out.Progress.FirstRefused.IsZero():
		return a.skip(r, fmt.Sprintf("not before %s after an open breaker first refuses the line", r.After))
	}
	return a.notBefore(r, a.out.Progress.FirstRefused.Add(r.After))
}

// notBefore passes a rung over until its time has come, and waits for that.
func (a *attempt) notBefore(r *rung, t time.Time) move {
	if !a.l.now().Before(t) {
		return proceed
	}
	a.wait(Wait{Model: r.key.Model, Reason: ReasonRung, Until: t})
	return a.skip(r, "not before "+stamp(t))
}

// isFirst says that no rung above can ever answer this line, so that it is the
// first one in fact: there is nothing whose refusal it could wait for.
func (a *attempt) isFirst(r *rung) bool {
	for i := a.start(); i < r.index; i++ {
		above := &a.l.rungs[i]
		if above.Model != "" && above.serves(a.r.Endpoint) && !slices.Contains(a.out.Progress.RuledOut, i) && !a.tooLarge(above) {
			return false
		}
	}
	return true
}

// maxSkips bounds what an attempt says about rungs that it passed over; a
// ladder has a few.
const maxSkips = 32

// skip passes a rung over and notes why.
func (a *attempt) skip(r *rung, why string) move {
	a.noteSkip(r, why)
	return next
}

func (a *attempt) noteSkip(r *rung, why string) {
	p := &a.out.Progress
	if len(p.Skipped) < maxSkips {
		p.Skipped = append(p.Skipped, Skip{Model: r.name(), At: a.l.now(), Detail: why})
	}
}

// whyRuledOut names the outcome that ruled a rung out: that of its own last
// call, else, where it is a smaller model than one that was too small, that one's.
func (a *attempt) whyRuledOut(r *rung) string {
	const why = "ruled out earlier"
	for _, c := range slices.Backward(a.out.Progress.Calls) {
		switch own := c.Model == r.key.Model; {
		case own && rulesOut(c.Kind):
			return fmt.Sprintf("%s: %s", why, c.Kind)
		case !own && c.Kind == provider.ContextExceeded:
			return fmt.Sprintf("%s: %s, by %s", why, c.Kind, c.Model)
		}
	}
	return why
}

// rulesOut says whether a call of that kind can rule its rung out.
func rulesOut(k provider.Kind) bool {
	switch k {
	case provider.ContextExceeded, provider.ContentFiltered, provider.InvalidRequest, provider.InvalidOutput:
		return true
	}
	return false
}

// stamp is a time as people read it in a result.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
