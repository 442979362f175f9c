package notify

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Waits double within bounds, respect what the receiver asks for, and end after a day.
func TestNextTry(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		try := rapid.IntRange(1, 1000).Draw(t, "try")
		since := time.Duration(rapid.Int64Range(0, int64(TryFor)*2).Draw(t, "since"))
		asked := time.Duration(rapid.Int64Range(0, int64(TryFor)).Draw(t, "asked"))
		random := rapid.Float64Range(0, 0.999).Draw(t, "random")
		wait, left := NextTry(try, since, asked, random), TryFor-since
		switch {
		case left <= 0:
			if wait != 0 {
				t.Fatalf("%s after the end", wait)
			}
		case wait <= 0 || wait > left || wait < min(asked, left):
			t.Fatalf("%s; %s are left, %s asked for", wait, left, asked)
		case asked == 0 && wait < left && (wait < firstWait*3/4 || wait > mostWait*5/4):
			t.Fatalf("%s is out of bounds", wait)
		case asked == 0 && wait < left && try < 9 && NextTry(try+1, since, 0, random) < min(wait*2-1, left):
			t.Fatalf("%s is not doubled", wait)
		}
	})
}
