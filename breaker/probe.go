package breaker

import "slices"

// This file has what Step does about probes: who gets a lease, and what a round
// of them comes to.

// due says whether a probe may begin and is wanted.
func (r *Record) due(now int64, s *Settings) bool {
	return r.Wanted > now && r.dueAt(s) <= now
}

// dueAt is when the next probe may begin, unless one under way reports first.
// Only for Open and HalfOpen.
func (r *Record) dueAt(s *Settings) int64 {
	switch {
	case r.State == Open:
		return r.Until
	case r.free(s) || len(r.Leases) == 0:
		return 0
	}
	first := r.Leases[0].Until
	for _, l := range r.Leases {
		first = min(first, l.Until)
	}
	return first
}

// free says whether a half-open breaker has room for another probe.
func (r *Record) free(s *Settings) bool {
	out := len(r.Leases)
	return out < s.Probes && int(r.Good+r.Bad+r.Void)+out < s.round()
}

// lastLease is when the last of the leases ends; 0: there is none.
func (r *Record) lastLease() (last int64) {
	for _, l := range r.Leases {
		last = max(last, l.Until)
	}
	return last
}

// settleWants drops the wishes of work that gave up.
func (r *Record) settleWants(now int64, s *Settings) {
	latest := now + s.wantedFor()
	if r.Wanted = min(r.Wanted, latest); r.Wanted <= now {
		r.Wanted = 0
	}
	kept := r.Wants[:0]
	for _, w := range r.Wants {
		if w.Until = min(w.Until, latest); w.Until > now {
			kept = append(kept, w)
		}
	}
	r.Wants = kept
}

// settleLeases takes lapsed leases back. A round that nobody can finish any
// more, because the settings changed in it, begins anew.
func (r *Record) settleLeases(now int64, s *Settings) {
	latest := now + s.ProbeLease.Milliseconds()
	kept := r.Leases[:0]
	for _, l := range r.Leases {
		if l.Until = min(l.Until, latest); l.Until > now {
			kept = append(kept, l)
		}
	}
	r.Leases = kept
	if len(kept) == 0 && int(r.Good+r.Bad+r.Void) >= s.round() {
		r.Good, r.Bad, r.Void = 0, 0, 0
	}
}

// want notes that work waits. Not each rejection is a write.
func (r *Record) want(now int64, s *Settings) {
	if w := s.wantedFor(); r.Wanted < now+w/2 {
		r.Wanted = now + w
	}
}

// wantModel notes that work waits for this model of a parent.
func (r *Record) wantModel(model string, now int64, s *Settings) {
	w := s.wantedFor()
	i := slices.IndexFunc(r.Wants, func(x Want) bool { return x.Model == model })
	switch {
	case i < 0:
		r.Wants = append(r.Wants, Want{Model: model, Until: now + w})
	case r.Wants[i].Until < now+w/2:
		r.Wants[i].Until = now + w
	default:
		return
	}
	r.Wanted = now + w
}

// turn is the model to probe a parent through: the one after the last. "" is
// none: nobody wants any.
func (r *Record) turn() string {
	if len(r.Wants) == 0 {
		return ""
	}
	last := slices.IndexFunc(r.Wants, func(x Want) bool { return x.Model == r.Probed })
	return r.Wants[(last+1)%len(r.Wants)].Model
}

// taskProbes says that a task has to probe this breaker.
func (r *Record) taskProbes(s *Settings) bool { return s.TaskProbes || r.TaskNext }

// lentTo repeats the grant of a probe whose reply was lost.
func (l *levels) lentTo(id uint64, now int64) (Reply, bool) {
	for _, lv := range []struct {
		r     *Record
		scope Scope
	}{{l.p, ScopeParent}, {l.m, ScopeModel}} {
		for _, lease := range lv.r.Leases {
			if lease.ID == id {
				return l.grant(lv.scope, lease.Until-now), true
			}
		}
	}
	return Reply{}, false
}

func (l *levels) grant(scope Scope, lease int64) Reply {
	return Reply{Code: Granted, Epoch: l.m.Epoch, ParentEpoch: l.p.Epoch, Lease: lease, Scope: scope}
}

func (l *levels) admitProbe(op *Op, now int64) Reply {
	if rep, ok := l.lentTo(op.ID, now); ok {
		return rep
	}
	r, s, scope := l.m, &l.s.Model, ScopeModel
	if !l.p.closed() { // whatever the model's breaker says, its parent's comes first
		r, s, scope = l.p, &l.s.Parent, ScopeParent
	}
	switch {
	case r.closed():
		return Reply{Code: NotDue}
	case len(r.Leases) > 0 && !r.free(s):
		return l.reject(now, false)
	case r.taskProbes(s) || !r.due(now, s) || scope == ScopeParent && r.turn() != op.Model:
		return Reply{Code: NotDue}
	case scope == ScopeParent && l.m.Hold.State == Open: // an operator keeps calls away
		r.Probed = op.Model // the next one's turn
		return Reply{Code: NotDue}
	}
	return l.lend(scope, op, now)
}

// taskProbe lets a task's call through as the probe that is due.
func (l *levels) taskProbe(op *Op, now int64) (Reply, bool) {
	if !l.p.closed() {
		good := l.m.closed() || l.m.dueAt(&l.s.Model) <= now
		if good && l.p.taskProbes(&l.s.Parent) && l.p.dueAt(&l.s.Parent) <= now {
			return l.lend(ScopeParent, op, now), true
		}
		return Reply{}, false
	}
	if l.m.taskProbes(&l.s.Model) && l.m.dueAt(&l.s.Model) <= now {
		return l.lend(ScopeModel, op, now), true
	}
	return Reply{}, false
}

// lend gives a probe its lease.
func (l *levels) lend(scope Scope, op *Op, now int64) Reply {
	l.m.begin(now)
	l.p.begin(now)
	r, s := l.m, &l.s.Model
	if scope == ScopeParent {
		r, s = l.p, &l.s.Parent
		r.Probed = op.Model
	}
	var c Change
	if r.State == Open {
		c = r.change(HalfOpen, "probe", now)
	}
	lease := s.ProbeLease.Milliseconds()
	r.Leases = append(r.Leases, Lease{ID: op.ID, Until: now + lease})
	reply := l.grant(scope, lease)
	if scope == ScopeParent {
		reply.ParentChange = c
	} else {
		reply.Change = c
	}
	return reply
}

// reportProbe takes the outcome of a probe that holds a lease, and says whether
// it counted.
func (r *Record) reportProbe(id uint64, epoch int64, e evidence, now int64, s *Settings) (Change, bool) {
	i := slices.IndexFunc(r.Leases, func(l Lease) bool { return l.ID == id })
	if i < 0 || r.Epoch != epoch {
		return Change{}, false
	}
	r.Leases = slices.Delete(r.Leases, i, i+1)
	r.Outputs.judge(e.output)
	switch {
	case e.outcome == Success || e.outcome == Limited:
		r.Good++
		if int(r.Good) >= s.ProbeSuccesses {
			return r.close(e.reason, now), true
		}
		return Change{}, true
	case e.hard:
		r.wait(e, now, s)
		return r.open(s.MaxCooldown.Milliseconds(), e.reason, now), true
	case e.outcome == Failure:
		r.Bad++
		r.Reason = e.reason
	default:
		r.Void++
		r.TaskNext = r.TaskNext || e.unfit
	}
	r.wait(e, now, s)
	if s.round()-int(r.Bad+r.Void) >= s.ProbeSuccesses {
		return Change{}, true
	}
	return r.reopen(e.reason, now, s), true
}

// reopen ends a lost round. Without a failure in it, the cooldown is as before.
func (r *Record) reopen(reason string, now int64, s *Settings) Change {
	why, cooldown := r.Reason, min(r.Cooldown, s.MaxCooldown.Milliseconds())
	if r.Bad > 0 {
		cooldown = r.doubled(s)
	}
	c := r.open(cooldown, reason, now)
	r.Reason = why
	return c
}

// probedForParent is what the outcome of a parent's probe means for the breaker
// of the model that it went through: an answer closes it, and a hard condition
// of the model's own opens it.
func (r *Record) probedForParent(epoch int64, e evidence, now int64, s *Settings) Change {
	if r.Epoch == 0 || r.Epoch != epoch {
		return Change{}
	}
	r.Outputs.judge(e.output)
	switch {
	case r.Hold.State != "":
	case !r.closed() && (e.outcome == Success || e.outcome == Limited):
		return r.close(e.reason, now)
	case r.closed() && e.hard:
		r.wait(e, now, s) // and cut what a clock that stepped back left
		return r.open(s.MaxCooldown.Milliseconds(), e.reason, now)
	}
	return Change{}
}
