package ladder

import (
	"context"
	"encoding/json"
	"fmt"

	"nightshift/provider"
)

// unanswered is the end of an attempt that went over all rungs.
func (a *attempt) unanswered() {
	switch {
	case a.exhausted && !a.lastResort().IsZero():
		// The breakers and parks that the attempt met can no longer matter.
		a.out.End = Deferred
		a.out.Waits = []Wait{{Reason: ReasonRung, Until: a.lastResort()}}
	case a.exhausted:
		a.final(CodeCallsExhausted, fmt.Sprintf("no answer after %d calls", len(a.out.Progress.Calls)), nil)
	case a.failed != nil:
		a.out.End = Failed
		a.out.Code, a.out.Message = string(a.failed.Kind), a.failed.Error()
		a.out.Waits = nil
	case len(a.out.Waits) > 0:
		a.out.End = Deferred
	case a.refusal != nil:
		a.final(string(a.refusal.Kind), a.refusal.Error(), a.refusal)
	default:
		a.nothingLeft()
	}
}

// nothingLeft is the end of a line whose rungs were all ruled out by attempts
// before this one, as its last call says, or have not its endpoint.
func (a *attempt) nothingLeft() {
	kind, why := provider.InvalidRequest, "no rung of the ladder can answer this line"
	if n := len(a.out.Progress.Calls); n > 0 {
		kind = a.out.Progress.Calls[n-1].Kind
		why += ": " + a.out.Progress.Calls[n-1].Detail
	} else if n := len(a.out.Progress.Skipped); n > 0 {
		why += ": " + a.out.Progress.Skipped[n-1].Detail
	}
	a.final(string(kind), why, nil)
}

// final ends the line. e is the provider's word on it, where there is one.
func (a *attempt) final(code, message string, e *provider.Error) move {
	a.out.End = Final
	a.out.Code, a.out.Message = code, message
	a.out.Waits = nil
	if e != nil && e.StatusCode >= 400 && e.StatusCode < 500 {
		a.out.Response = &Response{StatusCode: e.StatusCode, RequestID: e.RequestID, Body: jsonBody(e.Body)}
	}
	return end
}

// jsonBody is a provider's body as it came, or, where that is no JSON (a proxy's
// page, a body cut at its limit), as a JSON string.
func jsonBody(b []byte) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	if json.Valid(b) {
		return b
	}
	s, err := json.Marshal(string(b))
	if err != nil { // a string always marshals
		return json.RawMessage("null")
	}
	return s
}

// interrupt ends an attempt that must not go on; nothing is spent.
func (a *attempt) interrupt(why error) move {
	a.out.End = Interrupted
	a.out.Err = why
	a.out.Waits = nil
	return end
}

// storeFailed ends an attempt that could not ask a store. It is no fault of the
// line or of a model, so nothing is spent.
func (a *attempt) storeFailed(err error) move {
	if a.ctx.Err() != nil {
		return a.interrupt(context.Cause(a.ctx))
	}
	a.l.log.WarnContext(a.ctx, "store unreachable, the line waits",
		"ladder", a.l.name, "batch", a.r.Batch, "line", a.r.Line, "error", err)
	a.out.End = Deferred
	a.out.Waits = []Wait{{Reason: ReasonStore, Until: a.l.now().Add(storeRetry)}}
	return end
}

// expired ends an attempt at the line's deadline. The line itself is ended, as
// expired, where lines begin, or by the keeper.
func (a *attempt) expired() move {
	a.out.End = Deferred
	a.out.Waits = []Wait{{Reason: ReasonDeadline, Until: a.r.Deadline}}
	return end
}
