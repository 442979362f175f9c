package ladder

import (
	"math"
	"time"
)

const (
	// maxSpread bounds how far waiters are spread (design section 3).
	maxSpread = 10 * time.Second
	// backoffBase and backoffCap bound the wait after a failed attempt: up to
	// 5 s after the first, doubling, never over 5 min (the default
	// max_cooldown: whatever passes has passed by then, or a breaker is open).
	backoffBase = 5 * time.Second
	backoffCap  = 5 * time.Minute
	// tryBase and tryCap bound the wait between two tries of one rung.
	tryBase = 500 * time.Millisecond
	tryCap  = 10 * time.Second
)

// Deferring is what the time of a deferral depends on.
type Deferring struct {
	// Waits is everything the line waits for; see Outcome.Waits.
	Waits []Wait
	Now   time.Time
	// Deadline is the line's, or where an at_deadline rung is to come, when that
	// opens (Outcome.LastResort); zero: none.
	Deadline time.Time
	// MaxCooldown stands for a wait without a time.
	MaxCooldown time.Duration
	// Spread is how far the waiters are spread; see [Spread].
	Spread time.Duration
	// Random is uniform in [0, 1).
	Random float64
}

// DeferUntil returns when a deferred line goes back to work: the earliest time
// at which something changes for it, rounded up to a whole second and spread.
//
// The result is a whole second after Now, because the queue stores whole seconds
// and drops the rest: any fraction would wake the line before its time, again
// and again. It is not after the deadline, unless no whole second is left
// before that; then it is the first one at or after the deadline.
func DeferUntil(d Deferring) time.Time {
	soonest := ceilSecond(d.Now.Add(1))
	earliest := first(d.Waits)
	at := later(ceilSecond(d.until(earliest)), soonest)
	if earliest.Reason != ReasonGuard { // whose waits are apart already
		at = at.Add(scale(d.Spread, d.Random).Truncate(time.Second))
	}
	if d.Deadline.IsZero() || !at.After(d.Deadline) {
		return at
	}
	if last := floorSecond(d.Deadline); !last.Before(soonest) {
		return last
	}
	return later(ceilSecond(d.Deadline), soonest)
}

// until is when the first of the waits ends; one without a time ends after
// MaxCooldown, which can be before the others.
func (d Deferring) until(soonest Wait) time.Time {
	unknown := d.Now.Add(d.MaxCooldown)
	if soonest.Until.IsZero() {
		return unknown
	}
	for _, w := range d.Waits {
		if w.Until.IsZero() && unknown.Before(soonest.Until) {
			return unknown
		}
	}
	return soonest.Until
}

// first returns the wait that ends first. One without a time comes last;
// without waits it is the zero Wait.
func first(waits []Wait) Wait {
	var best Wait
	for i, w := range waits {
		sooner := !w.Until.IsZero() && (best.Until.IsZero() || w.Until.Before(best.Until))
		if i == 0 || sooner {
			best = w
		}
	}
	return best
}

// Cause returns the wait that people are told of: the first that ends of those
// for a breaker, a rate limit or the guard, which is why the line waits, also
// where a rung's time or the deadline comes before; else the first.
func Cause(waits []Wait) Wait {
	var causes []Wait
	for _, w := range waits {
		switch w.Reason {
		case ReasonBreaker, ReasonLimited, ReasonGuard:
			causes = append(causes, w)
		}
	}
	if len(causes) == 0 {
		causes = waits
	}
	return first(causes)
}

// Spread returns how far waiters that wake together are spread, so that they
// arrive at the rate (lines a second) at which they can be served: min(10 s,
// waiters ÷ rate). One waiter is no crowd; an unknown rate (0) spreads fully.
func Spread(waiters int, rate float64) time.Duration {
	if waiters <= 1 {
		return 0
	}
	seconds := float64(waiters) / rate
	if !(rate > 0) || seconds > maxSpread.Seconds() {
		return maxSpread
	}
	return time.Duration(seconds * float64(time.Second))
}

// Backoff returns when a line whose attempt failed is tried again: exponential
// with full jitter (uniform between nothing and the bound, which spreads
// colliding callers best: "Exponential Backoff And Jitter", AWS Architecture
// Blog, 2015), never earlier than floor, as a whole second after now. failures
// counts the failed attempts so far, this one included; floor may be zero; random is uniform in [0, 1).
func Backoff(failures int, now, floor time.Time, random float64) time.Time {
	wait := jitter(backoffBase, backoffCap, failures-1, random)
	return ceilSecond(later(now.Add(max(wait, 1)), floor))
}

// jitter is uniform between 0 and base × 2^n, which is bounded by limit.
func jitter(base, limit time.Duration, n int, random float64) time.Duration {
	bound := limit
	if n = max(n, 0); n < 32 && base<<n < limit {
		bound = base << n
	}
	return scale(bound, random)
}

// scale is a share of d, for a share in [0, 1).
func scale(d time.Duration, share float64) time.Duration {
	if math.IsNaN(share) || share < 0 || d <= 0 {
		return 0
	}
	return time.Duration(float64(d) * min(share, 1))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func floorSecond(t time.Time) time.Time {
	return t.Add(-time.Duration(t.Nanosecond()))
}

func ceilSecond(t time.Time) time.Time {
	if f := floorSecond(t); !f.Equal(t) {
		return f.Add(time.Second)
	}
	return t
}
