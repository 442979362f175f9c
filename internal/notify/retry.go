package notify

import (
	"context"
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

// NextTry is how long to wait after a try that failed, the first being 1, so long
// since that first one; 0: it was the last. asked is the receiver's Retry-After,
// and random uniform over [0,1).
func NextTry(try int, since, asked time.Duration, random float64) time.Duration {
	left := TryFor - since
	if left <= 0 {
		return 0
	}
	wait := min(mostWait, time.Duration(math.Ldexp(float64(firstWait), min(try-1, 20))))
	wait = time.Duration(float64(wait) * (0.75 + random/2))
	return min(max(wait, asked), left)
}

// Outlast returns a context that ends so much later than another does: a receiver
// that is being told may still answer when the process stops.
func Outlast(life context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(life))
	stop := context.AfterFunc(life, func() {
		select {
		case <-time.After(by):
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}
