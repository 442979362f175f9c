// Package limit says how much may be called: for now, whether a model is
// parked after a 429. The hourly guard, pacing and adaptation join it here.
//
// A park is a time before which no worker of the fleet calls a model:
//
//	refusal                          the model is parked until
//	with a Retry-After               now + Retry-After (at most 1 h), or later if it already was
//	without one, not parked          now + 1 s; in a streak double the last such wait, at most 60 s
//	without one, while parked        as it was: the call began before the park
//
// A streak is refusals that each come within twice the last wait after its end;
// then the wait begins anew at 1 s. It is counted for the model, not for a
// worker, so the 429s that fifty workers meet at once count as one. A call that
// began before the park and is refused after its end cannot be told from a new
// one; it doubles the wait, which only errs on the quiet side.
//
// Decisions are pure functions of state and now ([Park], [Parked]); [ParkMemory] is
// a lock around them and [ParkRedis] a script that agrees with them, field for field.
// [ParkFallback] goes on from a ParkMemory while Redis is away, and tells Redis of the
// parks made meanwhile when it is back.
// A clock that stepped back by more than a minute voids a park; Redis that
// loses its keys has parked nothing.
package limit
