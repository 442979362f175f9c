package tasks

import (
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

// result is the output line of a finished line.
func result(b batch.Begun, out ladder.Outcome, now time.Time) batch.Result {
	r := batch.Result{
		ID:       batch.NewResultID(),
		CustomID: b.Line.CustomID,
		Nightshift: batch.NightshiftInfo{
			Line: b.Line.Number, Attempts: toBatch(out.Progress).Attempts(), Deferrals: out.Progress.Deferrals,
			Usage: out.Progress.Usage(), CostUSD: out.Progress.Cost(), Metadata: b.Line.Metadata,
			Request: b.Line.Digest, Rehearsal: b.Description.Rehearsal, FinishedAt: now.UTC(),
		},
	}
	switch {
	case out.End == ladder.Answered:
		a := out.Answer
		r.Response = response(&a.Response)
		n := &r.Nightshift
		n.Provider, n.Model, n.Tier, n.Degraded = a.Provider, a.Model, a.Tier, a.Degraded
		n.Truncated, n.Cached, n.Output = a.Truncated, a.Cached, a.Output
	case out.Response != nil:
		r.Response = response(out.Response)
	default:
		r.Error = &batch.ResultError{Code: out.Code, Message: out.Message}
	}
	return r
}

func response(r *ladder.Response) *batch.Response {
	return &batch.Response{StatusCode: r.StatusCode, RequestID: r.RequestID, Body: r.Body}
}
