package notify

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Waits double within bounds, respect what the receiver asks for, and end after a day,
// or where the receiver is gone.
func TestNextTry(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		try := rapid.IntRange(1, 1000).Draw(t, "try")
		since := time.Duration(rapid.Int64Range(0, int64(TryFor)*2).Draw(t, "since"))
		asked := time.Duration(rapid.Int64Range(0, int64(TryFor)).Draw(t, "asked"))
		random := rapid.Float64Range(0, 0.999).Draw(t, "random")
		refused := fmt.Errorf("post: %w", &Error{RetryAfter: asked})
		wait, left := NextTry(refused, try, since, random), TryFor-since
		switch {
		case left <= 0:
			if wait != 0 {
				t.Fatalf("%s after the end", wait)
			}
		case wait <= 0 || wait > left || wait < min(asked, left):
			t.Fatalf("%s; %s are left, %s asked for", wait, left, asked)
		case asked == 0 && wait < left && (wait < firstWait*3/4 || wait > mostWait*5/4):
			t.Fatalf("%s is out of bounds", wait)
		case asked == 0 && wait < left && try < 9 && NextTry(refused, try+1, since, random) < min(wait*2-1, left):
			t.Fatalf("%s is not doubled", wait)
		}
		if other := NextTry(errors.New("other"), try, since, random); asked == 0 && other != wait {
			t.Fatalf("%s, and after an error that says nothing %s", wait, other)
		}
		if gone := NextTry(&Error{Gone: true, RetryAfter: asked}, try, since, random); gone != 0 {
			t.Fatalf("%s for one that is gone", gone)
		}
	})
}
