package ladder

import (
	"time"

	"nightshift/breaker"
)

// vouch reports a line's own call that is a probe as a success when its lease is
// about to end and it still answers. A long answer is not cut for a lease, and a
// report after it would count for nothing, so that a model with long answers
// could never close its breaker. Silence before the first token and between
// tokens is limited (see request), so a call that is under way by then has begun
// to answer; that it breaks off later is up to the calls after it to show.
//
// The function that comes back ends this and says whether the call was reported.
func (a *attempt) vouch(p Pass) (reported func() bool) {
	if p.Lease <= 0 {
		return unvouched
	}
	return a.vouchFor(p)
}

func unvouched() bool { return false }

func (a *attempt) vouchFor(p Pass) (reported func() bool) {
	after := p.Lease - leaseMargin(p.Ticket)/2
	done := make(chan struct{})
	timer := time.AfterFunc(after, func() {
		defer close(done)
		ctx, cancel := a.outliving()
		defer cancel()
		if err := a.l.gate.Vouch(ctx, p, evidence(nil, after)); err != nil { // nobody has judged the answer
			a.l.log.WarnContext(ctx, "report to breaker failed", "model", p.Key.Model, "error", err)
		}
	})
	return func() bool {
		if timer.Stop() {
			return false
		}
		<-done
		return true
	}
}

// leaseMargin is how long before the end of its lease a probe must have begun
// to answer, so that the report still counts.
func leaseMargin(t breaker.Ticket) time.Duration { return min(10*time.Second, t.Lease/4) }
