package breaker

import (
	"fmt"
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
	OpForce                        // an operator wants something
)

// Op is one operation on a model's breaker and its parent's.
type Op struct {
	Kind    OpKind
	Model   string
	ID      uint64 // of the ticket: to be granted (admissions), or that was
	NoProbe bool   // OpAdmit: the call may not be a probe

	// Of the ticket (report, release).
	Epoch, ParentEpoch int64
	Probe              bool
	Scope              Scope // the level that it probes; OpForce: the level meant

	Report Report // OpReport
	Force  Force  // OpForce
}

// ended is the operation that reports or releases a ticket.
func (t Ticket) ended(kind OpKind, rep Report) Op {
	return Op{
		Kind: kind, Model: t.Key.Model, ID: t.ID, Epoch: t.Epoch, ParentEpoch: t.ParentEpoch,
		Probe: t.Probe, Scope: t.Scope, Report: rep.cleaned(),
	}
}

// Code is the kind of a reply. The scripts return the same numbers.
type Code int

// The codes.
const (
	Granted  Code = iota + 1 // call; a repeated admission of a probe is granted its lease again
	Rejected                 // a breaker is open, or others probe it
	NotDue                   // no probe is needed now
	Counted                  // the report moved a record
	Ignored                  // the report was late, repeated, or no evidence
)

// Reply answers an operation. Times are ms.
type Reply struct {
	Code               Code
	Epoch, ParentEpoch int64 // Granted
	Lease              int64 // Granted to a probe: how long it may take
	Scope              Scope // Granted to a probe: what it probes; Rejected: who rejects

	State      State // Rejected
	Reason     string
	Until      int64
	RetryAfter int64 // never negative

	Change, ParentChange Change // the transitions that the operation made; From "": none
}

// Step applies one operation at now (ms) and returns the new records and the
// answer. It is pure: p is left as it was. The settings must be complete.
func Step(p Pair, op Op, now int64, s Levels) (Pair, Reply) {
	p = p.clone()
	l := &levels{m: &p.Model, p: &p.Parent, s: &s, spare: spares{&spare{}, &spare{}}, tag: modelTag(op.Model)}
	return p, l.apply(&op, now)
}

// levels are the two records during one operation.
type levels struct {
	m, p   *Record
	s      *Levels
	spare  spares
	tag    uint32 // of the model, see modelTag
	unseen bool   // the operation's ticket is known to be in neither record
}

// spares are the memory of two records.
type spares struct{ m, p *spare }

// apply is Step in place.
func (l *levels) apply(op *Op, now int64) Reply {
	if op.Kind == OpAdmit && l.m.closed() && l.p.closed() { // the usual case
		l.m.begin(now)
		l.p.begin(now)
		return l.grant("", 0)
	}
	if op.Kind == OpReport && !op.Probe && l.answered(op.ID, op.Epoch, op.ParentEpoch, &op.Report, now) {
		return Reply{Code: Counted}
	}
	if op.Kind == OpForce { // concerns one level alone
		if op.Scope == ScopeParent {
			return Reply{Code: Counted, ParentChange: l.p.force(op.Force, now, &l.s.Parent)}
		}
		return Reply{Code: Counted, Change: l.m.force(op.Force, now, &l.s.Model)}
	}
	l.m.settle(now, &l.s.Model)
	l.p.settle(now, &l.s.Parent)
	switch op.Kind {
	case OpAdmit:
		return l.admit(op, now)
	case OpAdmitProbe:
		return l.admitProbe(op, now)
	case OpReport, OpRelease:
		return l.report(op, now)
	}
	panic(fmt.Sprintf("breaker: unknown operation %d", op.Kind))
}

// settle ends what time ended: an operator's hold, leases, wishes; and cuts
// times down to what the settings could have made of now: a clock that stepped
// back must not lengthen a wait.
func (r *Record) settle(now int64, s *Settings) {
	if r.Hold.State != "" && r.Hold.Until != 0 && now >= r.Hold.Until {
		r.Hold = Hold{}
	}
	if r.closed() {
		return
	}
	latest := now + s.MaxCooldown.Milliseconds()
	if r.Hold.State != Open {
		r.Until = min(r.Until, latest)
	}
	r.NotBefore = min(r.NotBefore, latest)
	r.settleWants(now, s)
	if r.State == HalfOpen {
		r.settleLeases(now, s)
	}
}

// admit answers a task's call while a level is not closed.
func (l *levels) admit(op *Op, now int64) Reply {
	if rep, ok := l.lentTo(op.ID, now); ok {
		return rep
	}
	if !op.NoProbe {
		if rep, ok := l.taskProbe(op, now); ok {
			return rep
		}
	}
	if !l.m.closed() {
		l.m.want(now, &l.s.Model)
	}
	if !l.p.closed() {
		l.p.wantModel(op.Model, now, &l.s.Parent)
	}
	return l.reject(now, !op.NoProbe)
}

// reject answers with the level that lets calls through later.
func (l *levels) reject(now int64, mayProbe bool) Reply {
	if l.p.closed() {
		return l.m.reject(ScopeModel, now, &l.s.Model, mayProbe)
	}
	parent := l.p.reject(ScopeParent, now, &l.s.Parent, mayProbe)
	if l.m.closed() {
		return parent
	}
	model := l.m.reject(ScopeModel, now, &l.s.Model, mayProbe)
	if model.RetryAfter > parent.RetryAfter {
		return model
	}
	return parent
}

// reject says how long nothing can change: until the probes under way must have
// ended, or until the next one may begin and must have ended; a call that could
// be that probe itself only waits for its begin.
func (r *Record) reject(scope Scope, now int64, s *Settings, mayProbe bool) Reply {
	rep := Reply{Code: Rejected, Scope: scope, State: r.State, Reason: r.Reason}
	lease := s.ProbeLease.Milliseconds()
	switch {
	case r.State == Open:
		wait := min(max(r.Until-now, 0), s.MaxCooldown.Milliseconds()) // a hold can be longer
		if wait == 0 || !mayProbe || !r.taskProbes(s) {
			wait += lease
		}
		rep.Until, rep.RetryAfter = r.Until, wait
	case len(r.Leases) > 0:
		rep.Until = r.lastLease()
		rep.RetryAfter = rep.Until - now
	default: // the probers are gone, the next may begin at once
		rep.Until, rep.RetryAfter = now, lease
	}
	return rep
}

// report takes the outcome of a call, or a ticket back.
func (l *levels) report(op *Op, now int64) Reply {
	reply := Reply{Code: Ignored}
	em, ep := op.evidence(ScopeModel, &l.s.Model), op.evidence(ScopeParent, &l.s.Parent)
	ep.tag = l.tag
	var model, parent bool
	switch {
	case op.Probe && op.Scope == ScopeParent:
		reply.ParentChange, parent = l.p.reportProbe(op.ID, op.ParentEpoch, ep, now, &l.s.Parent)
		if parent {
			reply.Change = l.m.probedForParent(op.Epoch, em, now, &l.s.Model)
		}
	case op.Probe:
		reply.Change, model = l.m.reportProbe(op.ID, op.Epoch, em, now, &l.s.Model)
		if model {
			reply.ParentChange, _ = l.p.reportCall(op, op.ParentEpoch, ep, now, &l.s.Parent, l.spare.p)
		}
	default:
		reply.Change, model = l.m.reportCall(op, op.Epoch, em, now, &l.s.Model, l.spare.m)
		reply.ParentChange, parent = l.p.reportCall(op, op.ParentEpoch, ep, now, &l.s.Parent, l.spare.p)
	}
	if model || parent {
		reply.Code = Counted
	}
	return reply
}

// answered is the usual report: a call's success that counts on both levels and
// moves neither. In any other case it changes nothing and says so; then report
// finds out. It only spares work: report would do the same.
func (l *levels) answered(id uint64, epoch, parentEpoch int64, rep *Report, now int64) bool {
	if rep.Outcome != Success || rep.Hard || l.s.Model.slow(rep) || l.s.Parent.slow(rep) {
		return false
	}
	if !l.m.counts(epoch) || !l.p.counts(parentEpoch) || l.m.Hold.State != "" || l.p.Hold.State != "" {
		return false
	}
	if !l.unseen && (l.m.saw(id) || l.p.saw(id)) {
		return false
	}
	l.m.Outputs.judge(rep.Output)
	l.m.succeed(id, Result{At: now}, &l.s.Model, l.spare.m)
	l.p.succeed(id, Result{At: now, Model: l.tag}, &l.s.Parent, l.spare.p)
	return true
}

// counts says whether the report of a call admitted in this epoch can count.
func (r *Record) counts(epoch int64) bool { return r.closed() && r.Epoch != 0 && r.Epoch == epoch }

// succeed counts a success. Whatever a Retry-After asked for, the door is open.
func (r *Record) succeed(id uint64, res Result, s *Settings, sp *spare) {
	r.remember(id, s, sp)
	r.push(res, s, sp)
	r.NotBefore = 0
}

// reportCall takes the outcome of a call that was admitted while this level was
// closed, and says whether it counted.
func (r *Record) reportCall(op *Op, epoch int64, e evidence, now int64, s *Settings, sp *spare) (Change, bool) {
	failed := e.outcome == Failure
	evident := failed || e.outcome == Success
	if !evident && e.output == Unjudged {
		return Change{}, false
	}
	if !r.counts(epoch) || r.saw(op.ID) {
		return Change{}, false
	}
	r.Outputs.judge(e.output)
	result := Result{At: now, Failed: failed, Model: e.tag}
	if evident && !failed {
		r.succeed(op.ID, result, s, sp)
		return Change{}, true
	}
	r.remember(op.ID, s, sp)
	if !evident {
		return Change{}, true
	}
	r.push(result, s, sp)
	r.wait(e, now, s)
	if r.Hold.State == Closed {
		return Change{}, true
	}
	switch {
	case e.hard:
		return r.open(s.MaxCooldown.Milliseconds(), e.reason, now), true
	case r.trips(e, s):
		return r.open(s.Cooldown.Milliseconds(), e.reason, now), true
	}
	return Change{}, true
}

// trips says whether the ring opens the breaker. A parent's must hold failures
// of two models: one bad model is its own breaker's affair.
func (r *Record) trips(e evidence, s *Settings) bool {
	n, several := r.failures()
	return len(r.Ring) >= s.MinResults && n >= s.Failures && (several || e.tag == 0)
}

// wait keeps the provider's wish; the later time wins.
func (r *Record) wait(e evidence, now int64, s *Settings) {
	if e.wait > 0 {
		r.NotBefore = max(r.NotBefore, now+e.wait)
	}
	r.NotBefore = min(r.NotBefore, now+s.MaxCooldown.Milliseconds())
}

// open begins a cooldown; NotBefore, the provider's wish, can lengthen it.
func (r *Record) open(cooldown int64, reason string, now int64) Change {
	r.Reason, r.Cooldown = reason, cooldown
	r.Until = max(now+cooldown, r.NotBefore)
	return r.change(Open, reason, now)
}

func (r *Record) close(reason string, now int64) Change {
	r.Ring = r.Ring[:0]
	r.Reason, r.Until, r.Cooldown, r.TaskNext = "", 0, 0, false
	r.Wanted, r.Wants = 0, r.Wants[:0]
	return r.change(Closed, reason, now)
}

// doubled is the cooldown after one more failed round, ms.
func (r *Record) doubled(s *Settings) int64 {
	return min(2*r.Cooldown, s.MaxCooldown.Milliseconds())
}

// rejection turns a reply into the error that Store.Admit returns.
func (r Reply) rejection(key Key) *OpenError {
	return &OpenError{
		Key: key, Scope: r.Scope, State: r.State, Reason: r.Reason,
		Until:      time.UnixMilli(r.Until),
		RetryAfter: millis(r.RetryAfter),
	}
}

func (r Reply) ticket(key Key, id uint64) Ticket {
	return Ticket{
		Key: key, ID: id, Epoch: r.Epoch, ParentEpoch: r.ParentEpoch,
		Probe: r.Scope != "", Scope: r.Scope, Lease: millis(r.Lease),
	}
}
