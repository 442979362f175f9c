package ladder

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
	"nightshift/provider"
)

// maxCooldown bounds a Retry-After where a model's breaker does not.
const maxCooldown = 5 * time.Minute

// call makes one call under a pass, puts it on record, and says what it means
// for the line. What the gate hears of it is for whoever comes next: the attempt
// before its next step, or the end of the attempt.
func (a *attempt) call(r *rung, p Pass) move {
	known := false
	defer func() {
		// A panic or Goexit in the adapter: nothing is known of the call, and
		// the ticket must not stay out. To the guard it counts as sent.
		if !known {
			a.left(p, Exit{Result: limit.Result{Kind: limit.Unclear}})
		}
	}()
	req, cut := a.request(r, p.Ticket)
	v := a.shape(r, &req)
	started := a.l.now()
	vouched := a.vouch(p)
	ans, err := invoke(a.ctx, r.caller, req)
	took := a.l.now().Sub(started)
	x := Exit{Vouched: vouched()}
	if isPanic(err) {
		a.l.log.ErrorContext(a.ctx, "adapter panicked", a.attrs(r, "error", err, "stack", stack(err))...)
	}
	e := classified(a.ctx, err)
	if cut && e != nil && e.Kind == provider.Timeout && !errors.Is(e, provider.ErrStalled) {
		e = canceled(e, "the line's time was up during the call")
	}
	var output json.RawMessage
	var f *fault
	if e == nil {
		if output, f = a.inspect(ans); f != nil {
			e = f.err(ans)
		}
	}
	a.record(r, p.Ticket, started, took, ans, e)
	if isPanic(err) {
		return a.fail(e)
	}
	known = true
	a.exit(r, p, x, took, ans, e)
	if e == nil || f != nil {
		a.formatAnswered(r, v)
	}
	switch {
	case e == nil:
		return a.answer(r, ans, output)
	case f != nil:
		return a.unfit(r, f, e)
	case a.formatRefused(r, v, e):
		return again
	case a.repairRefused(v, e):
		return a.ruleOut(a.fault.last, r.index)
	}
	return a.judge(r, e)
}

// request is the call as the adapter sends it. cut says that the line's
// deadline ends it before the model's own limit of the whole call: that limit
// then says nothing about the model, so it is no timeout. Silence still is.
func (a *attempt) request(r *rung, t breaker.Ticket) (req provider.Request, cut bool) {
	req = provider.Request{
		Endpoint: a.r.Endpoint, Model: r.model.Name, Body: a.r.Body, Set: r.Set, Drop: r.Drop,
		IdempotencyKey: a.idempotencyKey(r, variant{}),
		Timeout:        a.timeout(r),
		FirstToken:     silence(&r.model), Idle: cmp.Or(max(r.model.Idle, 0), fallbackSilence),
	}
	if t.Lease > 0 { // a probe that has not begun to answer by then is lost
		req.FirstToken = min(req.FirstToken, t.Lease-leaseMargin(t))
	}
	if end := a.callsEnd(r); !end.IsZero() {
		if left := end.Sub(a.l.now()); left < req.Timeout {
			req.Timeout, cut = max(left, time.Millisecond), true
		}
	}
	return req, cut
}

// timeout is how long a call to the rung's model may take in all.
func (a *attempt) timeout(r *rung) time.Duration {
	return cmp.Or(max(r.model.Timeout, 0), fallbackTimeout)
}

// The limits of a model that has none: the default timeout, and the longest of
// the tiers' silences. The configuration fills every model's in.
const (
	fallbackTimeout = 10 * time.Minute
	fallbackSilence = 30 * time.Second
)

// silence is how long a model may take to its first token, and in all for a
// call that is not streamed, such as a probe.
func silence(m *config.Model) time.Duration { return cmp.Or(max(m.FirstToken, 0), fallbackSilence) }

// idempotencyKey names a call so that a redelivery after a crash repeats it: by
// the line and how many calls of it to this model are on record. A call that we
// broke off has no known outcome and is repeated likewise. A variant of the
// request has a key of its own, and so has what a rung sets or drops, since a
// key stands for one body.
func (a *attempt) idempotencyKey(r *rung, v variant) string {
	n := 0
	for _, c := range a.out.Progress.Calls {
		if c.Model == r.key.Model && c.Kind != provider.Canceled {
			n++
		}
	}
	name := strconv.AppendQuote(make([]byte, 0, 128), a.r.Batch) // as %q and %d, which cost a tenth of a call's bookkeeping
	name = strconv.AppendInt(append(name, ' '), a.r.Line, 10)
	name = strconv.AppendInt(append(name, ' '), int64(a.r.Generation), 10)
	name = strconv.AppendQuote(append(name, ' '), r.key.Model)
	name = strconv.AppendInt(append(name, ' '), int64(n), 10)
	if v != (variant{}) {
		name = fmt.Appendf(name, " %+v", v)
	}
	if len(r.Set)+len(r.Drop) > 0 {
		name = fmt.Appendf(name, " %q %q", r.Set, r.Drop) // a map is printed in the order of its keys
	}
	sum := sha256.Sum256(name)
	return "nightshift-" + hex.EncodeToString(sum[:16])
}

func (a *attempt) record(r *rung, t breaker.Ticket, started time.Time, took time.Duration, ans provider.Answer, e *provider.Error) {
	c := newCall(r.key.Model, r.price, started, took, ans, e)
	a.calls++
	a.out.Progress.Calls = append(a.out.Progress.Calls, c)
	if a.l.log.Enabled(a.ctx, slog.LevelDebug) {
		a.l.log.DebugContext(a.ctx, "call", a.attrs(r, "kind", c.Kind, "latency", took, "detail", c.Detail)...)
	}
	event := CallEvent{
		Purpose: a.purpose(), Scope: t.Scope, Key: r.key, Call: c, Latency: took, FirstToken: ans.FirstToken, StatusCode: statusOf(ans, e),
		RetryAfter: retryAfterOf(e), Queue: a.r.Queue, Producer: a.r.Producer, Ladder: a.l.name, Batch: a.r.Batch, Line: a.r.Line, Generation: a.r.Generation, Rung: r.index,
	}
	a.l.observer.Called(event)
	if a.r.Called != nil {
		a.r.Called(event)
	}
}

// newCall is the record of a call.
func newCall(model string, p *config.Price, started time.Time, took time.Duration, ans provider.Answer, e *provider.Error) provider.Call {
	c := provider.Call{
		Model: model, Kind: provider.OK, StartedAt: started, LatencyMS: took.Milliseconds(),
		RequestID: ans.RequestID, Usage: ans.Usage,
	}
	if e != nil {
		c.Kind, c.RequestID, c.Usage, c.Detail = e.Kind, e.RequestID, e.Usage, e.Error()
	}
	c.Cost = costOf(p, c.Kind, c.Usage)
	return c
}

func retryAfterOf(e *provider.Error) time.Duration {
	if e == nil {
		return 0
	}
	return e.RetryAfter
}

func statusOf(ans provider.Answer, e *provider.Error) int {
	if e != nil {
		return e.StatusCode
	}
	return ans.StatusCode
}

// exit notes what the gate is to hear of the last call.
func (a *attempt) exit(r *rung, p Pass, x Exit, took time.Duration, ans provider.Answer, e *provider.Error) {
	rep := evidence(e, took)
	switch {
	case a.guard == nil: // nobody looked
	case e == nil:
		rep.Output = breaker.ValidOutput
	case e.Kind == provider.InvalidOutput:
		rep.Output = breaker.InvalidOutput
	}
	if !x.Vouched {
		a.l.router.observe(p.Key, rep)
		x.Report = &rep
	}
	x.Result = result(r.lane, took, ans, e)
	x.USD = a.out.Progress.Calls[len(a.out.Progress.Calls)-1].Cost
	a.leaving = a.newLeaving(p, x)
}

func (a *attempt) answer(r *rung, ans provider.Answer, output json.RawMessage) move {
	a.out.End = Answered
	a.out.Waits = nil
	a.out.Answer = Answer{
		Response: Response{StatusCode: ans.StatusCode, RequestID: ans.RequestID, Body: ans.Body},
		Provider: r.model.Provider, Model: r.key.Model, Tier: r.model.Tier,
		Rung: r.index, Degraded: r.index != a.first, Truncated: a.truncated, Usage: ans.Usage, Output: output,
	}
	return end
}
