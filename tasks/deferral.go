package tasks

import (
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// foreignDelay is the wait after an error that is not ours: a panic that asynq
// caught, a lease that asynq lost. The line's own lease guards against doubling.
const foreignDelay = time.Second

// Deferral sends a task back to the queue until a stated time. It spends no
// retry; its text is what the queue dashboard shows.
type Deferral struct {
	Model  string // "" where it waits for no model
	Reason string
	Until  time.Time
}

// Error says what the task waits for and until when.
func (d *Deferral) Error() string {
	what := d.Reason
	if d.Model != "" {
		what += " " + d.Model
	}
	return fmt.Sprintf("waits for %s until %s", what, d.Until.Format(time.RFC3339))
}

// Failure is an attempt that really failed; the line has retries left.
type Failure struct {
	Failures, Retries int
	Message           string
	Until             time.Time
}

// Error says what failed, how often, and when the next attempt is.
func (f *Failure) Error() string {
	return fmt.Sprintf("failed %d of %d times, next at %s: %s",
		f.Failures, f.Retries+1, f.Until.Format(time.RFC3339), f.Message)
}

// isFailure tells asynq which errors count in its figures: real failures alone.
func isFailure(err error) bool {
	var f *Failure
	return errors.As(err, &f)
}

// retryDelay tells asynq when a task returns. The queue stores whole seconds,
// truncated, so the times of ours are whole seconds already, and the delay is
// never shorter than the time that is left: a task must not wake early.
func retryDelay(now func() time.Time) asynq.RetryDelayFunc {
	return func(_ int, err error, _ *asynq.Task) time.Duration {
		var d *Deferral
		var f *Failure
		switch {
		case errors.As(err, &d):
			return max(0, d.Until.Sub(now()))
		case errors.As(err, &f):
			return max(0, f.Until.Sub(now()))
		}
		return foreignDelay
	}
}

// ceilSecond rounds up to the next whole second.
func ceilSecond(t time.Time) time.Time {
	if s := t.Truncate(time.Second); s.Before(t) {
		return s.Add(time.Second)
	}
	return t.Truncate(time.Second)
}
