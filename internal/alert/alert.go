package alert

import (
	"context"
	"time"

	"nightshift/internal/notify"
)

// Event is what can be told of, as the configuration names it.
type Event string

// The events.
const (
	BreakerOpenLong Event = "breaker_open_long"
	GuardTripped    Event = "guard_tripped"
	DeadlineAtRisk  Event = "deadline_at_risk"
	BatchDone       Event = "batch_done"
)

// Sighting is a condition that holds now.
type Sighting struct {
	Event   Event
	Subject string // names it among those of its event
	// At is when an event happened that is told of once; zero for a condition.
	At time.Time
	// Hold keeps it from being told of, though not from lasting where it was.
	Hold  bool
	Title string        // what chats say
	Over  string        // what they say when it is over; "": nothing is said then
	Facts []notify.Fact // shown below the title
	Data  any           // the same for programs, as JSON
}

// Rule says when an event is told of.
type Rule struct {
	After time.Duration // the condition must have held for so long
	Quiet time.Duration // it is over when it has not held for so long
}

// Receiver is one who is told.
type Receiver struct {
	ID     string // the same while its URL and format are
	Name   string // for logs; no secret
	Events []Event
	Hook   Hook
}

// Hook posts notes; *notify.Hook is one.
type Hook interface {
	Tell(ctx context.Context, n notify.Note) error
}

// Result is what became of a try, as the metrics count it.
type Result string

// The results.
const (
	Told    Result = "told"
	Failed  Result = "failed"   // it is tried again
	GivenUp Result = "given_up" // after a day, or the receiver wants none
)
