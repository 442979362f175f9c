package limit

import (
	"sync"
	"time"
)

// Share keeps one model from taking more than half of a worker's slots while
// other queues have work, so that a slow model's long waits do not take the pace
// of all. It counts this process alone. It is safe for concurrent use; a nil
// Share refuses nothing.
type Share struct {
	most   int
	others func(queue string) bool

	mu   sync.Mutex
	held map[Model]int
}

// ShareWait is after how long who found no share asks again: a slot of its own
// would only wait.
const ShareWait = 2 * time.Second

// NewShare returns a share of the worker's slots in all queues. Others says
// whether another queue than the named one has work here; it must be quick.
func NewShare(slots int, others func(queue string) bool) *Share {
	return &Share{most: max(slots/2, 1), others: others, held: map[Model]int{}}
}

// Take takes a slot for the model and says whether there is one, which Give gives back.
func (s *Share) Take(queue string, m Model) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[m] >= s.most && s.others(queue) {
		return false
	}
	s.held[m]++
	return true
}

// Give gives a slot back.
func (s *Share) Give(m Model) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[m]--; s.held[m] <= 0 {
		delete(s.held, m)
	}
}
