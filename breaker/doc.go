// Package breaker keeps calls away from a model that is known to fail, for a
// whole fleet of processes at once, and finds out with as few purchases as
// possible when it is back.
//
//	          failures of window            until passed, lease taken
//	closed ────────────────────────▶ open ──────────────────────────▶ half-open
//	   ▲                              ▲  ◀── probe failed, cooldown × 2 ──┘ │
//	   └──────────────────────────────┼──────────── probe succeeded ────────┘
//
// Decisions are one pure function, [Step]; the [Memory] store is a mutex around
// it and the [Redis] store a script that agrees with it, reply for reply and
// field for field (agree_test.go compares them over random lives, and
// mutation_test.go shows that the comparison notices a broken script).
//
// The package knows nothing of providers or queues: who calls maps an outcome
// to a [Report].
//
//	t, err := store.Admit(ctx, key)   // *OpenError: wait RetryAfter, spend nothing
//	r := call()                       // yours
//	err = store.Report(ctx, t, r)
//
// A [Watcher] in every process sends the probes.
//
// # States
//
// Closed lets every call through and keeps the last Window results. It opens
// when a failure makes Failures of them failed, once there are MinResults; a
// success never opens it. A hard condition opens it at once.
//
// Open rejects every call until Until, and beyond it: tasks never probe. It
// remembers that work waits (Wanted). When Until has passed and work waits, one
// prober of the fleet gets the lease, and the breaker is half-open.
//
// Half-open rejects every call and every other prober until the lease ends.
//
//	the probe           the breaker
//	succeeded           closes; the ring is cleared, the cooldown is the first again
//	was rate-limited    closes: the door is open, who calls parks the model
//	failed              opens for twice the last cooldown, at most MaxCooldown
//	failed hard         opens for MaxCooldown
//	is no evidence      opens for the same cooldown as before
//	was released        opens for the same cooldown as before
//	was never reported  stays half-open; when the lease has ended the next prober may try
//
// # Promises
//
//   - At most one probe is in flight in the fleet, and none that nobody waits for.
//   - A result counts once, and only in the epoch in which its call was
//     admitted: every transition begins another, so what began before it is late.
//   - A probe's result counts only while its ticket holds the lease.
//   - RetryAfter is never negative, and at most MaxCooldown plus ProbeLease: the
//     time until an admission can be answered differently.
//   - Until is never further away than MaxCooldown, whatever a Retry-After or a
//     stepping clock says. A Retry-After only lengthens a cooldown; the later
//     time of those in the ring wins, and a success voids them.
//   - Time to live in Redis is garbage collection: a record outlives its meaning by a day.
//
// # What happens when
//
//	a prober dies                      its lease ends, another probes
//	a report's reply is lost           repeat it: tickets count once (the last 64, or a window)
//	a report is lost                   a call: one result fewer; a probe: as if the prober died
//	an admission's reply is lost       a call: nothing was taken; a probe: the same command
//	                                   repeated gets the same ticket, else its lease ends
//	Redis cannot answer                an error that is not *OpenError; the caller decides
//	Redis loses the keys               the breaker is closed and empty; epochs begin with the
//	                                   time, so no older ticket fits the new record
//	the clock steps back               times are cut to what now allows: a cooldown or a lease begins anew at most
//	the clock leaps ahead              cooldowns and leases end, results are stale; a late probe counts nothing
//	settings differ between processes  each applies its own to the shared record
//	the transition hook panics         it is logged; the call goes on
//	the prober panics or exits         the lease is given back, the cooldown begins again
//
// # The numbers
//
// Window 20, Failures 11: just over half. At a baseline of 1% errors, eleven of
// twenty are a coincidence of about 10⁻¹⁷ a window; an outage is seen after
// eleven calls at any pace. A smaller pair, such as 10 and 6, sees it sooner;
// with a baseline of 5% that is three in a million windows. The window counts requests
// and not seconds, because calls may come 400 times a second or once a minute.
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
// # Keys in Redis
//
// nightshift:{provider}:breaker:<model> is the record, a hash;
// nightshift:{provider}:due is the index of the provider's breakers that are
// not closed and wanted, by the time of their next probe. lua/record.lua names
// their fields. All keys of a provider share its hash tag, so one script can
// reach a model and, later, its parent.
package breaker
