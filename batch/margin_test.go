package batch

import (
	"testing"
	"time"
)

func TestMargin(t *testing.T) {
	for _, tc := range []struct {
		lines      int64
		life, want time.Duration
	}{
		{1, 24 * time.Hour, leastMargin + time.Millisecond},
		{1_000_000, 24 * time.Hour, leastMargin + 1000*time.Second},
		{100, 5 * time.Minute, 15*time.Second + 100*time.Millisecond},
		{100, 20 * time.Second, 2*time.Second + 100*time.Millisecond},
		{1_000_000, 10 * time.Minute, 5 * time.Minute}, // never more than half
		{10, 3 * time.Second, 1500 * time.Millisecond},
		{10, -time.Second, 0}, // no deadline, or a clock that leapt
	} {
		if got := Margin(tc.lines, tc.life); got != tc.want {
			t.Errorf("Margin(%d, %s) = %s, want %s", tc.lines, tc.life, got, tc.want)
		}
	}
}
