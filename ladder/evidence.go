package ladder

import (
	"context"
	"errors"
	"time"

	"nightshift/breaker"
	"nightshift/limit"
	"nightshift/provider"
)

// move is what an attempt does after a gate or a call.
type move int

const (
	proceed move = iota // through the gate
	again               // the same rung once more
	next                // the next rung
	end                 // attempt.out holds the outcome
)

// verdict is what the kind of a failed call means for the line.
type verdict int

const (
	repeatOrNext verdict = iota // passes: up to `tries` on this rung, then the next
	nextRung                    // will not pass now: the next rung
	limited                     // the model is parked; wait or the next rung
	refused                     // the request's own fault
	tooLong                     // for this model
	filtered                    // by a filter or a refusal
	unusable                    // the model's answer to this line is invalid
	stopped                     // we ended it
)

// meaning is what a kind says about the dependency and means for the line.
type meaning struct {
	evidence breaker.Outcome
	hard     bool // opens the breaker at once
	pace     limit.ResultKind
	verdict  verdict
}

// meanings is the one place that says what a failed call means, for the breaker,
// for the pace and for the line. Which level a hard condition opens is its error's scope.
var meanings = map[provider.Kind]meaning{
	provider.OK:              {evidence: breaker.Success, pace: limit.Passed},
	provider.Unavailable:     {evidence: breaker.Failure, pace: limit.Unclear, verdict: repeatOrNext},
	provider.Timeout:         {evidence: breaker.Failure, pace: limit.Unclear, verdict: repeatOrNext},
	provider.RateLimited:     {evidence: breaker.Limited, pace: limit.Limited, verdict: limited},
	provider.QuotaExhausted:  {evidence: breaker.Failure, pace: limit.Unclear, hard: true, verdict: nextRung},
	provider.Misconfigured:   {evidence: breaker.Failure, pace: limit.Unclear, hard: true, verdict: nextRung},
	provider.InvalidRequest:  {evidence: breaker.None, pace: limit.Passed, verdict: refused},
	provider.ContextExceeded: {evidence: breaker.None, pace: limit.Passed, verdict: tooLong},
	provider.ContentFiltered: {evidence: breaker.None, pace: limit.Passed, verdict: filtered},
	provider.InvalidOutput:   {evidence: breaker.None, pace: limit.Passed, verdict: unusable},
	provider.Canceled:        {evidence: breaker.None, pace: limit.Unclear, verdict: stopped},
}

// evidence is the report on a call that took so long: what it says about the
// dependency. A nil error is an answer.
func evidence(e *provider.Error, took time.Duration) breaker.Report {
	if e == nil {
		return breaker.Report{Outcome: breaker.Success, Latency: took}
	}
	m := meanings[e.Kind]
	r := breaker.Report{Outcome: m.evidence, Hard: m.hard, Reason: e.Error(), RetryAfter: e.RetryAfter, Latency: took}
	if m.hard && e.Scope == provider.ScopeParent {
		r.Scope = breaker.ScopeParent
	}
	return r
}

// result is what a call says about the model's limits.
func result(lane string, took time.Duration, ans provider.Answer, e *provider.Error) limit.Result {
	usage, told := ans.Usage, ans.RateLimit
	res := limit.Result{Kind: limit.Passed, Latency: took}
	if e != nil {
		usage, told = e.Usage, e.RateLimit
		res.Kind, res.RetryAfter = meanings[e.Kind].pace, e.RetryAfter
		if e.Tier {
			res.Lane = lane // other tiers of the model may have room
		}
	}
	res.Told = limit.Told{Requests: limit.Budget(told.Requests), Tokens: limit.Budget(told.Tokens)}
	res.Tokens = usage.InputTokens + usage.OutputTokens
	return res
}

// classified returns a call's error as a classified one, with the kind that it
// has for the line. What an adapter did not classify is unavailable.
func classified(ctx context.Context, err error) *provider.Error {
	if err == nil {
		return nil
	}
	e, is := errors.AsType[*provider.Error](err)
	if !is {
		e = &provider.Error{Kind: provider.Unavailable, Message: err.Error(), Err: err}
	}
	if ctx.Err() != nil && e.StatusCode == 0 {
		return canceled(e, context.Cause(ctx).Error())
	}
	return e
}

// canceled is e as a call that we ended, which says nothing about the provider.
func canceled(e *provider.Error, why string) *provider.Error {
	c := *e
	c.Kind, c.Message = provider.Canceled, why
	return &c
}

// unsupported says that the model does not take a parameter of the request,
// which another one may: adapters name the field in that case alone.
func unsupported(e *provider.Error) bool { return e.Parameter != "" }

const (
	// reportTimeout bounds a report on its own context: it outlives the
	// attempt's, but a store that hangs must not hold the slot.
	reportTimeout = 5 * time.Second
	// storeRetry is when an attempt that met an unreachable store tries again.
	storeRetry = 5 * time.Second
)
