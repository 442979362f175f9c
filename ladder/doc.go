// Package ladder runs one attempt: it climbs the rungs of a ladder in order,
// admits, calls, classifies and reports, and says what the attempt ended in.
//
//	kept from an identical one → Answered
//	for each admissible rung:  gate: guard, pace, breaker → call → classify → output guard
//	first valid answer         → Answered
//	nothing could be tried     → Deferred, until the earliest change
//	something really failed    → Failed: one retry of the queue's budget
//	the request's own fault    → Final
//	the worker stops           → Interrupted
//
// The package knows nothing of queues or batches. What an outcome costs the
// line (retries, deferrals, crashes) is decided by package tasks.
//
// # What leads where
//
// What a failed call means is one table, in evidence.go, for the breaker and for
// the line; judge.go applies it.
//
//   - A kind that passes (unavailable, timeout) is repeated up to `tries` times
//     on its rung, then the next rung is tried.
//   - A breaker that is open sends the line to the next rung at once. So a line
//     falls through open breakers straight to a text rung below them: a text
//     without a condition is always admissible, and that is what its author
//     asked for.
//   - A line that must not be a probe (NoProbe) has a probe of ours sent in its
//     place when its breaker waits for one by a line; see stand_in.go.
//   - A model that is parked (after a 429), or called as fast as it may be, is
//     waited for while the line's patience lasts: under 30 s in the attempt, by a
//     place that is asked for again in slices, longer as a deferral, which keeps
//     the quality that the ladder's order asks for. After that, the next rung.
//     Patience counts from the first refusal; a place is none.
//   - The hourly guard of the line's producer, or of all, defers it to its place;
//     with `over: degrade`, rungs that cost nothing go on. A spent budget is final.
//   - An answer that the line's guard (a schema, deny) does not take was paid for
//     and is invalid_output. The model is asked again up to `repairs` times a line
//     with its answer and what is wrong with it; each is a call like any other.
//     One that was cut off by its length is not asked for again.
//   - A rung that cannot answer this line (context, filter, unsupported
//     parameter, invalid output, a text that does not fit) is ruled out for later attempts too.
//   - A rung whose `context` is clearly too small for a request is passed over
//     without a call (size.go says how tokens are counted; in doubt the provider
//     decides). A request too large for every model that is left is final, or
//     with `on_context: truncate` shortened for the largest: oldest messages
//     first, calls of tools with their results, never the system's, nor the last
//     message of the user, nor what the conversation ends with.
//   - A rung with `after` opens that long after an open breaker first refused
//     the line, and is waited for until then. Rate limits, pacing and failures do
//     not start that time. It is at once the turn of such a rung where no model
//     above it is left to the line, or where the line names its model.
//   - A rung with `at_deadline` opens at the margin before the line's deadline
//     (Request.Margin). From then on no other model is called, and calls under
//     way are ended, so that the rung comes in time. A line whose retries or
//     calls are spent waits for it too, in place of no answer.
//   - A rung of `rules` is open to lines whose last user message matches one.
//
// What an attempt passed over, it notes with the reason (Progress.Skipped).
//
// When every rung was passed: a spent max_calls is final; a real failure makes
// the attempt Failed; otherwise a wait makes it Deferred, and nothing was spent;
// otherwise every rung is ruled out, which is final.
//
// # The cache
//
// A ladder with a `cache` time looks an identical request up before anything
// else (cache.go): a hit ends the attempt, without a call, a breaker or a cost.
// What is identical is a digest of what the ladder can make of an answer and of
// what the body says, however it is spelt (cache_digest.go). Kept are whole
// answers of the line's first choice alone. A store that does not answer soon,
// and a value that is damaged, are a miss.
//
// # Which model first
//
// With a goal other than order, model rungs without a condition change places
// among themselves by a score: success rate, latency beside the fastest and cost
// beside the cheapest, weighed by the goal (route.go). The figures are
// exponential averages of the whole fleet's calls, α = 0.2: a process takes its
// own samples at once and exchanges them once a second ([Router]), so no call
// waits for them. A success rate that was bad is forgiven, half of it in two
// minutes, so that a model which nobody calls any more gets another chance; a
// latency or price that nobody knows counts for the model, or half; one that costs
// nothing counts two thirds of the cheapest price. A line's own goal goes before
// the ladder's. A model whose answers are invalid too often is
// told of in the log, or, with `action: demote`, goes last. 2% of the choices
// try another model first, wherever figures decide.
//
// # The gate
//
// A [Gate] stands before every call. [RedisGate] asks guard, pace and breaker in one
// round trip; where one refuses, what the others granted is given back, and a
// breaker's refusal goes first. The guard is asked last of a line that had to wait,
// since its hour counts calls when they are sent. After a call, report and
// settlements are one round trip too, or none: those of the attempt's last call are
// handed out (Outcome.Leaving) and ride in the pipeline that writes its end. They
// are told before the attempt asks, waits or calls again.
//
// Probes pass [Gate.Send]: counted under a producer of their own, refused only by a park.
//
// # Invariants
//
//   - Every call that was made is in the outcome's progress, whatever the end.
//   - Every pass through the gate is left, once, also after a panic of an adapter,
//     and also when the attempt's context has ended. A call that was sent, or may
//     have been, stays counted.
//   - A call that breaker, pace or guard rejects is not made.
//   - A line never makes more calls than max_calls. Its default is the arithmetic
//     of full passes; 429s and calls that we broke off are not part of those.
//
// # When something is missing
//
// Stores that cannot answer before a call defer the line, unspent; a worker's own
// fall back on its memory instead, so that an attempt that has begun goes on
// without Redis, for one call: then it waits for Redis too. A report that cannot be
// delivered is logged, or told later: the answer stands. A checkpoint that fails
// ends the attempt as Interrupted; a worker's own fails where the line is not to
// go on, and not where Redis is away.
//
// Times are by the injected clock and waiting goes through a [Sleeper], so that
// tests and replay run in virtual time; the times of waits and back-offs are the
// pure functions of deferral.go.
package ladder
