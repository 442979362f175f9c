package tasks

import (
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

// Tracer follows attempts. It must be safe for concurrent use and return at once.
type Tracer interface {
	Attempt(AttemptBegun) AttemptTrace
}

// AttemptBegun is an attempt that begins.
type AttemptBegun struct {
	At       time.Time
	Ref      batch.Ref
	Queue    string
	Producer string
	Endpoint string
	// Submitted and Previous are what the submission of the batch and the attempt
	// before were traced as; "": they were not.
	Submitted, Previous string
}

// AttemptTrace follows one attempt, whose goroutine alone calls it.
type AttemptTrace interface {
	// Called is told of every call of the attempt.
	Called(ladder.CallEvent)
	// Ended is told how it ended, before that is written. It returns what the next
	// attempt is told as Previous.
	Ended(AttemptEnded) string
}

// AttemptEnded is how an attempt ended.
type AttemptEnded struct {
	At      time.Time
	Ladder  ladder.Outcome
	Outcome batch.Outcome // of the line; 0: it goes on
	Code    string        // of the line's error; "": none
	Wait    batch.Wait    // for what it waits, where it goes on
}

// run is one attempt of a line.
type run struct {
	lease batch.Lease
	begun batch.Begun
	trace AttemptTrace // nil: nobody follows it
}

// traced begins the trace of an attempt.
func (h *handler) traced(l batch.Lease, b batch.Begun) run {
	r := run{lease: l, begun: b}
	if h.tracer != nil {
		r.trace = h.tracer.Attempt(AttemptBegun{
			At: h.now(), Ref: l.Ref, Queue: h.queue.Name, Producer: b.Description.Producer, Endpoint: b.Line.Endpoint,
			Submitted: b.Description.Trace, Previous: b.Progress.Trace,
		})
	}
	return r
}

// suspended is the progress to write for an attempt that ends without the line.
func (h *handler) suspended(r run, out ladder.Outcome, w batch.Wait) batch.Progress {
	p := toBatch(out.Progress)
	if r.trace != nil {
		p.Trace = r.trace.Ended(AttemptEnded{At: h.now(), Ladder: out, Wait: w})
	}
	return p
}

// finished tells of an attempt that ends with the line.
func (h *handler) finished(r run, out ladder.Outcome, o batch.Outcome) {
	if r.trace != nil {
		r.trace.Ended(AttemptEnded{At: h.now(), Ladder: out, Outcome: o, Code: out.Code})
	}
}
