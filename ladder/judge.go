package ladder

import (
	"time"

	"nightshift/limit"
	"nightshift/provider"
)

// judge says what a failed call of the line's own request means for it.
func (a *attempt) judge(r *rung, e *provider.Error) move {
	switch meanings[e.Kind].verdict {
	case repeatOrNext:
		return a.repeat(r, e)
	case limited:
		return a.limited(r, e)
	case refused:
		if unsupported(e) {
			return a.ruleOut(e, r.index)
		}
		return a.final(string(e.Kind), e.Error(), e)
	case tooLong:
		if a.mayShorten(r) && a.shorten(r, a.size().prompt()*3/4) {
			return again
		}
		return a.ruleOut(e, a.l.notLarger(r)...)
	case filtered:
		if a.l.nextOnFilter {
			return a.ruleOut(e, r.index)
		}
		return a.final(string(e.Kind), e.Error(), e)
	case unusable:
		return a.ruleOut(e, r.index)
	case stopped:
		return a.brokenOff(r, e)
	}
	return a.failOn(r, e)
}

// repeat tries the rung again after a pause, while it has tries left and the
// pause is a short one; whether its breaker still admits is the gate's question.
func (a *attempt) repeat(r *rung, e *provider.Error) move {
	a.tries++
	a.failOn(r, e)
	if a.tries >= r.Tries || e.RetryAfter >= inlineWait {
		return next
	}
	pause := max(jitter(tryBase, tryCap, a.tries-1, a.l.rand()), e.RetryAfter)
	if end := a.callsEnd(r); !end.IsZero() && !a.l.now().Add(pause).Before(end) {
		return next
	}
	if m := a.mayGoOn(r); m != proceed {
		return m
	}
	_, _ = a.leave() // the breaker hears of it before the pause; it warns
	return a.sleep(pause)
}

// failOn notes a real failure of a rung, with the provider's own floor to the
// next attempt, which is clamped as the breaker clamps it.
func (a *attempt) failOn(r *rung, e *provider.Error) move {
	if e.RetryAfter > 0 {
		limit := r.model.Breaker.MaxCooldown
		if limit <= 0 {
			limit = maxCooldown
		}
		floor := a.l.now().Add(min(e.RetryAfter, limit))
		a.out.NotBefore = later(a.out.NotBefore, floor)
	}
	return a.fail(e)
}

func (a *attempt) fail(e *provider.Error) move {
	a.failed = e
	return next
}

// limited follows a 429, which parks the model for the whole fleet. The call said
// nothing about the model's health and spends no try.
func (a *attempt) limited(r *rung, e *provider.Error) move {
	a.firstLimited()
	a.turn.limited++
	parked, err := a.leave()
	if m := a.mayGoOn(r); m != proceed {
		return m
	}
	wait := max(parked, e.RetryAfter, minPark)
	switch {
	case a.turn.limited > inlineWaits:
	case err == nil:
		return again // the gate says how long
	case wait <= a.placePatience(r):
		a.turn.waits++
		return a.sleep(wait)
	}
	return a.refuse(r, limit.Slot{Verdict: limit.Refuse, Wait: wait, Reason: limit.ReasonParked})
}

// minPark is the shortest wait after a 429, whatever the store says: the next
// call at once would be a busy loop.
const minPark = time.Second

// brokenOff follows a call that we ended ourselves: at the margin before the
// deadline the line goes on to its at_deadline rung, else the attempt ends.
func (a *attempt) brokenOff(r *rung, e *provider.Error) move {
	for _, gate := range []func(*rung) move{a.mayGoOn, a.hasTime} {
		if m := gate(r); m != proceed {
			return m
		}
	}
	return a.interrupt(e)
}

// notLarger returns this rung and all others whose model is known to take no
// more tokens than this one.
func (l *Ladder) notLarger(r *rung) []int {
	out := []int{r.index}
	for i := range l.rungs {
		other := &l.rungs[i]
		same := other.Model != "" && other.key == r.key
		smaller := other.Model != "" && other.model.Context > 0 && other.model.Context <= r.model.Context
		if i != r.index && (same || smaller) {
			out = append(out, i)
		}
	}
	return out
}
