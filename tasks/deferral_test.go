package tasks

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The queue stores the wake time truncated to whole seconds: with the delay that
// retryDelay returns, that is never before the time of the deferral.
func TestRetryDelayNeverWakesEarly(t *testing.T) {
	now := time.Date(2026, 11, 29, 22, 0, 0, 700_000_000, time.UTC)
	for _, wait := range []time.Duration{0, time.Millisecond, 299 * time.Millisecond, 300 * time.Millisecond, 31 * time.Second} {
		until := ceilSecond(now.Add(wait))
		err := fmt.Errorf("wrapped: %w", &Deferral{Reason: "x", Until: until})
		d := retryDelay(func() time.Time { return now })(3, err, nil)
		if stored := now.Add(d).Unix(); stored < until.Unix() {
			t.Errorf("wait %s: stored %d, before %d", wait, stored, until.Unix())
		}
		if until.Before(now.Add(wait)) {
			t.Errorf("wait %s: until %s is early", wait, until)
		}
	}
}

func TestRetryDelayOfPastAndForeignErrors(t *testing.T) {
	now := time.Now()
	delay := retryDelay(func() time.Time { return now })
	if d := delay(0, &Deferral{Until: now.Add(-time.Hour)}, nil); d != 0 {
		t.Errorf("a time that passed: %s", d)
	}
	if d := delay(0, errors.New("asynq: task lease expired"), nil); d != foreignDelay {
		t.Errorf("a foreign error: %s", d)
	}
}

func TestOnlyRealFailuresCount(t *testing.T) {
	if isFailure(&Deferral{}) || isFailure(errors.New("panic")) {
		t.Error("a deferral or a foreign error counts as a failure")
	}
	if !isFailure(fmt.Errorf("wrapped: %w", &Failure{})) {
		t.Error("a real failure does not count")
	}
}

func TestDeferralSaysWhatItWaitsFor(t *testing.T) {
	until := time.Date(2026, 11, 30, 2, 0, 5, 0, time.UTC)
	text := (&Deferral{"openai/gpt-4o", "breaker_open", until}).Error()
	for _, want := range []string{"openai/gpt-4o", "breaker_open", "2026-11-30T02:00:05Z"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}
