package batch

import "testing"

func TestAheadIsWhatTheQueueBeginsAndHalfTheSlots(t *testing.T) {
	for _, c := range []struct{ configured, slots, begun, want int }{
		{0, 0, 50, 0}, // nobody serves the queue: release nothing
		{0, 5, 0, 3}, {0, 8, 40, 40}, {7, 100, 400, 7}, {7, 0, 0, 0}, {1 << 20, 1, 0, maxAhead}, {0, 5, 1 << 20, maxAhead},
	} {
		if got := Ahead(c.configured, c.slots, c.begun); got != c.want {
			t.Errorf("Ahead(%d, %d, %d) = %d, want %d", c.configured, c.slots, c.begun, got, c.want)
		}
	}
}
