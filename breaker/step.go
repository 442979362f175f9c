package breaker

import (
	"fmt"
	"strings"
	"time"
)

// OpKind is what is asked of a breaker.
type OpKind int

// The operations.
const (
	OpAdmit      OpKind = iota + 1 // may a task call?
	OpAdmitProbe                   // may this prober probe?
	OpReport                       // a call ended
	OpRelease                      // a call was never sent
)

// Op is one operation on a breaker.
type Op struct {
	Kind   OpKind
	ID     uint64 // of the ticket: to be granted (admissions), or that was
	Epoch  int64  // of the ticket (report, release)
	Probe  bool   // of the ticket (report, release)
	Report Report // OpReport
}

// Code is the kind of a reply. The scripts return the same numbers.
type Code int

// The codes.
const (
	Granted  Code = iota + 1 // call; a repeated OpAdmitProbe is granted its lease again
	Rejected                 // the breaker is open, or another probes it
	NotDue                   // no probe is needed now
	Counted                  // the report moved the record
	Ignored                  // the report was late, repeated, or no evidence
)

// Reply answers an operation. Times are ms.
type Reply struct {
	Code  Code
	Epoch int64 // Granted
	Lease int64 // Granted to a probe: how long it may take

	State      State // Rejected
	Reason     string
	Until      int64
	RetryAfter int64 // never negative

	Change Change // the transition that the operation made; From "": none
}

// Step applies one operation at now (ms) and returns the new record and the
// answer. It is pure: rec is left as it was. The settings must be complete.
func Step(rec Record, op Op, now int64, s Settings) (Record, Reply) {
	rec = rec.clone()
	reply := rec.apply(op, now, s)
	return rec, reply
}

// apply is Step in place.
func (r *Record) apply(op Op, now int64, s Settings) Reply {
	r.settle(now, s)
	switch op.Kind {
	case OpAdmit:
		return r.admit(now, s)
	case OpAdmitProbe:
		return r.admitProbe(op.ID, now, s)
	case OpReport, OpRelease:
		if op.Probe {
			return r.reportProbe(op, now, s)
		}
		return r.reportCall(op, now, s)
	}
	panic(fmt.Sprintf("breaker: unknown operation %d", op.Kind))
}

// settle ends a lapsed lease, and cuts times down to what the settings could
// have made of now: a clock that stepped back must not lengthen a wait.
func (r *Record) settle(now int64, s Settings) {
	if r.closed() {
		return
	}
	r.Until = min(r.Until, now+s.MaxCooldown.Milliseconds())
	r.Wanted = min(r.Wanted, now+s.wantedFor())
	if r.Wanted <= now {
		r.Wanted = 0
	}
	if r.Lease.ID == 0 {
		return
	}
	r.Lease.Until = min(r.Lease.Until, now+s.ProbeLease.Milliseconds())
	if now >= r.Lease.Until {
		r.Lease = Lease{}
	}
}

func (r *Record) admit(now int64, s Settings) Reply {
	if !r.closed() {
		if w := s.wantedFor(); r.Wanted < now+w/2 { // not each rejection is a write
			r.Wanted = now + w
		}
		return r.reject(now, s)
	}
	if r.Epoch == 0 {
		r.State, r.Epoch = Closed, max(now, 1)
	}
	return Reply{Code: Granted, Epoch: r.Epoch}
}

// reject says how long nothing can change: until the probe under way must have
// ended, or until the next one may begin and must have ended.
func (r *Record) reject(now int64, s Settings) Reply {
	rep := Reply{Code: Rejected, State: r.State, Reason: r.Reason}
	switch {
	case r.State == Open:
		rep.Until = r.Until
		rep.RetryAfter = max(r.Until-now, 0) + s.ProbeLease.Milliseconds()
	case r.Lease.ID != 0:
		rep.Until = r.Lease.Until
		rep.RetryAfter = r.Lease.Until - now
	default: // the prober is gone, the next may begin at once
		rep.Until = now
		rep.RetryAfter = s.ProbeLease.Milliseconds()
	}
	return rep
}

func (r *Record) admitProbe(id uint64, now int64, s Settings) Reply {
	if r.Lease.ID == id && id != 0 { // the reply of the first admission was lost
		return Reply{Code: Granted, Epoch: r.Epoch, Lease: r.Lease.Until - now}
	}
	if r.Lease.ID != 0 {
		return r.reject(now, s)
	}
	if !r.due(now) {
		return Reply{Code: NotDue}
	}
	var c Change
	if r.State == Open {
		c = r.change(HalfOpen, "probe", now)
	}
	lease := s.ProbeLease.Milliseconds()
	r.Lease = Lease{ID: id, Until: now + lease}
	return Reply{Code: Granted, Epoch: r.Epoch, Lease: lease, Change: c}
}

// reportCall takes the outcome of a call that was admitted while closed.
func (r *Record) reportCall(op Op, now int64, s Settings) Reply {
	rep := op.Report
	failed := rep.Hard || rep.Outcome == Failure
	if op.Kind == OpRelease || !failed && rep.Outcome != Success {
		return Reply{Code: Ignored}
	}
	if r.Epoch == 0 || op.Epoch != r.Epoch || r.saw(op.ID) { // only Closed gives such tickets
		return Reply{Code: Ignored}
	}
	r.remember(op.ID, s)
	r.push(Result{At: now, Failed: failed}, s)
	if !failed { // whatever a Retry-After asked for, the door is open
		r.NotBefore = 0
		return Reply{Code: Counted}
	}
	if wait := retryAfter(rep, s); wait > 0 {
		r.NotBefore = max(r.NotBefore, now+wait)
	}
	r.NotBefore = min(r.NotBefore, now+s.MaxCooldown.Milliseconds())
	reply := Reply{Code: Counted}
	switch {
	case rep.Hard:
		reply.Change = r.open(s.MaxCooldown.Milliseconds(), rep.Reason, now)
	case len(r.Ring) >= s.MinResults && r.failures() >= s.Failures:
		reply.Change = r.open(s.Cooldown.Milliseconds(), rep.Reason, now)
	}
	return reply
}

// reportProbe takes the outcome of the probe that holds the lease.
func (r *Record) reportProbe(op Op, now int64, s Settings) Reply {
	if r.Lease.ID == 0 || r.Lease.ID != op.ID || r.Epoch != op.Epoch {
		return Reply{Code: Ignored}
	}
	rep := op.Report
	if op.Kind == OpRelease {
		rep = Report{Reason: releasedReason}
	}
	outcome := rep.Outcome
	if rep.Hard {
		outcome = Failure
	}
	if outcome == Success || outcome == Limited {
		return Reply{Code: Counted, Change: r.close(rep.Reason, now)}
	}
	if wait := retryAfter(rep, s); wait > 0 {
		r.NotBefore = now + wait
	}
	cooldown, why := r.Cooldown, r.Reason // no evidence: as before
	switch {
	case rep.Hard:
		cooldown, why = s.MaxCooldown.Milliseconds(), rep.Reason
	case outcome == Failure:
		cooldown, why = r.doubled(s), rep.Reason
	}
	c := r.open(min(cooldown, s.MaxCooldown.Milliseconds()), rep.Reason, now)
	r.Reason = why
	return Reply{Code: Counted, Change: c}
}

// open begins a cooldown; NotBefore, the provider's wish, can lengthen it.
func (r *Record) open(cooldown int64, reason string, now int64) Change {
	r.Reason, r.Cooldown = reason, cooldown
	r.Until = max(now+cooldown, r.NotBefore)
	r.Lease = Lease{}
	return r.change(Open, reason, now)
}

func (r *Record) close(reason string, now int64) Change {
	r.Ring = r.Ring[:0]
	r.Reason, r.Until, r.Cooldown, r.Wanted, r.Lease = "", 0, 0, 0, Lease{}
	return r.change(Closed, reason, now)
}

// doubled is the cooldown after one more failed probe, ms.
func (r *Record) doubled(s Settings) int64 {
	return min(2*r.Cooldown, s.MaxCooldown.Milliseconds())
}

// retryAfter is the provider's wish in ms, rounded up, clamped to the cap.
func retryAfter(rep Report, s Settings) int64 {
	d := min(max(rep.RetryAfter, 0), s.MaxCooldown)
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// releasedReason stands in the history for a probe that was never sent.
const releasedReason = "probe released"

// maxReason is how many bytes of a reason are kept.
const maxReason = 200

// cleaned returns the report with a reason that is one short line of valid
// UTF-8, never empty.
func (r Report) cleaned() Report {
	if !isClean(r.Reason) {
		r.Reason = strings.Join(strings.Fields(strings.ToValidUTF8(r.Reason, "?")), " ")
		if len(r.Reason) > maxReason {
			r.Reason = strings.ToValidUTF8(r.Reason[:maxReason], "")
		}
	}
	if r.Reason != "" {
		return r
	}
	switch {
	case r.Hard:
		r.Reason = "hard failure"
	case r.Outcome == Success:
		r.Reason = "answered"
	case r.Outcome == Failure:
		r.Reason = "failed"
	case r.Outcome == Limited:
		r.Reason = "rate limited"
	default:
		r.Reason = "no evidence"
	}
	return r
}

// isClean spares the usual reason, short and printable ASCII, the cleaning.
func isClean(s string) bool {
	if len(s) > maxReason {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// rejection turns a reply into the error that Store.Admit returns.
func (r Reply) rejection(key Key) *OpenError {
	return &OpenError{
		Key: key, Scope: ScopeModel, State: r.State, Reason: r.Reason,
		Until:      time.UnixMilli(r.Until),
		RetryAfter: millis(r.RetryAfter),
	}
}

func (r Reply) ticket(key Key, id uint64, probe bool) Ticket {
	return Ticket{Key: key, ID: id, Epoch: r.Epoch, Probe: probe, Lease: millis(r.Lease)}
}
