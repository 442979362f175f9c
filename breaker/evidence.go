package breaker

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// evidence is a report as one level sees it.
type evidence struct {
	outcome Outcome
	hard    bool
	unfit   bool
	reason  string
	wait    int64         // the provider's Retry-After, ms
	tag     uint32        // the model, for a parent's ring; else 0
	output  OutputVerdict // for a model; else Unjudged
}

// evidence returns what the operation's report says to one level.
func (op *Op) evidence(scope Scope, s *Settings) evidence {
	rep := &op.Report
	if op.Kind == OpRelease {
		return evidence{reason: releasedReason}
	}
	e := evidence{outcome: rep.Outcome, hard: rep.Hard, reason: rep.Reason, wait: retryAfter(rep, s)}
	if scope == ScopeModel {
		e.output = rep.Output
	}
	hardScope := ScopeModel
	if rep.Scope == ScopeParent {
		hardScope = ScopeParent
	}
	switch {
	case rep.Hard && hardScope != scope: // the other level's affair
		e.outcome, e.hard, e.wait = None, false, 0
	case rep.Hard:
		e.outcome = Failure
	case rep.Outcome == Success && s.slow(rep):
		e.outcome = Failure
		e.reason = fmt.Sprintf("slow: took %s", rep.Latency.Round(time.Millisecond))
	case rep.Outcome == None:
		e.unfit = rep.Unfit
	}
	return e
}

// slow says whether a success took so long that it is a failure.
func (s *Settings) slow(rep *Report) bool { return s.SlowCall > 0 && rep.Latency > s.SlowCall }

// retryAfter is the provider's wish in ms, rounded up, clamped to the cap.
func retryAfter(rep *Report, s *Settings) int64 {
	d := min(max(rep.RetryAfter, 0), s.MaxCooldown)
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// releasedReason stands in the history for a probe that was never sent.
const releasedReason = "probe released"

// maxReason is how many bytes of a reason are kept.
const maxReason = 200

// cleaned returns the report with a verdict that exists, and a reason that is
// one short line of valid UTF-8, never empty.
func (r Report) cleaned() Report {
	if r.Output != ValidOutput && r.Output != InvalidOutput {
		r.Output = Unjudged
	}
	r.Reason = oneLine(r.Reason)
	if r.Reason != "" {
		return r
	}
	switch {
	case r.Hard:
		r.Reason = "hard failure"
	case r.Outcome == Success:
		r.Reason = "answered"
	case r.Outcome == Failure:
		r.Reason = "failed"
	case r.Outcome == Limited:
		r.Reason = "rate limited"
	default:
		r.Reason = "no evidence"
	}
	return r
}

// oneLine returns the text as one short line of valid UTF-8 without control
// characters, which could steer the terminal of who reads it.
func oneLine(s string) string {
	if isClean(s) {
		return s
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}

// isClean spares the usual reason, short and printable ASCII, the cleaning.
func isClean(s string) bool {
	if len(s) > maxReason {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
