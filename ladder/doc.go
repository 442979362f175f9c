// Package ladder runs one attempt: it climbs the rungs of a ladder in order,
// admits, calls, classifies and reports, and says what the attempt ended in.
//
//	for each admissible rung:  parked? → breaker admit → call → classify → report
//	first valid answer         → Answered
//	nothing could be tried     → Deferred, until the earliest change
//	something really failed    → Failed: one retry of the queue's budget
//	the request's own fault    → Final
//
// The package knows nothing of queues or batches. What an outcome costs the
// line (retries, deferrals, crashes) is decided by package tasks.
package ladder
