package provider

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// stalls runs a call in virtual time and says after how long it was ended, and as what.
func stalls(t *testing.T, r Request, during func(*watch)) (after time.Duration, e *Error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		w := watchCall(context.Background(), r)
		defer w.close()
		during(w)
		<-w.ctx.Done()
		after, e = time.Since(started), w.ended()
	})
	return after, e
}

func tokens(every time.Duration, n int) func(*watch) {
	return func(w *watch) {
		w.listen(true)
		for range n {
			select {
			case <-time.After(every):
				w.token()
			case <-w.ctx.Done():
				return
			}
		}
	}
}

func TestWatchEndsSilence(t *testing.T) {
	limits := Request{Timeout: 10 * time.Minute, FirstToken: 30 * time.Second, Idle: 5 * time.Second}
	tests := map[string]struct {
		r       Request
		during  func(*watch)
		after   time.Duration
		message string
		stalled bool
	}{
		"before the first token":  {limits, tokens(time.Second, 0), 30 * time.Second, "no token within 30s (first_token)", true},
		"after one token":         {limits, tokens(20*time.Second, 1), 25 * time.Second, "no further token within 5s (idle)", true},
		"after many":              {limits, tokens(4*time.Second, 100), 405 * time.Second, "no further token within 5s (idle)", true},
		"a long answer in all":    {limits, tokens(4*time.Second, 200), 600 * time.Second, "no whole answer within 10m0s (timeout)", false},
		"without an idle limit":   {Request{Timeout: time.Minute, FirstToken: 30 * time.Second}, tokens(time.Second, 2), time.Minute, "no whole answer within 1m0s (timeout)", false},
		"without a first limit":   {Request{Timeout: time.Minute, Idle: time.Second}, tokens(10*time.Second, 2), 11 * time.Second, "no further token within 1s (idle)", true},
		"not streamed":            {limits, func(w *watch) { w.listen(false) }, 30 * time.Second, "no answer within 30s (first_token, for a call that is not streamed)", true},
		"not streamed, unlimited": {Request{Timeout: time.Minute}, func(w *watch) { w.listen(false) }, time.Minute, "no answer within 1m0s", false},
		"sent anew": {limits, func(w *watch) {
			w.listen(true)
			time.Sleep(20 * time.Second)
			w.listen(false)
		}, 50 * time.Second, "no answer within 30s (first_token, for a call that is not streamed)", true},
		"hushed": {limits, func(w *watch) { w.listen(true); w.token(); w.hush() }, 10 * time.Minute, "no whole answer within 10m0s (timeout)", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			after, e := stalls(t, tt.r, tt.during)
			if after != tt.after || e.Kind != Timeout || e.Message != tt.message || errors.Is(e, ErrStalled) != tt.stalled {
				t.Errorf("after %v: %v (stalled %v)", after, e, errors.Is(e, ErrStalled))
			}
		})
	}
}

// A limit of the caller's own context is the caller's end, not a limit of the call.
func TestWatchTellsTheCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := watchCall(context.Background(), Request{Timeout: time.Second})
		defer outer.close()
		w := watchCall(outer.ctx, Request{Timeout: time.Minute})
		defer w.close()
		if e := w.ended(); e != nil {
			t.Errorf("ended before its time: %v", e)
		}
		<-w.ctx.Done()
		if e := w.ended(); e.Kind != Canceled {
			t.Errorf("got %v", e)
		}
	})
}

func TestWatchTimesTheFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchCall(context.Background(), Request{Timeout: time.Minute, FirstToken: 10 * time.Second, Idle: 10 * time.Second})
		defer w.close()
		time.Sleep(time.Second) // reading the key is not the provider's silence
		w.listen(true)
		tokens(2*time.Second, 3)(w)
		if got := w.firstToken(); got != 2*time.Second {
			t.Errorf("first token after %v", got)
		}
	})
}
