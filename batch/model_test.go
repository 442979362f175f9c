package batch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"nightshift/provider"
)

// The model of a line's life, written for clearness: where the scripts count
// amounts, it keeps sets of calls, each with a name of its own, and adds them
// up when it is asked.

// modelCall is one paid call; its name is unique.
type modelCall struct {
	name string
	cost provider.USD
}

type modelLine struct {
	number    int64
	class     int
	gen       int
	released  bool
	outcome   Outcome // "" while it has no record
	code      string
	failedAs  string // what a retry finds it by
	winner    string // token of the attempt that wrote the record
	since     time.Time
	waits     bool
	holder    string
	expires   time.Time // zero: given back, or never begun
	stored    []modelCall
	deferrals int
	past      int // deferrals of earlier generations
	crashes   int
	booked    map[string]provider.USD // every call the batch ever heard of
	shown     map[string]bool         // those that a record shows
	record    []modelCall             // the calls of the record it has
	attempts  map[string]*modelAttempt
	known     []string // tokens of the attempts that are remembered, by their begins
}

// modelAttempt is what the batch knows of a token.
type modelAttempt struct {
	gen    int
	ended  bool // it has given the line back, or was told that it is another's
	shared int  // calls of it that were written to the line's progress
}

type modelBatch struct {
	total     int64
	deadline  time.Time
	cancelled bool
	epoch     int64
	lines     []*modelLine
	log       []int64 // of the records that there are
	logged    int64   // ends, also of records that were taken back
	degraded  int64
	cached    int64
	by        map[string]int64 // answered lines by model
	lease     time.Duration
}

func (m *modelBatch) line(n int64) *modelLine {
	i := slices.IndexFunc(m.lines, func(l *modelLine) bool { return l.number == n })
	if i < 0 {
		return nil
	}
	return m.lines[i]
}

// live returns whether an attempt holds the line now.
func (l *modelLine) live(now time.Time) bool { return l.expires.After(now) }

func (l *modelLine) current(ref Ref) bool {
	return l != nil && l.released && l.outcome == "" && l.gen == ref.Generation
}

func (m *modelBatch) end(l *modelLine, o Outcome, code, winner string, calls []modelCall) {
	l.outcome, l.code, l.failedAs, l.winner, l.record = o, code, code, winner, calls
	for _, c := range calls {
		l.shown[c.name] = true
	}
	l.waits, l.holder, l.expires, l.stored = false, "", time.Time{}, nil
	m.log = append(m.log, l.number)
	m.logged++
}

func (m *modelBatch) release(epoch int64, n int, room map[int]int, now time.Time) ([]int64, error) {
	if epoch < m.epoch {
		return nil, ErrFenced
	}
	m.epoch = epoch
	var out []int64
	if m.cancelled {
		return out, nil
	}
	taken := map[int]int{}
	retriedFirst := slices.Clone(m.lines)
	slices.SortStableFunc(retriedFirst, func(a, b *modelLine) int { return min(b.gen, 1) - min(a.gen, 1) })
	for _, l := range retriedFirst {
		r, bounded := room[l.class]
		if l.released || l.outcome != "" || len(out) == n || bounded && taken[l.class] >= r {
			continue
		}
		taken[l.class]++
		l.released, l.since = true, now
		out = append(out, l.number)
	}
	return out, nil
}

func (m *modelBatch) begin(ref Ref, token string, now time.Time) (v Verdict, held time.Duration, base []modelCall, crashes int) {
	l := m.line(ref.Line)
	if !l.current(ref) {
		return Over, 0, nil, 0
	}
	mine := l.holder == token && !l.expires.IsZero()
	switch {
	case l.holder != token && l.live(now):
		return Held, l.expires.Sub(now), nil, 0
	case l.remembered(token) != nil && !mine:
		return Over, 0, nil, 0
	case !mine && !l.expires.IsZero():
		l.crashes++
	}
	switch {
	case m.cancelled:
		m.end(l, Cancelled, CodeCancelled, "-", l.stored)
		return BatchCancelled, 0, nil, 0
	case !m.deadline.IsZero() && !m.deadline.After(now):
		m.end(l, Expired, CodeExpired, "-", l.stored)
		return DeadlinePassed, 0, nil, 0
	case l.crashes >= 5:
		m.end(l, Failed, CodeLost, "-", l.stored)
		return Lost, 0, nil, 0
	}
	if l.remembered(token) == nil {
		l.attempts[token] = &modelAttempt{gen: l.gen, shared: len(l.stored)}
		l.known = append(l.known, token)
		l.forget()
	}
	l.holder, l.expires, l.waits = token, now.Add(m.lease), false
	return Granted, 0, l.stored, l.crashes
}

// remembered returns the attempt unless it was forgotten or never was.
func (l *modelLine) remembered(token string) *modelAttempt {
	if !slices.Contains(l.known, token) {
		return nil
	}
	return l.attempts[token]
}

// forget keeps the last eight attempts, and four of them that have ended.
func (l *modelLine) forget() {
	ended := 0
	for i := len(l.known) - 1; i >= 0; i-- {
		if !l.attempts[l.known[i]].ended {
			continue
		}
		if ended++; ended > 4 {
			l.known = slices.Delete(l.known, i, i+1)
		}
	}
	l.known = l.known[max(0, len(l.known)-8):]
}

// hear books the calls of a known attempt, each once.
func (l *modelLine) hear(ref Ref, token string, calls []modelCall) *modelAttempt {
	if l == nil {
		return nil
	}
	a := l.remembered(token)
	if a == nil || a.gen != ref.Generation {
		return nil
	}
	for _, c := range calls {
		l.booked[c.name] = c.cost
	}
	return a
}

// store writes the progress of the lease's holder, unless a later one overtook it.
func (l *modelLine) store(a *modelAttempt, calls []modelCall, deferrals int) {
	if len(calls) < a.shared {
		return
	}
	a.shared = len(calls)
	l.stored = calls
	l.deferrals = max(l.deferrals, deferrals)
}

func (m *modelBatch) checkpoint(ref Ref, token string, calls []modelCall, deferrals int, now time.Time) error {
	l := m.line(ref.Line)
	a := l.hear(ref, token, calls)
	if !l.current(ref) || l.holder != token || l.expires.IsZero() {
		return ErrFenced
	}
	l.store(a, calls, deferrals)
	l.expires = now.Add(m.lease)
	if m.cancelled {
		return ErrCancelled
	}
	return nil
}

func (m *modelBatch) suspend(ref Ref, token string, calls []modelCall, deferrals int, waits bool) error {
	l := m.line(ref.Line)
	mine := l.current(ref) && l.holder == token
	if mine && l.expires.IsZero() {
		return nil
	}
	a := l.hear(ref, token, calls)
	if a != nil {
		a.ended = true
		l.forget()
	}
	if !mine {
		return ErrFenced
	}
	l.store(a, calls, deferrals)
	l.expires = time.Time{}
	l.waits = waits
	return nil
}

func (m *modelBatch) finish(ref Ref, token string, calls []modelCall, deferrals int, o Outcome, failedAs string, n NightshiftInfo) error {
	l := m.line(ref.Line)
	held := l.current(ref) && l.holder == token && !l.expires.IsZero()
	if l != nil && l.outcome != "" && l.gen == ref.Generation && l.winner == token {
		return nil
	}
	a := l.hear(ref, token, calls)
	if !l.current(ref) || !held && o != Succeeded {
		if a != nil {
			a.ended = true
			l.forget()
		}
		return ErrFenced
	}
	l.deferrals = max(l.deferrals, deferrals)
	if n.Degraded {
		m.degraded++
	}
	if n.Cached {
		m.cached++
	}
	if o == Succeeded {
		m.by[n.Model]++
	}
	l.known = slices.DeleteFunc(l.known, func(t string) bool { return t == token })
	m.end(l, o, "", token, calls)
	l.failedAs = failedAs
	return nil
}

func (m *modelBatch) renew(ref Ref, token string, now time.Time) (lost bool) {
	l := m.line(ref.Line)
	if !l.current(ref) || l.holder != token || l.expires.IsZero() {
		return true
	}
	l.expires = now.Add(m.lease)
	return false
}

// endable returns how many lines End would end, or an error.
func (m *modelBatch) endable(epoch int64, o Outcome, now time.Time) ([]*modelLine, error) {
	if epoch < m.epoch {
		return nil, ErrFenced
	}
	m.epoch = epoch
	if o == Cancelled && !m.cancelled || o == Expired && (m.deadline.IsZero() || m.deadline.After(now)) || o == Failed && m.cancelled {
		return nil, nil
	}
	var dead []*modelLine
	for _, l := range m.lines {
		if l.outcome == "" && !l.live(now) && (o != Failed || !l.released) {
			dead = append(dead, l)
		}
	}
	return dead, nil
}

// texts ends the lines that the keeper has a text for, in file order.
func (m *modelBatch) texts(epoch int64, has func(line int64) bool, now time.Time) (ended int, err error) {
	var open []*modelLine
	for _, l := range m.lines {
		if l.outcome == "" && !l.live(now) && has(l.number) {
			open = append(open, l)
		}
	}
	if len(open) == 0 {
		return 0, nil // no script that could be fenced off is run
	}
	if epoch < m.epoch {
		return 0, ErrFenced
	}
	m.epoch = epoch
	if m.cancelled || !m.deadline.IsZero() && !m.deadline.After(now) {
		return 0, nil
	}
	for _, l := range open {
		m.degraded++
		m.by["nightshift/text"]++
		m.end(l, Succeeded, "", "-", l.stored)
	}
	return len(open), nil
}

// retry takes failed and expired lines back into the backlog.
func (m *modelBatch) retry(r Retry, now time.Time) (retried int64, err error) {
	deadline := m.deadline
	if !r.Deadline.IsZero() {
		deadline = r.Deadline
	}
	switch {
	case m.cancelled:
		return 0, ErrCancelled
	case !deadline.IsZero() && !deadline.After(now):
		return 0, ErrDeadline
	}
	for _, l := range m.lines {
		if l.outcome != Failed && l.outcome != Expired || len(r.Codes) > 0 && !slices.Contains(r.Codes, l.failedAs) {
			continue
		}
		retried++
		m.deadline = deadline
		m.log = slices.DeleteFunc(m.log, func(n int64) bool { return n == l.number })
		l.outcome, l.winner, l.code, l.crashes = "", "", "", 0
		l.past, l.deferrals = l.past+l.deferrals, 0
		l.gen++
		l.released = false
	}
	return retried, nil
}

// update changes the deadline.
func (m *modelBatch) update(deadline, now time.Time) error {
	switch {
	case m.cancelled:
		return ErrCancelled
	case len(m.log) == len(m.lines):
		return ErrDone
	case !deadline.After(now):
		return ErrDeadline
	}
	m.deadline = deadline
	return nil
}

// sums adds up what the batch's counters must say.
func (m *modelBatch) sums() (counts map[Outcome]int64, calls int64, cost, wasted provider.USD, deferrals int64) {
	counts = map[Outcome]int64{}
	for _, l := range m.lines {
		if l.outcome != "" {
			counts[l.outcome]++
		}
		progress := map[string]bool{}
		for _, c := range l.stored {
			progress[c.name] = true
		}
		for name, c := range l.booked {
			calls++
			cost += c
			if !l.shown[name] && !progress[name] {
				wasted += c
			}
		}
		deferrals += int64(l.past + l.deferrals)
	}
	return counts, calls, cost, wasted, deferrals
}

// same compares errors by what callers decide on.
func same(got, want error) error {
	for _, e := range []error{ErrFenced, ErrCancelled, ErrNotFound, ErrDone, ErrDeadline} {
		if errors.Is(got, e) != errors.Is(want, e) {
			return fmt.Errorf("error %v, want %v", got, want)
		}
	}
	if (got == nil) != (want == nil) {
		return fmt.Errorf("error %v, want %v", got, want)
	}
	return nil
}
