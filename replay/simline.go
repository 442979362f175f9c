package replay

import (
	"context"
	"slices"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
	"nightshift/provider"
)

// simLine is a line that was released.
type simLine struct {
	batch    *simBatch
	number   int64
	in, out  int64
	calls    int // that it made, for their chances
	progress ladder.Progress
	wake     int // counts its waits, so that an event knows whether it still means this one
	open     []string
	isAsleep bool
	begun    bool // its first attempt

	before, after *simLine // among those that sleep
}

func (l *simLine) size() callSize { return callSize{l.in, l.out} }

// journal keeps nothing: nobody dies in a simulation.
type journal struct{}

// Checkpoint implements ladder.Journal.
func (journal) Checkpoint(context.Context, ladder.Progress) error { return nil }

// lineBody is the request of every line; its size is told apart.
var lineBody = []byte(`{"messages":[{"role":"user","content":"line"}]}`)

// request is the line as an attempt sees it.
func (q *simQueue) request(l *simLine) ladder.Request {
	b := l.batch
	out := l.out
	if out == 0 {
		out = ladder.UsualAnswer
	}
	r := ladder.Request{
		Batch: b.ID, Line: l.number, Producer: b.Producer, Queue: q.name, Endpoint: provider.ChatCompletions, Body: lineBody,
		Size: q.m.size(l.in, out), Deadline: b.deadline, Retries: q.retries, Progress: l.progress,
	}
	if !b.deadline.IsZero() {
		r.Margin = batch.Margin(int64(b.left), b.deadline.Sub(b.At))
	}
	return r
}

// apply is what the end of an attempt means for the line, as in package tasks.
func (q *simQueue) apply(l *simLine, out ladder.Outcome) {
	l.progress = out.Progress
	now := q.m.clock.now
	switch out.End {
	case ladder.Answered:
		l.batch.ended(l, lineAnswered, out.Answer)
	case ladder.Final:
		l.batch.ended(l, lineFailed, ladder.Answer{})
	case ladder.Failed:
		q.fail(l, out, now)
	case ladder.Deferred:
		q.postpone(l, out, now)
	default: // the machine ends
	}
}

func (q *simQueue) fail(l *simLine, out ladder.Outcome, now time.Time) {
	l.progress.Failures++
	if l.progress.Failures > q.retries {
		if out.LastResort.IsZero() {
			l.batch.ended(l, lineFailed, ladder.Answer{})
			return
		}
		q.m.tally.deferred(ladder.ReasonRung)
		q.sleep(l, out.LastResort, nil)
		return
	}
	q.m.tally.retries++
	until := ladder.Backoff(l.progress.Failures, now, out.NotBefore, q.m.rand.Float64())
	if last := q.latest(l, out); !last.IsZero() && until.After(last) {
		until = last
	}
	q.sleep(l, until, nil)
}

func (q *simQueue) latest(l *simLine, out ladder.Outcome) time.Time {
	if !out.LastResort.IsZero() {
		return out.LastResort
	}
	return l.batch.deadline
}

func (q *simQueue) postpone(l *simLine, out ladder.Outcome, now time.Time) {
	l.progress.Deferrals++
	waiters := (q.asleep.n + q.workers - 1) / q.workers
	rate := max(q.begun.rate(now), float64(q.slots)/10) / float64(q.workers)
	until := ladder.DeferUntil(ladder.Deferring{
		Waits: out.Waits, Now: now, Deadline: q.latest(l, out), MaxCooldown: q.maxCooldown,
		Spread: ladder.Spread(waiters, rate), Random: q.m.rand.Float64(),
	})
	q.m.tally.deferred(ladder.Cause(out.Waits).Reason)
	var open []string
	for _, w := range out.Waits {
		if w.Reason == ladder.ReasonBreaker && !slices.Contains(open, w.Model) {
			open = append(open, w.Model)
		}
	}
	q.sleep(l, until, open)
}

// sleep has a line wait until a time, or until one of its breakers closes.
func (q *simQueue) sleep(l *simLine, until time.Time, open []string) {
	l.open, l.isAsleep = open, true
	l.batch.slept()
	q.asleep.push(l)
	wake := l.wake
	// Each process looks once a second at what is due; the first of them finds it.
	look := forward / time.Duration(2*q.workers)
	q.m.clock.at(until.Add(look), func() {
		if l.wake != wake || !l.isAsleep {
			return
		}
		q.awake(l)
		q.dispatch()
	})
}

// ended is a line's end.
func (b *simBatch) ended(l *simLine, how lineEnd, a ladder.Answer) {
	b.left--
	b.out--
	b.producer.out--
	b.queue.m.left--
	b.queue.m.tally.ended(l, how, a, b.queue.m.clock.now)
}
