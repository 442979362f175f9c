package breaker

import (
	"fmt"

	"nightshift/internal/convoy"
)

// This file puts operations into the party of another, so that one round trip asks
// breakers and other stores at once. Each returns a function that gives the
// operation's answer, once, after the party was sent. Where that failed, or never
// was, the answer is an error and not a decision.

// AdmitIn is Admit in a party.
func (r *Redis) AdmitIn(p *convoy.Party, key Key, opts ...AdmitOption) func() (Ticket, error) {
	if err := key.check(); err != nil {
		return func() (Ticket, error) { return Ticket{}, fmt.Errorf("admit call: %w", err) }
	}
	op := Op{Kind: OpAdmit, Model: key.Model, ID: newID(), NoProbe: noProbe(opts)}
	answer := p.Add(r.call(key, &op))
	return func() (Ticket, error) {
		reply, err := r.heard(key, answer)
		return admitted(key, &op, &reply, err)
	}
}

// ReportIn is Report in a party.
func (r *Redis) ReportIn(p *convoy.Party, t Ticket, rep Report) func() error {
	return r.endIn(p, t, t.ended(OpReport, rep))
}

// ReleaseIn is Release in a party.
func (r *Redis) ReleaseIn(p *convoy.Party, t Ticket) func() error {
	if !t.Probe {
		return func() error { return nil }
	}
	return r.endIn(p, t, t.ended(OpRelease, Report{}))
}

func (r *Redis) endIn(p *convoy.Party, t Ticket, op Op) func() error {
	answer := p.Add(r.call(t.Key, &op))
	return func() error {
		if _, err := r.heard(t.Key, answer); err != nil {
			return fmt.Errorf("end call to %s: %w", t.Key, err)
		}
		return nil
	}
}
