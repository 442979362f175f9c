// Package limit says how much may be called: for now, whether a model is
// parked after a 429. The hourly guard, pacing and adaptation join it here.
//
// A park is a time before which no worker of the fleet calls a model. The later
// time wins; without a Retry-After it is 1 s, doubling to 60 s while refusals
// follow each other. Decisions are pure functions of state and now; the memory
// and the Redis store apply them.
package limit
