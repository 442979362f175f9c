package app

import (
	"context"
	"log/slog"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/limit"
	"nightshift/provider"
	"nightshift/tasks"
)

// Observer is told what happens in this process, for a live view. Its methods
// must be safe for concurrent use and return at once.
type Observer interface {
	Transition(breaker.Transition)
	Called(ladder.CallEvent)
	Avoided(breaker.Key)
	Deferred(queue, reason string)
	LinesEnded(queue string, o batch.Outcome, n int)
}

// watching tells the metrics, the log and an observer, if there is one.
type watching struct {
	metrics *Metrics
	log     *slog.Logger
	more    Observer    // may be nil
	calls   ladder.Sink // the call log; nil: there is none
}

// Transition is the hook of the breakers.
func (w *watching) Transition(t breaker.Transition) {
	level := slog.LevelInfo
	if t.From == breaker.Closed && t.To == breaker.Open { // a person may be needed
		level = slog.LevelWarn
	}
	w.log.Log(context.Background(), level, "breaker changed", "scope", t.Scope, "breaker", t.Key.String(), "from", t.From, "to", t.To, "reason", t.Reason)
	w.metrics.Transition(t)
	if w.more != nil {
		w.more.Transition(t)
	}
}

// Guarded is the hook of the guard. An opening is news for a person: a script may
// have run away.
func (w *watching) Guarded(c limit.GuardChange) {
	limits := []any{"producer", c.Producer, "calls_per_hour", c.Limits.Calls, "usd_per_hour", provider.USD(c.Limits.USD)}
	if c.Open {
		w.log.Warn("hourly guard opened", append(limits, "until", c.Until)...)
		return
	}
	w.log.Info("hourly guard closed", limits...)
}

// Called implements ladder.Observer.
func (w *watching) Called(e ladder.CallEvent) {
	w.log.Debug("call", "model", e.Key.Model, "kind", e.Call.Kind, "latency_ms", e.Call.LatencyMS, "purpose", e.Purpose)
	w.metrics.Call(e.Key, e.Purpose, e.Call)
	if e.FirstToken > 0 { // else it is not known
		w.metrics.FirstToken(e.Key, e.FirstToken)
	}
	if e.Scope != "" {
		w.metrics.Probe(e.Scope, e.Key, e.Call.Kind)
	}
	if w.calls != nil {
		w.calls.Called(e)
	}
	if w.more != nil {
		w.more.Called(e)
	}
}

// Postponed implements ladder.Sink.
func (w *watching) Postponed(e ladder.DeferralEvent) {
	if w.calls != nil {
		w.calls.Postponed(e)
	}
}

// Avoided implements ladder.Observer.
func (w *watching) Avoided(k breaker.Key) {
	w.metrics.Avoided(k)
	if w.more != nil {
		w.more.Avoided(k)
	}
}

// Deferred implements tasks.Observer.
func (w *watching) Deferred(queue, reason string) {
	w.metrics.Deferral(queue, reason)
	if w.more != nil {
		w.more.Deferred(queue, reason)
	}
}

// Answered implements tasks.Observer.
func (w *watching) Answered(queue string, by tasks.By, n int) { w.metrics.Answers(queue, by, n) }

// Notified implements tasks.Observer.
func (w *watching) Notified(what tasks.Notification) { w.metrics.Notified(what) }

// LinesEnded implements tasks.Observer.
func (w *watching) LinesEnded(queue string, o batch.Outcome, n int) {
	w.metrics.Lines(queue, o, n)
	if w.more != nil {
		w.more.LinesEnded(queue, o, n)
	}
}
