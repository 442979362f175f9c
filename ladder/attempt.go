package ladder

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nightshift/breaker"
	"nightshift/provider"
)

const (
	// inlineWait is the longest wait that is spent in the attempt, where its
	// slot is the backpressure; a longer one is a deferral (design section 5).
	inlineWait = 30 * time.Second
	// inlineWaits is how often one rung is waited for in one attempt. A model
	// that parks again and again for a moment would hold the slot all night.
	inlineWaits = 5
)

// attempt is one run over the rungs.
type attempt struct {
	l   *Ladder
	ctx context.Context
	r   Request
	j   Journal
	out Outcome // its Progress is kept up to date
	guarding

	first     int // the rung that is the line's first choice
	calls     int // of this attempt
	tries     int // on this rung that really failed
	turn      turn
	hadLone   bool     // it had its one call without the shared stores
	leaving   *Leaving // of the last call; nil: the gate knows
	exhausted bool
	failed    *provider.Error // the last real failure
	refusal   *provider.Error // the last reason why a rung was ruled out
	matcher
	digest string // of the request, in the cache; "": it is not looked up there

	measured    *size // of the request as it stands
	shortenings int
	truncated   int // messages that were left out
}

// Attempt runs one attempt of a line. ctx is the worker's own: it ends at a hard
// shutdown, or when the line is another's. Whatever happened, the outcome's
// progress holds every call that was made.
func (l *Ladder) Attempt(ctx context.Context, r Request, j Journal) Outcome {
	a := &attempt{l: l, ctx: ctx, r: r, j: j, matcher: matcher{endpoint: r.Endpoint, body: r.Body}}
	a.out.Progress = r.Progress
	a.out.Progress.Calls = slices.Clone(r.Progress.Calls)
	a.out.Progress.RuledOut = slices.Clone(r.Progress.RuledOut)
	a.out.Progress.Skipped = nil // those of the attempt before
	switch {
	case a.recall():
	case a.arm() != proceed:
	case a.climb():
		a.keep()
	default:
		a.unanswered()
	}
	if a.out.End == Deferred || a.out.End == Failed {
		a.out.LastResort = a.lastResort()
	}
	a.out.Leaving = a.leaving
	return a.out
}

// climb tries the rungs in the order for this line and says whether one of them
// ended the attempt.
func (a *attempt) climb() bool {
	for _, i := range a.order() {
		if m := a.admissible(i); m != proceed {
			continue
		}
		if a.onRung(&a.l.rungs[i]) == end {
			return true
		}
	}
	return false
}

// order is the rungs to try, best first.
func (a *attempt) order() (order []int) {
	order, a.first = a.l.route(a.r, a.l.now())
	return order
}

// start is the first rung.
func (a *attempt) start() int { return startOf(&a.r, len(a.l.rungs)) }

// startOf is the rung that a line starts at. One that the ladder has not,
// because it was changed since the line was submitted, is the first.
func startOf(r *Request, rungs int) int {
	if r.Rung < 0 || r.Rung >= rungs {
		return 0
	}
	return r.Rung
}

// onRung stays on a rung until it ends the attempt or the next one is due.
func (a *attempt) onRung(r *rung) move {
	a.tries, a.turn = 0, turn{}
	a.enter()
	if r.Model == "" {
		return a.giveText(r)
	}
	if m := a.takeShare(r); m != proceed {
		return m
	}
	defer a.l.share.Give(modelOf(r.key))
	defer a.giveUp(r)
	for {
		if m := a.tryModel(r); m != again {
			return m
		}
	}
}

// tryModel passes the gates and makes one call.
func (a *attempt) tryModel(r *rung) move {
	for _, may := range []func(*rung) move{a.mayGoOn, a.hasTime, a.hasCalls} {
		if m := may(r); m != proceed {
			return m
		}
	}
	_, _ = a.leave() // before the breaker and the pace are asked again; it warns
	pass, m := a.pass(r)
	if m != proceed {
		return m
	}
	if m := a.checkpoint(pass); m != proceed {
		return m
	}
	return a.call(r, pass)
}

// giveText answers with the rung's text. A text that this line cannot fill in
// is ruled out: it never will.
func (a *attempt) giveText(r *rung) move {
	if m := a.mayGoOn(r); m != proceed {
		return m
	}
	text, err := render(a.preset(r), a.r)
	if err == nil {
		a.out.Answer, err = textAnswer(r, a.r, text, a.l.now())
	}
	if err != nil {
		a.l.log.WarnContext(a.ctx, "text rung does not fit the line", a.attrs(r, "error", err)...)
		return a.ruleOut(&provider.Error{Kind: provider.InvalidOutput, Message: err.Error(), Err: err}, r.index)
	}
	a.out.End = Answered
	a.out.Waits = nil
	return end
}

// mayGoOn is the gate before every further step.
func (a *attempt) mayGoOn(*rung) move {
	if a.ctx.Err() != nil {
		return a.interrupt(context.Cause(a.ctx))
	}
	select {
	case <-a.r.Stop:
		return a.interrupt(ErrStopped)
	default:
	}
	if !a.r.Deadline.IsZero() && !a.l.now().Before(a.r.Deadline) {
		return a.expired()
	}
	return proceed
}

// hasCalls keeps model rungs within the line's calls. A text further down costs
// none, so the climb goes on.
func (a *attempt) hasCalls(r *rung) move {
	switch {
	case a.retriesSpent():
		a.exhausted = true
		return a.skip(r, "the line's retries are spent")
	case a.l.callsLeft(a.out.Progress.Calls, a.r.Retries)+a.extraCalls() <= 0:
		a.exhausted = true
		return a.skip(r, "the line has no calls left")
	}
	return proceed
}

// retriesSpent says that the line came for its at_deadline rung alone.
func (a *attempt) retriesSpent() bool { return a.out.Progress.Failures > max(a.r.Retries, 0) }

// callsLeft is how many calls a line still has. Where max_calls says nothing,
// its default is the arithmetic of full passes, and a rate limit or our own
// stop is not part of any: they spend nothing.
func (l *Ladder) callsLeft(calls []provider.Call, retries int) int {
	if l.maxCalls > 0 {
		return l.maxCalls - len(calls)
	}
	left := l.pass * (max(retries, 0) + 1)
	for _, c := range calls {
		if c.Kind != provider.RateLimited && c.Kind != provider.Canceled {
			left--
		}
	}
	return left
}

// sleep waits in the attempt; Stop ends it early, and the gates say how it goes on.
func (a *attempt) sleep(d time.Duration) move {
	err := a.sleepUnlessStopped(d)
	if err != nil && a.mayGoOn(nil) != end {
		return a.interrupt(fmt.Errorf("wait %s: %w", d, err))
	}
	return again
}

func (a *attempt) sleepUnlessStopped(d time.Duration) error {
	if a.r.Stop == nil {
		return a.l.sleeper.Sleep(a.ctx, d)
	}
	ctx, cancel := context.WithCancel(a.ctx)
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		select {
		case <-a.r.Stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := a.l.sleeper.Sleep(ctx, d)
	cancel()
	<-woken
	return err
}

// whyOpen says which breaker refuses, why, and until when.
func whyOpen(e *breaker.OpenError) string {
	why := "its breaker is open"
	if e.Scope == breaker.ScopeParent {
		why = "the breaker of its provider is open"
	}
	if !e.Until.IsZero() {
		why += " until " + stamp(e.Until)
	}
	if e.Reason != "" {
		why += ": " + e.Reason
	}
	return why
}

// checkpoint writes the calls so far before a further one.
func (a *attempt) checkpoint(p Pass) move {
	if a.calls == 0 {
		return proceed
	}
	if err := a.j.Checkpoint(a.ctx, a.out.Progress); err != nil {
		a.unsent(p, nil)
		return a.interrupt(err)
	}
	return proceed
}

func (a *attempt) wait(w Wait) { a.out.Waits = append(a.out.Waits, w) }

// ruleOut takes rungs out of this line's ladder for good.
func (a *attempt) ruleOut(why *provider.Error, rungs ...int) move {
	a.refusal = why
	ruled := append(a.out.Progress.RuledOut, rungs...)
	slices.Sort(ruled)
	a.out.Progress.RuledOut = slices.Compact(ruled)
	return next
}

func (a *attempt) attrs(r *rung, more ...any) []any {
	return append([]any{
		"ladder", a.l.name, "batch", a.r.Batch, "line", a.r.Line, "rung", r.index, "model", r.key.Model,
	}, more...)
}
