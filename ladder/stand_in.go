package ladder

import (
	"context"
	"time"
)

// standIn is for a line that must not be a probe and was refused. Where waiting
// lines have to be the probes, lines of its kind alone would wait for ever; so,
// when one is due, it has a probe of ours sent in its place and asks again. A
// model that refuses that for what it asks can only be tried by a line: then the
// pass is the line's. next means that the refusal stands.
func (a *attempt) standIn(r *rung, e Entry) (Pass, move) {
	e.NoProbe = false
	p, err := a.l.gate.Enter(a.ctx, e)
	switch {
	case keepsPlace(err): // for a probe, which is not waited for
		a.giveUpEntry(r, e)
		return p, next
	case err != nil: // no probe is lent to lines
		return p, next
	case !p.Probe || a.l.prober == nil || a.l.prober.refused(r.key):
		return a.entered(r, p, nil)
	}
	settled := false
	defer func() {
		if !settled { // Goexit in the adapter
			a.unsent(p, nil)
		}
	}()
	ctx, cancel := context.WithTimeout(a.ctx, p.Lease-min(reportTimeout, p.Lease/4))
	defer cancel()
	started := a.l.now()
	rep := a.l.prober.Probe(ctx, p.Ticket)
	settled = true
	if rep.Unfit {
		p.Lease = max(p.Lease-a.l.now().Sub(started), time.Millisecond)
		return a.entered(r, p, nil)
	}
	a.unsent(p, &rep)
	return p, again
}
