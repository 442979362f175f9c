package ladder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// maxCooldown bounds a Retry-After where a model's breaker does not.
const maxCooldown = 5 * time.Minute

// call makes one call under a ticket, puts it on record, reports it, and says
// what it means for the line.
func (a *attempt) call(r *rung, t breaker.Ticket) move {
	sent := false
	defer func() {
		// A panic or Goexit in the adapter: nothing is known of the call, and
		// the ticket must not stay out.
		if !sent {
			a.release(t)
		}
	}()
	req, cut := a.request(r, t)
	started := a.l.now()
	ans, err := invoke(a.ctx, r.caller, req)
	took := a.l.now().Sub(started)
	if isPanic(err) {
		a.l.log.ErrorContext(a.ctx, "adapter panicked", a.attrs(r, "error", err, "stack", stack(err))...)
	}
	e := classified(a.ctx, err)
	if cut && e != nil && e.Kind == provider.Timeout {
		e = canceled(e, "the line's time was up during the call")
	}
	a.record(r, t, started, took, ans, e)
	if isPanic(err) {
		return a.fail(e)
	}
	sent = true
	a.report(t, e, took)
	if e == nil {
		return a.answer(r, ans)
	}
	return a.judge(r, e)
}

// request is the call as the adapter sends it. cut says that the line's
// deadline ends it before the model's own limit: silence until then says
// nothing about the model, so it is no timeout.
func (a *attempt) request(r *rung, t breaker.Ticket) (req provider.Request, cut bool) {
	limit := silence(r.model)
	if t.Lease > 0 { // the call is a probe, and worth nothing after its lease
		limit = min(limit, t.Lease)
	}
	if end := a.callsEnd(r); !end.IsZero() {
		if left := end.Sub(a.l.now()); left < limit {
			limit, cut = max(left, time.Millisecond), true
		}
	}
	return provider.Request{
		Endpoint: a.r.Endpoint, Model: r.model.Name, Body: a.r.Body, Set: r.Set, Drop: r.Drop,
		IdempotencyKey: a.idempotencyKey(r), Timeout: limit,
	}, cut
}

// fallbackSilence is the limit of a model that has none, the longest of the
// tiers'; the configuration fills every model's in.
const fallbackSilence = 30 * time.Second

// silence is how long a whole call may take while none is streamed: as long as
// the model may be silent.
func silence(m config.Model) time.Duration {
	if m.FirstToken <= 0 {
		return fallbackSilence
	}
	return m.FirstToken
}

// idempotencyKey names a call so that a redelivery after a crash repeats it: by
// the line and how many calls of it to this model are on record. A call that we
// broke off has no known outcome and is repeated likewise.
func (a *attempt) idempotencyKey(r *rung) string {
	n := 0
	for _, c := range a.out.Progress.Calls {
		if c.Model == r.key.Model && c.Kind != provider.Canceled {
			n++
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %q %d", a.r.Batch, a.r.Line, a.r.Generation, r.key.Model, n))
	return "nightshift-" + hex.EncodeToString(sum[:16])
}

func (a *attempt) record(r *rung, t breaker.Ticket, started time.Time, took time.Duration, ans provider.Answer, e *provider.Error) {
	c := newCall(r.key.Model, r.price, started, took, ans, e)
	a.calls++
	a.out.Progress.Calls = append(a.out.Progress.Calls, c)
	a.l.log.DebugContext(a.ctx, "call", a.attrs(r, "kind", c.Kind, "latency", took, "detail", c.Detail)...)
	a.l.observer.Called(CallEvent{
		Purpose: ForLine, Scope: t.Scope, Key: r.key, Call: c, Latency: took, StatusCode: statusOf(ans, e),
		Ladder: a.l.name, Batch: a.r.Batch, Line: a.r.Line, Generation: a.r.Generation, Rung: r.index,
	})
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

func statusOf(ans provider.Answer, e *provider.Error) int {
	if e != nil {
		return e.StatusCode
	}
	return ans.StatusCode
}

// report tells the breaker, on a context that outlives the attempt's. A report
// that is lost costs a breaker one outcome, or a probe its lease: never the line.
func (a *attempt) report(t breaker.Ticket, e *provider.Error, took time.Duration) {
	a.tell(t, evidence(e, took))
}

func (a *attempt) tell(t breaker.Ticket, rep breaker.Report) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), reportTimeout)
	defer cancel()
	if err := a.l.breakers.Report(ctx, t, rep); err != nil {
		a.l.log.WarnContext(ctx, "report to breaker failed", "model", t.Key.Model, "error", err)
	}
}

// release gives back a ticket whose call was not sent, or never came back.
func (a *attempt) release(t breaker.Ticket) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), reportTimeout)
	defer cancel()
	if err := a.l.breakers.Release(ctx, t); err != nil {
		a.l.log.WarnContext(ctx, "release of a breaker's ticket failed", "model", t.Key.Model, "error", err)
	}
}

func (a *attempt) answer(r *rung, ans provider.Answer) move {
	a.out.End = Answered
	a.out.Waits = nil
	a.out.Answer = Answer{
		Response: Response{StatusCode: ans.StatusCode, RequestID: ans.RequestID, Body: ans.Body},
		Provider: r.model.Provider, Model: r.key.Model, Tier: r.model.Tier,
		Rung: r.index, Degraded: r.index > 0, Usage: ans.Usage,
	}
	return end
}
