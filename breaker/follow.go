package breaker

import "strings"

// This file has what the memory of a Fallback does beside its own steps: it
// follows the shared store's decisions, so that it can go on from there.

// elsewhere marks in the history what the memory did not find by itself.
const elsewhere = "elsewhere: "

// within runs f under the lock of a model's family.
func (m *Memory) within(key Key, f func(l levels, now int64)) {
	given := Levels{Model: m.settings(key), Parent: m.settings(key.Parent())}
	c := m.cell(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := m.clock().UnixMilli()
	l := c.levels(&given)
	l.m.settle(now, &l.s.Model)
	l.p.settle(now, &l.s.Parent)
	f(l, now)
}

// adopt opens what the shared store says is open.
func (m *Memory) adopt(key Key, open *OpenError) {
	m.within(key, func(l levels, now int64) {
		r, s := l.m, &l.s.Model
		if open.Scope == ScopeParent {
			r, s = l.p, &l.s.Parent
		}
		r.begin(now)
		if r.closed() {
			r.open(s.Cooldown.Milliseconds(), open.Reason, now)
			r.History[0].Reason = elsewhere + open.Reason
		}
		if r.State == Open {
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
// the ticket. What the memory itself found open since that time, when it had to
// decide alone, keeps its cooldown: then follow rejects.
func (m *Memory) follow(key Key, since int64) (sh shadow, open *OpenError) {
	m.within(key, func(l levels, now int64) {
		if l.m.ownFinding(since, now) || l.p.ownFinding(since, now) {
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

// ownFinding says whether the record opened by itself after that time, and its
// cooldown still lasts.
func (r *Record) ownFinding(since, now int64) bool {
	return since != 0 && r.State == Open && r.Until > now && len(r.History) > 0 &&
		r.History[0].To == Open && r.History[0].At >= since && !strings.HasPrefix(r.History[0].Reason, elsewhere)
}
