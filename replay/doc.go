// Package replay keeps the call log, and runs one through a changed
// configuration in virtual time.
//
// # The call log
//
// A [Log] is the sink of attempts and of the queue side: a [Record] for every call
// that was made, also a probe's, and for every deferral. Records hold times, names,
// figures and kinds, and never a prompt, an answer, an error's text or a key.
//
//	attempt, prober ── Called ────┐            ┌── stream in Redis, capped
//	                              ├─▶ buffer ──┤
//	handler ────────── Postponed ─┘            └── file of this worker, rotated
//
// Who makes a call never waits for the log: where the buffer is full, because Redis
// is away or slow, records are dropped and counted, and the first record after that
// is a gap that says how many. [Export] reads the stream, [Read] files of records.
package replay
