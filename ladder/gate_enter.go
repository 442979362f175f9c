package ladder

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"nightshift/breaker"
	"nightshift/limit"
	"nightshift/provider"
)

// turn is an attempt's way through the gate on one rung.
type turn struct {
	ticket  string    // of the call that is asked for; "": none is
	since   time.Time // when it got its place; zero: it has none
	waits   int       // times that a place was waited for
	limited int       // calls that met a rate limit
}

// waiting says that the attempt has a place.
func (t *turn) waiting() bool { return !t.since.IsZero() }

// pass asks the gate for a call to the rung's model.
func (a *attempt) pass(r *rung) (Pass, move) {
	e := a.entry(r)
	p, err := a.l.gate.Enter(a.ctx, e)
	if a.r.NoProbe && err != nil {
		if _, open := errors.AsType[*breaker.OpenError](err); open {
			if p, m := a.standIn(r, e); m != next {
				return p, m
			}
		}
	}
	return a.entered(r, p, err)
}

// entered is what the gate's answer means for the line.
func (a *attempt) entered(r *rung, p Pass, err error) (Pass, move) {
	wait, waits := errors.AsType[*WaitError](err)
	if waits && wait.Slot.Verdict == limit.Wait {
		return p, a.await(wait.Slot)
	}
	a.turn.ticket, a.turn.since = "", time.Time{} // the next call is another
	switch {
	case err == nil:
		a.hadLone = a.hadLone || p.lone
		return p, proceed
	case waits:
		return p, a.refuse(r, wait.Slot)
	}
	if open, is := errors.AsType[*breaker.OpenError](err); is {
		return p, a.shut(r, open)
	}
	if over, is := errors.AsType[*limit.OverError](err); is {
		return p, a.over(r, over)
	}
	return p, a.storeFailed(fmt.Errorf("ask for a call to %s: %w", r.key.Model, err))
}

// entry is the question for the rung's next call; while it waits, the same again.
func (a *attempt) entry(r *rung) Entry {
	if a.turn.ticket == "" {
		a.turn.ticket = rand.Text()
	}
	input, output := a.size().estimate(&r.Rung, &r.model)
	return Entry{
		Key: r.key, NoProbe: a.r.NoProbe, Waiting: a.turn.waiting(),
		Ask: limit.Ask{
			Model: modelOf(r.key), Lane: r.lane, Ticket: a.turn.ticket, Tokens: input + output,
			Patience: a.placePatience(r), Lease: a.timeout(r) + leaseSlack, Alone: !a.hadLone,
		},
		Charge: limit.Charge{
			Producer: a.r.Producer, Batch: a.r.Batch, Line: a.r.Batch + ":" + strconv.FormatInt(a.r.Line, 10), Ticket: a.turn.ticket,
			USD:    int64(cost(r.price, provider.Usage{InputTokens: input, OutputTokens: output})),
			Always: a.l.degrades && r.price.Free(),
		},
	}
}

// leaseSlack is how much longer than its limit a call may be taken to be in
// flight: what its end and its report take.
const leaseSlack = 30 * time.Second

// placePatience is the longest wait for which the rung is waited for in the
// attempt: what is left of inlineWait, of the line's patience and of its time.
func (a *attempt) placePatience(r *rung) time.Duration {
	now := a.l.now()
	left := inlineWait - time.Millisecond // a wait of just that length is a deferral
	switch {
	case a.turn.waiting():
		left -= now.Sub(a.turn.since)
	case a.turn.waits >= inlineWaits:
		left = 0
	}
	left = min(left, a.patienceEnd(now).Sub(now))
	if end := a.callsEnd(r); !end.IsZero() {
		left = min(left, end.Sub(now)-time.Millisecond)
	}
	return max(left, 1) // 0 would be the default
}

// patienceEnd is when the line's patience with rate limits ends.
func (a *attempt) patienceEnd(now time.Time) time.Time {
	if first := a.out.Progress.FirstLimited; !first.IsZero() {
		now = first
	}
	return now.Add(a.l.patience)
}

// await waits in the attempt for a turn that the line has a place for. That is
// no refusal, unless it waits behind a 429.
func (a *attempt) await(s limit.Slot) move {
	if s.Reason == limit.ReasonParked {
		a.firstLimited()
	}
	if !a.turn.waiting() {
		a.turn.since = a.l.now()
		a.turn.waits++
	}
	return a.sleep(s.Wait)
}

func (a *attempt) firstLimited() {
	if a.out.Progress.FirstLimited.IsZero() {
		a.out.Progress.FirstLimited = a.l.now()
	}
}

// refuse is for a rate limit that is not waited for in the attempt: while the
// line's patience lasts it waits in the queue; then, and where something failed
// already so that a retry is at stake, the next rung is tried.
func (a *attempt) refuse(r *rung, s limit.Slot) move {
	a.firstLimited()
	now := a.l.now()
	ends := now.Add(s.Wait)
	a.wait(Wait{Model: r.key.Model, Reason: ReasonLimited, Until: ends})
	a.noteSkip(r, whyLimited(s.Reason, ends))
	latest := a.callsEnd(r)
	inTime := latest.IsZero() || ends.Before(latest)
	if inTime && !ends.After(a.patienceEnd(now)) && a.failed == nil {
		a.out.End = Deferred
		return end
	}
	return next
}

// whyLimited says what keeps a call from a model, and until when.
func whyLimited(why limit.Reason, until time.Time) string {
	text := "rate-limited until " + stamp(until)
	switch why {
	case limit.ReasonRequests, limit.ReasonTokens:
		return text + ": " + string(why) + " a minute"
	case limit.ReasonConcurrency:
		return text + ": calls in flight"
	case limit.ReasonShare:
		return text + ": other queues have work for this worker's slots"
	}
	return text
}

// takeShare keeps to the model's share of the worker's slots; the slot of an
// attempt counts for a model for as long as it is on its rung.
func (a *attempt) takeShare(r *rung) move {
	if a.l.share.Take(a.r.Queue, modelOf(r.key)) {
		return proceed
	}
	return a.refuse(r, limit.Slot{Verdict: limit.Refuse, Wait: limit.ShareWait, Reason: limit.ReasonShare})
}

// shut is for a rung whose breaker rejects the call.
func (a *attempt) shut(r *rung, open *breaker.OpenError) move {
	now := a.l.now()
	if a.out.Progress.FirstRefused.IsZero() {
		a.out.Progress.FirstRefused = now
	}
	w := Wait{Model: r.key.Model, Reason: ReasonBreaker}
	if open.RetryAfter > 0 {
		w.Until = now.Add(open.RetryAfter)
	}
	a.wait(w)
	a.l.observer.Avoided(r.key)
	return a.skip(r, whyOpen(open))
}

// over is for a line whose producer, or whose batch, has used up what it may
// call. The line waits for its place, unless rungs that cost nothing go on.
func (a *attempt) over(r *rung, over *limit.OverError) move {
	if over.Scope == limit.GuardBudget && over.Wait == 0 {
		return a.final(CodeBudgetExhausted, over.Error(), nil)
	}
	until := a.l.now().Add(over.Wait)
	if over.Scope == limit.GuardBudget { // it gives no places: all would come back at once, and one go on
		until = until.Add(scale(over.Wait, a.l.rand()))
	}
	a.wait(Wait{Reason: ReasonGuard, Until: until})
	a.noteSkip(r, over.Error())
	if a.l.degrades && over.Scope != limit.GuardBudget {
		return next
	}
	a.out.End = Deferred
	return end
}

// giveUp gives back the place of a call that is not waited for any longer.
func (a *attempt) giveUp(r *rung) {
	if a.turn.waiting() {
		a.giveUpEntry(r, a.entry(r))
		a.turn.ticket, a.turn.since = "", time.Time{}
	}
}

func (a *attempt) giveUpEntry(r *rung, e Entry) {
	ctx, cancel := a.outliving()
	defer cancel()
	if err := a.l.gate.GiveUp(ctx, e); err != nil {
		a.l.log.WarnContext(ctx, "place at a model's limit is not given back; it ends by itself", a.attrs(r, "error", err)...)
	}
}

// outliving is a context for what must be told though the attempt's has ended; a
// store that hangs must not hold the slot.
func (a *attempt) outliving() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(a.ctx), reportTimeout)
}

// leave tells the gate now what became of the last call, if nobody has, and
// returns for how long that parked its model.
func (a *attempt) leave() (parked time.Duration, err error) {
	l := a.leaving
	if l == nil {
		return 0, nil
	}
	a.leaving = nil
	ctx, cancel := a.outliving()
	defer cancel()
	if parked, err = l.gate.Leave(ctx, l.pass, l.exit); err != nil {
		l.warn(err)
	}
	return parked, err
}

// unsent gives a pass back whose call is not made. A ticket that is a probe's
// can have a report all the same.
func (a *attempt) unsent(p Pass, report *breaker.Report) {
	a.left(p, Exit{Unsent: true, Report: report})
}

// left tells the gate at once of a pass.
func (a *attempt) left(p Pass, x Exit) {
	a.leaving = a.newLeaving(p, x)
	_, _ = a.leave() // it warns
}

func (a *attempt) newLeaving(p Pass, x Exit) *Leaving {
	log, model := a.l.log, p.Key.Model // not all of the pass, nor the attempt
	return &Leaving{gate: a.l.gate, pass: p, exit: x, warn: func(err error) {
		log.Warn("what became of a call is not told to its breaker, pace or guard", "model", model, "error", err)
	}}
}
