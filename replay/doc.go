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
// is a gap that says how many. [Export] reads the stream, a [Reader] files of records.
//
// # The simulation
//
// [Simulate] runs traffic through a [Setup] under a [Policy]. Nothing of breaker,
// ladder and limit is written anew: attempts are ladder.Attempt, behind a
// ladder.StoreGate with the memory stores, all on the clock of a machine.
//
//	[Collector] (a log) ──┐                ┌─ clock: a heap of events
//	                      ├─▶ Traffic ─▶ machine ─ simQueue: slots, released lines, deferrals
//	[Scenario] (YAML) ────┘    Model      │        └─ fiber: ladder.Attempt ─▶ caller: what the Model
//	                                      │                  or a probe         says, after its time
//	                                      └─ tally ─▶ [Figures] ─▶ [Report]
//
// Code that waits runs in a fiber, a coroutine: where it sleeps or calls, the clock
// goes on to the next event. So a machine is one thread, needs no locks, and gives
// the same figures for the same seed. Chance is drawn by line and call ([draw]), not
// in the order of events: every policy meets the same luck.
//
// Invariants, held by tests: no policy sends a line's call through an open breaker,
// totals add up, and what a log lacks is said and never made up in silence.
package replay
