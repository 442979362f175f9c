package ladder

import (
	"context"
	"time"

	"nightshift/breaker"
)

// once admits the line's call, if the breakers let it through.
func (a *attempt) once(r *rung) (breaker.Ticket, error) {
	if a.r.NoProbe {
		return a.l.breakers.Admit(a.ctx, r.key, breaker.NoProbe)
	}
	return a.l.breakers.Admit(a.ctx, r.key)
}

// standIn is for a line that must not be a probe and was refused. Where waiting
// lines have to be the probes, lines of its kind alone would wait for ever; so,
// when one is due, it has a probe of ours sent in its place and asks again. A
// model that refuses that for what it asks can only be tried by a line: then the
// ticket is the line's.
func (a *attempt) standIn(r *rung) (breaker.Ticket, move) {
	t, err := a.l.breakers.Admit(a.ctx, r.key)
	switch {
	case err != nil: // no probe is lent to lines
		return t, next
	case !t.Probe || a.l.prober == nil || a.l.prober.refused(r.key):
		return t, proceed
	}
	settled := false
	defer func() {
		if !settled { // Goexit in the adapter
			a.release(t)
		}
	}()
	ctx, cancel := context.WithTimeout(a.ctx, t.Lease-min(reportTimeout, t.Lease/4))
	defer cancel()
	started := a.l.now()
	rep := a.l.prober.Probe(ctx, t)
	settled = true
	if rep.Unfit {
		t.Lease = max(t.Lease-a.l.now().Sub(started), time.Millisecond)
		return t, proceed
	}
	a.tell(t, rep)
	return t, again
}
