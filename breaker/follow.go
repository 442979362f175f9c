package breaker

import "strings"

// This file has what the memory of a Fallback does beside its own steps: it
// follows the shared store's decisions, so that it can go on from there, and
// knows what it found while it had to decide alone.

// The marks of transitions in the memory's history: those that the shared store
// made, and those that it does not know.
const (
	elsewhere  = "elsewhere: "
	foundAlone = "alone: "
)

// within runs f under the lock of a model's family.
func (m *Memory) within(key Key, f func(l *levels, now int64)) {
	m.cell(key).within(0, func(l *levels, now int64) {
		l.m.settle(now, &l.s.Model)
		l.p.settle(now, &l.s.Parent)
		f(l, now)
	})
}

// alone applies an operation of which the shared store does not know.
func (m *Memory) alone(key Key, op *Op) (r Reply) {
	m.within(key, func(l *levels, now int64) {
		r = l.apply(op, now)
		if r.Change.To == Open {
			l.m.mark(foundAlone)
		}
		if r.ParentChange.To == Open {
			l.p.mark(foundAlone)
		}
	})
	return r
}

// mark marks the last transition.
func (r *Record) mark(by string) {
	h := &r.History[0]
	h.Reason = by + strings.TrimPrefix(strings.TrimPrefix(h.Reason, elsewhere), foundAlone)
}

// adopt opens what the shared store says is open.
func (m *Memory) adopt(key Key, open *OpenError) {
	m.within(key, func(l *levels, now int64) {
		r, s := l.m, &l.s.Model
		if open.Scope == ScopeParent {
			r, s = l.p, &l.s.Parent
		}
		r.begin(now)
		if r.closed() {
			r.open(s.Cooldown.Milliseconds(), open.Reason, now)
		}
		if r.State == Open {
			r.mark(elsewhere) // also what was found alone: the others know
			r.Until = min(now+max(open.RetryAfter-s.ProbeLease, 0).Milliseconds(), now+s.MaxCooldown.Milliseconds())
		}
		if open.Scope == ScopeParent {
			r.wantModel(key.Model, now, s)
		} else {
			r.want(now, s)
		}
	})
}

// follow closes what the shared store says is closed, and returns the epochs for
// the ticket. What the memory found open when it had to decide alone, and the
// shared store was never seen to know, keeps its cooldown: then follow rejects.
func (m *Memory) follow(key Key) (sh shadow, open *OpenError) {
	m.within(key, func(l *levels, now int64) {
		if l.m.ownFinding(now) || l.p.ownFinding(now) {
			open = l.reject(now, false).rejection(key)
			return
		}
		for _, r := range []*Record{l.m, l.p} {
			r.begin(now)
			if !r.closed() {
				r.close(elsewhere+"closed", now)
			}
		}
		sh = shadow{model: l.m.Epoch, parent: l.p.Epoch}
	})
	return sh, open
}

// ownFinding says whether the record opened while the memory decided alone, and
// its cooldown still lasts.
func (r *Record) ownFinding(now int64) bool {
	return r.State == Open && r.Until > now && strings.HasPrefix(r.History[0].Reason, foundAlone)
}
