package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStalled is in the chain of a Timeout by silence, that is, by
// Request.FirstToken or Request.Idle and not by the limit of the whole call.
var ErrStalled = errors.New("the provider fell silent")

// timeoutError is the cause of a context that one of a call's own limits
// ended. It is compared by identity: a caller's context may have a limit too.
type timeoutError struct {
	what  string
	after time.Duration
	err   error // what it is to callers
}

func (e *timeoutError) Error() string { return fmt.Sprintf(e.what, e.after) }
func (e *timeoutError) Unwrap() error { return e.err }

// What the limits say; %v is the limit.
const (
	onlyOver   = "no answer within %v" // where there is no other limit
	wholeOver  = "no whole answer within %v (timeout)"
	firstOver  = "no token within %v (first_token)"
	idleOver   = "no further token within %v (idle)"
	plainStall = "no answer within %v (first_token, for a call that is not streamed)"
)

// watch holds a call to its limits, and ends it by its context.
//
// The silence is only watched between listen and hush. A token costs a look at
// the clock: the timer is not moved by it, but looks when it fires whether it
// is too early.
type watch struct {
	ctx   context.Context // the call's
	whole *timeoutError
	first time.Duration
	idle  time.Duration
	end   context.CancelCauseFunc
	stop  context.CancelFunc

	mu      sync.Mutex
	timer   *time.Timer   // nil: silence is not watched
	started time.Time     // of listen
	due     time.Time     // when the silence has lasted too long; zero: never
	limit   *timeoutError // the one that is over at due
	took    time.Duration // from started to the first token; 0: none came
}

// watchCall begins a call. Its owner must close it.
func watchCall(ctx context.Context, r Request) *watch {
	w := &watch{
		whole: &timeoutError{wholeOver, r.Timeout, context.DeadlineExceeded},
		first: r.FirstToken, idle: r.Idle,
	}
	if r.FirstToken <= 0 && r.Idle <= 0 {
		w.whole.what = onlyOver
	}
	ctx, w.stop = context.WithTimeoutCause(ctx, r.Timeout, w.whole)
	w.ctx, w.end = context.WithCancelCause(ctx)
	return w
}

// listen begins to watch the silence of a request that is sent now. One that is
// not streamed is silent to its end, so it may take as long as a first token.
func (w *watch) listen(streamed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started, w.took = time.Now(), 0
	w.limit = &timeoutError{firstOver, w.first, ErrStalled}
	if !streamed {
		w.limit.what = plainStall
	}
	w.expect(w.first)
}

// token notes that a token came.
func (w *watch) token() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.took > 0 {
		w.due = time.Now().Add(w.idle)
		if w.idle <= 0 {
			w.due = time.Time{}
		}
		return
	}
	w.took = max(time.Since(w.started), 1)
	w.limit = &timeoutError{idleOver, w.idle, ErrStalled}
	w.expect(w.idle)
}

// expect sets the timer; the caller holds the lock.
func (w *watch) expect(within time.Duration) {
	w.due = time.Time{}
	if within <= 0 {
		return
	}
	w.due = time.Now().Add(within)
	if w.timer == nil {
		w.timer = time.AfterFunc(within, w.look)
		return
	}
	w.timer.Reset(within)
}

// look is run by the timer.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due.IsZero() {
		return
	}
	if left := time.Until(w.due); left > 0 {
		w.timer.Reset(left)
		return
	}
	w.end(w.limit)
}

// hush ends the watch over the silence: the last word has come.
func (w *watch) hush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
	if w.timer != nil {
		w.timer.Stop()
	}
}

// firstToken is how long the first token took; 0: none came.
func (w *watch) firstToken() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.took
}

// close ends the call's context and all timers.
func (w *watch) close() {
	w.hush()
	w.end(context.Canceled)
	w.stop()
}

// ended says whether the call was ended, and by whom; nil: it was not.
func (w *watch) ended() *Error {
	cause := context.Cause(w.ctx)
	w.mu.Lock()
	limits := []*timeoutError{w.whole, w.limit}
	w.mu.Unlock()
	for _, l := range limits {
		if l != nil && cause == error(l) {
			return &Error{Kind: Timeout, Message: l.Error(), Err: l}
		}
	}
	if cause != nil {
		return &Error{Kind: Canceled, Message: "the call was ended by us", Err: cause}
	}
	return nil
}
