package batch

// maxAhead bounds the tasks that are pending: beyond it there is nothing to gain,
// and the keeper's rounds would take long.
const maxAhead = 10_000

// Ahead is how many tasks of a queue should be pending: what it began in the last
// 2 s, at least half of its slots, unless the configuration names a number. Where
// nobody serves the queue it is 0.
func Ahead(configured, slots, begun int) int {
	if slots == 0 {
		return 0
	}
	if configured > 0 {
		return min(configured, maxAhead)
	}
	return min(max(begun, (slots+1)/2), maxAhead)
}
