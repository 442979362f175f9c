package notify

import (
	"context"
	"errors"
	"math"
	"time"
)

// The waits between tries of a message: the first, doubled up to the most, give or
// take a quarter, so that a receiver that comes back is not met by all at once; and
// how long after the first try the last one is.
const (
	firstWait = 5 * time.Second
	mostWait  = time.Hour
	TryFor    = 24 * time.Hour
)

const (
	// Hold is how long a try is kept from other keepers: longer than it takes (10 s)
	// with the time for noting what became of it, Noting.
	Hold   = time.Minute
	Noting = 45 * time.Second
	// cut is how long a receiver that is being told may still answer, and its answer
	// be noted, when the process stops.
	cut = 2 * time.Second
	// noteAgain is the pause between two goes at noting a result.
	noteAgain = time.Second
)

// NextTry is how long to wait after a try that failed with an error, the first being
// 1, so long since that first one; 0: it was the last, or the receiver wants no
// more. A Retry-After of the receiver lengthens the wait. random is uniform over
// [0,1).
func NextTry(err error, try int, since time.Duration, random float64) time.Duration {
	left := TryFor - since
	refused, _ := errors.AsType[*Error](err)
	if left <= 0 || refused != nil && refused.Gone {
		return 0
	}
	wait := min(mostWait, time.Duration(math.Ldexp(float64(firstWait), min(try-1, 20))))
	wait = time.Duration(float64(wait) * (0.75 + random/2))
	if refused != nil {
		wait = max(wait, refused.RetryAfter)
	}
	return min(wait, left)
}

// Outlast returns a context that ends a little later than another does: a receiver
// that is being told may still answer when the process stops.
func Outlast(life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(life))
	stop := context.AfterFunc(life, func() {
		select {
		case <-time.After(cut):
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// Settle notes the result of a try, also while the process stops, and for a while
// where that fails. An error is the last one: what is not noted is told again.
func Settle(life context.Context, note func(context.Context) error) error {
	on, end := Outlast(life)
	defer end()
	ctx, cancel := context.WithTimeout(on, Noting)
	defer cancel()
	for {
		err := note(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(noteAgain):
		}
	}
}
