package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

// persistLimit is how long a suspend or finish is retried: a paid answer does
// not die with the queue's lease or a restart of Redis.
const persistLimit = 2 * time.Minute

// apply turns the end of an attempt into the life of the line and the answer to
// the queue. Every end of a line is a record and nil.
func (h *handler) apply(r run, out ladder.Outcome) error {
	now := h.now()
	switch out.End {
	case ladder.Answered:
		return h.finish(r, out, batch.Succeeded)
	case ladder.Final:
		return h.finish(r, out, batch.Failed)
	case ladder.Failed:
		return h.fail(r, out, now)
	case ladder.Deferred:
		return h.postpone(r, out, now)
	default:
		return h.interrupted(r, out, now)
	}
}

// fail spends one of the queue's retries, or ends the line when none is left.
func (h *handler) fail(r run, out ladder.Outcome, now time.Time) error {
	out.Progress.Failures++
	if out.Progress.Failures > h.queue.Retries {
		if !out.LastResort.IsZero() {
			return h.awaitLastResort(r, out)
		}
		out.Message = fmt.Sprintf("%s (%s)", out.Message, out.Code)
		out.Code = batch.CodeRetriesExhausted
		return h.finish(r, out, batch.Failed)
	}
	until := ladder.Backoff(out.Progress.Failures, now, out.NotBefore, h.random())
	until = ceilSecond(notPast(until, latest(r.begun, out)))
	f := &Failure{out.Progress.Failures, h.queue.Retries, out.Message, until}
	return h.suspend(r, out, batch.Wait{Reason: "retry", Until: until}, f)
}

// awaitLastResort keeps a line whose retries are spent for the at_deadline rung
// that is still to come: its author asked for that in place of no answer.
func (h *handler) awaitLastResort(r run, out ladder.Outcome) error {
	out.Progress.Deferrals++
	w := batch.Wait{Reason: ladder.ReasonRung, Until: out.LastResort}
	h.postponed(r, w)
	return h.suspend(r, out, w, &Deferral{w.Model, w.Reason, w.Until})
}

// latest is the latest time at which a line goes back to work: where an
// at_deadline rung is to come, when that opens, else the deadline.
func latest(b batch.Begun, out ladder.Outcome) time.Time {
	if !out.LastResort.IsZero() {
		return out.LastResort
	}
	return b.Description.Deadline
}

// postpone sends the line to wait for the earliest change; nothing is spent.
func (h *handler) postpone(r run, out ladder.Outcome, now time.Time) error {
	out.Progress.Deferrals++
	waiters, rate := h.pace.crowd(now)
	until := ladder.DeferUntil(ladder.Deferring{
		Waits: out.Waits, Now: now, Deadline: latest(r.begun, out),
		MaxCooldown: h.queue.MaxCooldown, Spread: ladder.Spread(waiters, rate), Random: h.random(),
	})
	w := ladder.Cause(out.Waits)
	h.pace.postpone(until, now)
	wait := batch.Wait{
		Model: w.Model, Reason: w.Reason, Until: until, Open: openModels(out.Waits), NoProbe: r.begun.Line.NoProbe,
		Deferral: out.Progress.Deferrals,
		Guard:    slices.ContainsFunc(out.Waits, func(w ladder.Wait) bool { return w.Reason == ladder.ReasonGuard }),
	}
	h.postponed(r, wait)
	return h.suspend(r, out, wait, &Deferral{wait.Model, wait.Reason, until})
}

// postponed tells of a deferral.
func (h *handler) postponed(r run, w batch.Wait) {
	h.obs.Deferred(h.queue.Name, w.Reason)
	if h.sink == nil {
		return
	}
	h.sink.Postponed(ladder.DeferralEvent{
		At: h.now(), Until: w.Until, Reason: w.Reason, Model: w.Model, Queue: h.queue.Name, Producer: r.begun.Description.Producer,
		Batch: r.lease.Ref.Batch, Line: r.lease.Ref.Line, Generation: r.lease.Ref.Generation,
	})
}

// openModels are the models of which any that closes wakes the line.
func openModels(waits []ladder.Wait) string {
	var open []string
	for _, w := range waits {
		if w.Reason == ladder.ReasonBreaker && !slices.Contains(open, w.Model) {
			open = append(open, w.Model)
		}
	}
	return strings.Join(open, " ")
}

// interrupted ends an attempt that must not go on: the line is not ours any
// more, its batch was cancelled (its next begin ends it), or this worker stops
// and hands the line back. Nothing is spent, and it is no deferral.
func (h *handler) interrupted(r run, out ladder.Outcome, now time.Time) error {
	back := &Deferral{Reason: "worker_stopping", Until: ceilSecond(now)}
	if errors.Is(out.Err, batch.ErrCancelled) {
		back.Reason = "cancelling"
	}
	return h.suspend(r, out, batch.Wait{}, back)
}

func (h *handler) suspend(r run, out ladder.Outcome, w batch.Wait, back error) error {
	l, progress := r.lease, h.suspended(r, out, w)
	err := h.persist(func(ctx context.Context) error {
		return h.lines.Suspend(ctx, l, progress, w, out.Leaving.Ride)
	})
	switch {
	case errors.Is(err, batch.ErrFenced), errors.Is(err, batch.ErrNotFound):
		h.log.Warn("line is another's now", "batch", l.Ref.Batch, "line", l.Ref.Line)
		return nil
	case err != nil:
		h.log.Error("suspend failed; the line runs again when its lease ends",
			"batch", l.Ref.Batch, "line", l.Ref.Line, "error", err)
	}
	return back
}

func (h *handler) finish(r run, out ladder.Outcome, o batch.Outcome) error {
	l, res := r.lease, result(r.begun, out, h.now())
	h.finished(r, out, o)
	err := h.persist(func(ctx context.Context) error {
		return h.lines.Finish(ctx, l, toBatch(out.Progress), o, res, out.Leaving.Ride)
	})
	switch {
	case err == nil:
		h.obs.LinesEnded(h.queue.Name, o, 1)
		if a := out.Answer; o == batch.Succeeded {
			h.obs.Answered(h.queue.Name, By{a.Model, a.Degraded, a.Cached}, 1)
		}
		return nil
	case errors.Is(err, batch.ErrFenced), errors.Is(err, batch.ErrNotFound):
		h.log.Warn("another ended the line first", "batch", l.Ref.Batch, "line", l.Ref.Line)
		return nil
	}
	h.log.Error("finish failed; the line runs again when its lease ends",
		"batch", l.Ref.Batch, "line", l.Ref.Line, "error", err)
	return h.deferral(batch.Wait{Reason: ladder.ReasonStore}, h.now().Add(time.Second))
}

// persist retries a script on a context of its own until it answers, the limit
// is reached, or the answer is a decision.
func (h *handler) persist(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), persistLimit)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		once, done := context.WithTimeout(ctx, 10*time.Second)
		err := f(once)
		done()
		if err == nil || errors.Is(err, batch.ErrFenced) || errors.Is(err, batch.ErrNotFound) {
			return err
		}
		h.log.Warn("keep trying to write a line", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-h.giveUp:
			return err
		case <-time.After(wait):
		}
	}
}

// deferral is one that is not recorded on the line: it never began.
func (h *handler) deferral(w batch.Wait, until time.Time) error {
	h.obs.Deferred(h.queue.Name, w.Reason)
	return &Deferral{w.Model, w.Reason, ceilSecond(until)}
}

func notPast(t, deadline time.Time) time.Time {
	if !deadline.IsZero() && t.After(deadline) {
		return deadline
	}
	return t
}
