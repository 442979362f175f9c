// Package limit says how much may be called: parks after a 429, the pace of each
// model, which a provider's answers teach, and the hourly guard of each producer.
//
// # Pacing
//
// A call asks before it is sent, and says afterwards what became of it:
//
//	Reserve ──▶ Go      in flight until Settle, Cancel or its lease's end
//	        ──▶ Wait    a place; ask again with the same ticket
//	        ──▶ Refuse  nothing held: the wait would be longer than the patience
//
// A place is served in its order, but by who asks: with n slots free, each of the
// first n goes when it asks, so one that is late keeps nobody waiting, and one that
// died loses its place 3 s after the question it owed. All that a place is given
// is decided when it asks, so limits that change are followed within a second.
//
// What limits is the least of what is configured, what was learned and what
// headers told: calls a minute, tokens a minute and calls in flight. Calls pass a
// bucket of one second (of one call at least); tokens one of ten, since providers
// enforce a minute's limit within seconds, and a smaller bucket would keep every
// long request waiting for a full one. A request larger than the bucket waits
// until it is full, goes alone, and leaves a debt of at most five minutes.
//
// # Parks
//
// A park is a time before which no worker of the fleet calls a model, or one of
// its lanes (a service tier without capacity):
//
//	refusal                          the model is parked until
//	with a Retry-After               now + Retry-After (at most 1 h), or later if it already was
//	without one, not parked          now + 1 s; in a streak double the last such wait, at most 60 s
//	without one, while parked        as it was: the call began before the park
//
// A streak is refusals that each come within twice the last wait after its end,
// with fewer than five calls taken in between; then the wait begins anew at 1 s. It
// is counted for the model, not for a worker, so the 429s that fifty workers meet
// at once count as one.
//
// # Adaptation
//
// Of a model of which nothing is known, four calls may be in flight; each that is
// taken while the window is what limits adds a third to one (less where calls are
// slow: 1 ÷ (1 + 0.7 s ÷ latency)), and a second without a refusal adds half, for
// calls that take long. So an instant provider is at thousands a second in a
// moment, and one that takes ten seconds at a hundred at once in eight.
//
// Providers count with buckets. Between two refusals the bucket was emptied twice,
// so the calls taken, divided by the time between, is the rate at which it fills:
// from then on 97% of that. Both are taken at the moments at which the refused
// calls began, so that latency does not matter; refusals of calls that began before
// the last one was known say nothing new. Before the first refusal the bucket is
// taken to have held one second of its rate. An estimate halves a rate at most, and
// lowers it by 5% at least; a refusal within a second of a park says that our own
// burst (half a second of a learned rate) was too much, which is then quartered.
//
// A rate grows while it is what makes calls wait, from 1 s after the park on: by 6%
// of the estimate a second (less when two estimates in a row agreed: 3%, 1.5%), and by
// 15% of itself beyond 1.2 times the estimate, since the limit has risen then; never
// by more than 2% or 5% a call. That is how it forgets.
//
// The first refusal also caps the calls in flight at those before the refused one,
// since it cannot be told from one for too many at once. A cap grows by one, or an
// eighth, after 3 s, which doubles up to 5 min with each refusal beyond what was
// taken before, and soon where three calls proved the last step.
//
// Headers that name a limit hold the rate at 97% of it for ten minutes; where nothing
// remains, the next call waits for its share of the reset, at most a minute. After
// a breaker closed, two calls may be in flight, and two begin a second, doubling
// each second.
//
// In simulations in virtual time (sim_cases_test.go; 600 calls a minute, a burst of
// a second, 300 ms, 300 lines, nothing configured) this takes at most 1.05 of the
// ideal time with 2.6% of calls refused; when the limit halves and doubles, 1.15 and
// 2.9%; with a hidden concurrency of four, 1.06 and 2.3%. A provider without any
// burst costs more than that (up to three times the ideal at first): configure
// its rpm.
//
// # Stores
//
// Decisions are pure functions of a state and now; [Memory] is a lock around them and
// [Redis] a script a question that agrees with them, field for field, in whole
// numbers. [Fallback] goes on from a Memory while Redis is away: a slot gets one
// call at most, configured limits and known parks hold, and Redis hears of it all
// when it is back. The guard has the same three.
//
// What goes wrong:
//   - a reply is lost: the same ticket asks again and gets the same answer; a
//     settlement counts once;
//   - a worker dies: its places go in seconds, its calls at the end of their leases;
//   - the clock steps back: by up to a minute, nothing is lost but that time; by
//     more, places, calls in flight and parks are void, what was learned stays;
//   - Redis loses its keys, or they are damaged: a model of which nothing is known;
//   - figures that are negative, huge or nothing: ignored, or cut to bounds; what was
//     learned never falls below a call a minute, and never rises above what is configured.
package limit
