package breaker

import (
	"slices"
	"time"
)

// maxHistory is how many transitions a breaker remembers.
const maxHistory = 10

// Pair is the whole state of a model's breaker and of its parent's.
type Pair struct {
	Model, Parent Record
}

func (p Pair) clone() Pair { return Pair{Model: p.Model.clone(), Parent: p.Parent.clone()} }

// Record is the whole state of one breaker, of a model or of a parent. Times
// are milliseconds of the store's clock. The zero record is a closed breaker
// that was never used.
type Record struct {
	State State // "" counts as Closed
	// Epoch starts at the time of the first admission and grows with each
	// transition; 0 is a record that does not exist. Starting at the time, it
	// differs from every epoch of a record that was lost.
	Epoch int64
	Ring  []Result // oldest first, at most Window; frozen while not closed
	// Seen are the tickets counted last, oldest first: a repeat counts nothing.
	Seen []uint64
	// NotBefore is the latest time that failures asked us to wait for by a
	// Retry-After, in the ring or in this round of probes; 0: none.
	NotBefore int64

	Reason   string  // why it is not closed
	Until    int64   // no probe before; 0 when closed
	Cooldown int64   // the one that Until came from, ms; 0 when closed
	Leases   []Lease // of the probes under way, HalfOpen only
	// Good, Bad and Void count the probes of this round that succeeded, failed,
	// and said nothing; HalfOpen only.
	Good, Bad, Void int64
	// TaskNext says that a task has to probe, since the prober's call was
	// refused; never when closed.
	TaskNext bool
	// Wanted is until when waiting work wants this breaker probed; 0 when nobody
	// does, as always when closed.
	Wanted int64
	// Wants says the same of each model of a parent, in the order in which they
	// came, and Probed which of them was probed last.
	Wants  []Want
	Probed string

	Outputs Outputs // of a model; a parent has none

	Hold    Hold
	History []Change // newest first, at most 10
}

// spare is memory along which the ring and the seen tickets of one record move,
// so that a record in use needs no more, and few copies.
type spare struct {
	ring []Result
	seen []uint64
}

// Result is one counted outcome.
type Result struct {
	At     int64
	Failed bool
	Model  uint32 // in a parent's ring: which of its models, see modelTag
}

// Lease is the right of one prober.
type Lease struct {
	ID    uint64 // of the ticket
	Until int64
}

// Want says until when work waits for a model.
type Want struct {
	Model string
	Until int64
}

// Change is one transition as the record keeps it; From "" is none.
type Change struct {
	At       int64
	From, To State
	Reason   string
}

func (r *Record) closed() bool { return r.State != Open && r.State != HalfOpen }

// clone shares no memory with r.
func (r Record) clone() Record {
	r.Ring = slices.Clone(r.Ring)
	r.Seen = slices.Clone(r.Seen)
	r.Leases = slices.Clone(r.Leases)
	r.Wants = slices.Clone(r.Wants)
	r.History = slices.Clone(r.History)
	return r
}

// begin gives a record that does not exist its first epoch.
func (r *Record) begin(now int64) {
	if r.Epoch == 0 {
		r.State, r.Epoch = Closed, max(now, 1)
	}
}

// change moves the breaker to another state: a new epoch, a line of history.
func (r *Record) change(to State, reason string, now int64) Change {
	c := Change{At: now, From: r.State, To: to, Reason: reason}
	r.State = to
	r.Epoch++
	r.Seen = r.Seen[:0]
	r.NotBefore = 0
	r.Leases = r.Leases[:0]
	r.Good, r.Bad, r.Void = 0, 0, 0
	r.History = slices.Insert(r.History, 0, c)
	if len(r.History) > maxHistory {
		r.History = r.History[:maxHistory]
	}
	return c
}

// failures counts the ring's failures, and says whether they are of more than
// one model.
func (r *Record) failures() (n int, several bool) {
	var first uint32
	for _, res := range r.Ring {
		if !res.Failed {
			continue
		}
		if n == 0 {
			first = res.Model
		}
		several = several || res.Model != first
		n++
	}
	return n, several
}

// push adds a result to the ring, after what is stale has left it.
func (r *Record) push(res Result, s *Settings, sp *spare) {
	r.expire(res.At, s)
	r.Ring = slide(r.Ring, &sp.ring, res, s.Window)
}

// slide appends to a window of at most n, whose oldest leave it. It goes along a
// buffer of twice its size and, at the end, back to the front.
func slide[T any](window []T, buffer *[]T, x T, n int) []T {
	window = window[max(len(window)+1-n, 0):]
	if len(window) == cap(window) {
		if room := 2 * (len(window) + 1); cap(*buffer) < room {
			*buffer = make([]T, room)
		}
		window = (*buffer)[:copy(*buffer, window)]
	}
	return append(window, x)
}

// expire drops what is stale at now. A result from the future, left by a clock
// that stepped back, is taken as from now.
func (r *Record) expire(now int64, s *Settings) {
	for i := len(r.Ring) - 1; i >= 0 && r.Ring[i].At > now; i-- {
		r.Ring[i].At = now
	}
	r.Ring = r.Ring[max(len(r.Ring)-s.Window, 0):]
	if len(r.Ring) == 0 || r.Ring[0].At >= now-s.leastStale() { // the usual case
		return
	}
	oldest := now - s.staleAfter(r.Ring)
	for len(r.Ring) > 0 && r.Ring[0].At < oldest {
		r.Ring = r.Ring[1:]
	}
}

// leastStale is an age in ms up to which results count, whatever their pace.
func (s *Settings) leastStale() int64 {
	if s.Stale != 0 {
		return s.Stale.Milliseconds()
	}
	return autoStale.Milliseconds()
}

// staleAfter is the age in ms beyond which results of this ring do not count.
//
// Automatic: while the window is not full, calls are rarer than it needs, and
// the last hour counts. A full one tells the pace of calls; what counts is the
// time that a window of them takes at that pace, between 5 minutes and an hour.
// So a burst before a pause is forgotten after 5 minutes, and one call a minute
// still fills a window of 20.
func (s *Settings) staleAfter(ring []Result) int64 {
	if s.Stale != 0 {
		return s.Stale.Milliseconds()
	}
	n := int64(len(ring))
	if n < int64(s.Window) {
		return autoStaleMax.Milliseconds()
	}
	if n < 2 {
		return autoStale.Milliseconds()
	}
	span := min(ring[n-1].At-ring[0].At, autoStaleMax.Milliseconds())
	return min(max(span*n/(n-1), autoStale.Milliseconds()), autoStaleMax.Milliseconds())
}

func (r *Record) saw(id uint64) bool { return slices.Contains(r.Seen, id) }

func (r *Record) remember(id uint64, s *Settings, sp *spare) {
	r.Seen = slide(r.Seen, &sp.seen, id, s.remembered())
}

// status is the record as people see it at now.
func (r Record) status(key Key, now int64, s Settings) Status {
	r = r.clone()
	r.settle(now, &s)
	st := Status{Key: key, Scope: key.Scope(), State: Closed, Cooldown: s.Cooldown, Window: s.Window, Held: r.Hold.held()}
	if r.closed() {
		r.expire(now, &s)
	} else {
		st.State, st.Reason, st.Probing = r.State, r.Reason, len(r.Leases)
		st.Wanted, st.TaskProbes = r.Wanted > 0, r.taskProbes(&s)
		if until := max(r.lastLease(), r.Until); until != never {
			st.Until = time.UnixMilli(until)
		}
		st.Cooldown = millis(r.doubled(&s))
		st.TaskDue = st.TaskProbes && r.dueAt(&s) <= now
	}
	st.Failures, _ = r.failures()
	st.Results = len(r.Ring)
	for _, res := range r.Ring {
		st.Ring = append(st.Ring, res.Failed)
	}
	st.Judged, st.Invalid = r.Outputs.Judged, r.Outputs.Invalid()
	for _, c := range r.History {
		st.Transitions = append(st.Transitions, c.transition(key))
	}
	return st
}

func (c Change) transition(key Key) Transition {
	return Transition{Key: key, Scope: key.Scope(), From: c.From, To: c.To, Reason: c.Reason, At: time.UnixMilli(c.At)}
}

// modelTag stands for a model in its parent's ring: FNV-1a, so that a result
// takes a few bytes whatever the name. Two models of a provider that share a
// tag (one pair in four thousand million) would count as one.
func modelTag(model string) uint32 {
	h := uint32(2166136261)
	for i := range len(model) {
		h = (h ^ uint32(model[i])) * 16777619
	}
	return h
}
