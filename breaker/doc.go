// Package breaker keeps calls away from a model, or a whole provider, that is
// known to fail, for a fleet of processes at once, and finds out with as few
// purchases as possible when it is back.
//
// There are two levels: a breaker a model, and above it the parent of all models
// of a provider (or of a provider's region). A call needs both closed. Both are
// the same machine:
//
//	          failures of window             until passed, lease taken
//	closed ────────────────────────▶ open ──────────────────────────▶ half-open
//	   ▲    model: any                ▲                                 │   │
//	   │    parent: of two models     └── round lost, cooldown × 2 ─────┘   │
//	   └───────────────────────────────── probe_successes of a round ───────┘
//
// A call's outcome feeds both. What the levels differ in:
//
//	                    model                     parent
//	trips on            failures                  failures that two models share
//	hard condition      unknown model             refused key, no credit
//	is probed through   itself, while the parent  the models that work waits for, in
//	                    is closed                 turn; an answer closes that model, too
//
// Decisions are one pure function, [Step]; the [Memory] store is a lock around
// it, which a call need not take to be admitted while both levels are closed,
// and the [Redis] store a script that agrees with it, reply for reply and field
// for field (agree_test.go and memory_test.go compare them over random lives,
// and mutation_test.go shows that the comparison notices a broken script). One
// script handles both levels in one round trip. [Fallback] goes on from a Memory
// while Redis is away.
//
// The package knows nothing of providers or queues: who calls maps an outcome
// to a [Report].
//
//	t, err := store.Admit(ctx, key)   // *OpenError: wait RetryAfter, spend nothing
//	r := call()                       // yours
//	err = store.Report(ctx, t, r)
//
// or [Do] around them. A [Watcher] in every process sends the probes.
//
// # States
//
// Closed lets every call through and keeps the last Window results. It opens
// when a failure makes Failures of them failed, once there are MinResults; a
// success never opens it. A success slower than SlowCall is a failure. A hard
// condition opens its level at once, and is no evidence to the other one.
//
// Open rejects every call until Until, and beyond it. It remembers that work
// waits (Wanted). When Until has passed and work waits, a prober of the fleet
// gets a lease, and the breaker is half-open. With TaskProbes, or after a probe
// that was refused for what it asks (Unfit), the first call that asks then is
// the probe, unless it is admitted with [NoProbe]. Status.TaskDue tells when.
//
// Half-open rejects every call; it lends at most Probes leases at a time and, in
// one round, as many as Probes or ProbeSuccesses, whichever is more. A round is
// won with ProbeSuccesses successes and lost when they can no longer be reached.
//
//	the probe           the round
//	succeeded           one success; won: closes, the ring is cleared, the cooldown is the first again
//	was rate-limited    likewise: the door is open, who calls parks the model
//	failed              one failure; lost: opens for twice the last cooldown, at most MaxCooldown
//	failed hard         opens for MaxCooldown
//	is no evidence      one less to succeed; lost without a failure: opens for the same cooldown
//	was released        likewise
//	was never reported  costs one lease: when it has ended, another prober gets it
//
// An operator can hold either level open, for a time or for good, hold it closed
// for a time, close it, or reset it (see [Force]). A hold is part of the record:
// it outlives every process, and says who and since when. A model that is held
// open gets no probe, neither its own nor its parent's: that goes to the next.
//
// Beside all that, a model's record keeps the verdicts of the caller's own checks
// on its last 50 judged answers ([Outputs]). They move no breaker.
//
// # Promises
//
//   - At most Probes probes are in flight in the fleet, and none that nobody waits for.
//   - A model is never probed while its parent is not closed; no lease is taken then.
//   - A result counts once a level, and only in the epoch of that level in which
//     its call was admitted: every transition begins another, so what began
//     before it is late. The levels check their epochs by themselves.
//   - A verdict on an output counts once, in the model's record alone, with its
//     call's epoch or its probe's lease. No transition clears the figure.
//   - A probe's result counts only while its ticket holds a lease.
//   - One model alone never opens its parent by failures.
//   - RetryAfter is never negative, and at most MaxCooldown plus ProbeLease: the
//     time until an admission can be answered differently.
//   - Until is never further away than MaxCooldown, whatever a Retry-After or a
//     stepping clock says, but for an operator's hold. A Retry-After only
//     lengthens a cooldown; the later time of those in the ring or the round
//     wins, and a success voids them.
//   - Time to live in Redis is garbage collection: a record outlives its meaning
//     by a day, and a hold for good has none.
//
// # What happens when
//
//	a prober dies                      its lease ends, another probes
//	a report's reply is lost           repeat it: tickets count once (the last 64, or a window)
//	a report is lost                   a call: one result fewer; a probe: as if the prober died
//	an admission's reply is lost       a call: nothing was taken; a probe: the same command
//	                                   repeated gets the same ticket, else its lease ends
//	Redis cannot answer                an error that is not *OpenError, or, with Fallback, the
//	                                   memory decides, each process for itself
//	Redis answers again                a Fallback first tells it the results that it missed, so
//	                                   that it opens without another call; what the memory found
//	                                   open and Redis does not believe keeps its cooldown here
//	Redis comes and goes               likewise: nothing found is forgotten, no cooldown is cut
//	Redis loses the keys               the breakers are closed and empty; epochs begin with the
//	                                   time, so no older ticket fits the new records
//	a record is damaged                what cannot be read of it is as if it were lost; List says so
//	the clock steps back               times are cut to what now allows: a cooldown or a lease begins anew at most;
//	                                   an operator's hold for a time lasts longer by the step
//	the clock leaps ahead              cooldowns, holds and leases end, results are stale; a late probe counts nothing
//	settings change in a process       Redis asks for them at every operation, Memory once a second
//	settings differ between processes  each applies its own to the shared record; a round that
//	                                   nobody can finish by the new ones begins anew
//	a model is withdrawn               its parent closes by the others, as probes rotate
//	the transition hook panics         it is logged; the call goes on
//	the prober panics or exits         the lease is given back, the cooldown begins again
//
// # The numbers
//
// Window 20, Failures 11: just over half. At a baseline of 1% errors, eleven of
// twenty are a coincidence of about 10⁻¹⁷ a window; an outage is seen after
// eleven calls at any pace. The window counts requests and not seconds, because
// calls may come 400 times a second or once a minute.
//
// To choose others, take your own baseline p of errors and n calls a day: of a
// window w with f failures, a coincidence trips the breaker about
// n × C(w-1,f-1) × p^f × (1-p)^(w-f) times a day. With p = 5%, 10 and 6 is two
// in a million calls, 20 and 11 three in ten thousand million; with p = 20%, 20
// and 11 trips once in four thousand calls, and 40 and 22, once in two million,
// is better. An outage is noticed f failing calls after its begin; with one call
// a minute and 11, that is eleven minutes,
// so rare and cheap calls want a smaller pair, such as 10 and 6 or 5 and 4.
// The parent needs no other numbers: its ring takes the calls of all models.
//
// Stale automatic: a full window tells the pace of calls, and what counts is the
// time that a window of them takes at that pace, at least 5 minutes and at most an
// hour. A window that is not full means that calls are rarer than it needs, and
// the last hour counts. So one call in six minutes still trips it, and a burst
// before a pause does not.
//
// Cooldown 30 s doubling to 5 minutes: an hour of outage costs at most 15
// probes, and a recovery is seen within 5 minutes. ProbeLease 40 s: the slowest
// tier may be silent for 30 s, and a [Watcher] gives its prober the lease less
// 10 s. Work that waits is told Until plus the lease, since the probe comes first.
//
// Probes 1, ProbeSuccesses 1: a probe is a purchase, and a provider that answers
// one is up. 3 and 2 suit a provider that comes back by halves: one lucky answer
// does not let the fleet in, one unlucky one does not keep it out.
//
// # What it costs
//
// An admission and a report that succeed, on a 2-core machine (go test -bench
// Compare measures it anew, beside gobreaker and failsafe-go):
//
//	in memory    about 100 ns and no allocation: a quarter is reading the time
//	in Redis     two round trips, 10 µs and 30 µs of the server's time
//	a breaker    1.1 KB in Redis, its parent 1.3 KB, with full windows of 20
//
// A rejection in memory takes about 270 ns, of which its error is a part. The
// report of a failure reads the whole window, so its cost grows with it.
//
// # Keys in Redis
//
// nightshift:{provider}:breaker:<model> and nightshift:{provider}:parent:<region>
// are the records, hashes; nightshift:{provider}:due is the index of the
// provider's breakers that are not closed and wanted, by the time of their next
// probe. lua/record.lua names their fields. All keys of a provider share its
// hash tag, so that one script reaches both levels, in a cluster as well.
package breaker
