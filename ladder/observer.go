package ladder

import (
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// Purpose says what a call was for. The values are a label of the metrics.
type Purpose string

// The purposes of a call.
const (
	ForLine   Purpose = "line"
	ForRepair Purpose = "repair" // asks again where an answer was invalid
	ForProbe  Purpose = "probe"
)

// CallEvent is one call that was made, as metrics and the call log see it.
type CallEvent struct {
	Purpose Purpose
	Key     breaker.Key
	// Scope is the level that the call probes, be it a line's or one of ours; ""
	// of other calls.
	Scope breaker.Scope
	// Call is the record that stands in the line's progress: kind, time, cost,
	// usage, request ID.
	Call provider.Call
	// Latency is the whole call, to the last byte.
	Latency time.Duration
	// FirstToken is how long the first token of a streamed answer took; 0: it is
	// not known.
	FirstToken time.Duration
	// StatusCode is 0 where no response came.
	StatusCode int
	// RetryAfter is when the provider said to come back; 0: it did not.
	RetryAfter time.Duration

	// The line, but with ForProbe.
	Queue      string
	Producer   string
	Ladder     string
	Batch      string
	Line       int64
	Generation int
	Rung       int
}

// DeferralEvent is a line that goes back to wait, as the call log sees it.
type DeferralEvent struct {
	At, Until  time.Time
	Reason     string // see [Wait]
	Model      string // that it waits for; "" where it is no model's
	Queue      string
	Producer   string
	Batch      string
	Line       int64
	Generation int
}

// Sink takes every call and every deferral, for the call log. It must be safe for
// concurrent use and return at once.
type Sink interface {
	// Called is told of every call that was made, as an Observer is.
	Called(CallEvent)
	// Postponed is told of every line that an attempt deferred.
	Postponed(DeferralEvent)
}

// Observer is told what attempts and probes do. It must be safe for concurrent
// use and return at once: it is called between a call and its report.
type Observer interface {
	// Called is told of every call that was made.
	Called(CallEvent)
	// Avoided is told of every call that an open breaker kept away.
	Avoided(key breaker.Key)
}

type nobody struct{}

func (nobody) Called(CallEvent)    {}
func (nobody) Avoided(breaker.Key) {}

// cost is what a usage costs, with the price of one call added; 0 without a price.
func cost(p *config.Price, u provider.Usage) provider.USD {
	if p == nil {
		return 0
	}
	cached := p.Input
	if p.CachedInput != nil {
		cached = *p.CachedInput
	}
	fresh := u.InputTokens - u.CachedInputTokens
	perMillion := float64(fresh)*p.Input + float64(u.CachedInputTokens)*cached + float64(u.OutputTokens)*p.Output
	return provider.Dollars(perMillion/1e6 + p.PerCall)
}

// costOf is what a call costs: an answer, valid or not, its usage and its call, a
// failure only what the provider says that it bills all the same.
func costOf(p *config.Price, k provider.Kind, u provider.Usage) provider.USD {
	if k != provider.OK && k != provider.InvalidOutput && u == (provider.Usage{}) {
		return 0
	}
	return cost(p, u)
}
