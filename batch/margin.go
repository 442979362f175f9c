package batch

import "time"

const (
	// leastMargin outlives the lease of a worker that was killed (60 s) and the
	// sweep that brings its lines back (10 s), so that they too get their texts.
	leastMargin = 75 * time.Second
	// textsPerSecond is how many texts the keeper surely writes a second; on two
	// busy cores it writes nearly ten times as many (BenchmarkTexts).
	textsPerSecond = 1000
)

// Margin is how long before its deadline a batch stops to wait for models where
// its ladder has an at_deadline rung: what outlives a lost worker, at most a
// twentieth of the batch's life and at least 2 s, and the time to write a text
// for every outstanding line, but never more than half of its life.
func Margin(outstanding int64, life time.Duration) time.Duration {
	least := max(min(leastMargin, life/20), 2*time.Second)
	return min(least+Writing(outstanding), max(life/2, 0))
}

// Writing is how long the texts of so many lines take.
func Writing(lines int64) time.Duration {
	return time.Duration(lines) * time.Second / textsPerSecond
}

// Life is how long a batch has in all, where it has a deadline.
func (d Description) Life() time.Duration { return d.Deadline.Sub(d.CreatedAt) }
