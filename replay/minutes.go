package replay

import "time"

// minutes has something of each minute, by its number since 1970.
type minutes[T any] struct {
	all      map[int64]*T
	latest   *T // of them
	latestAt int64
}

func newMinutes[T any]() minutes[T] { return minutes[T]{all: map[int64]*T{}} }

// at is what it has of the minute of a time, made where there is none; most come to
// the one of the time before.
func (m *minutes[T]) at(t time.Time) *T {
	n := t.Unix() / 60
	if m.latest != nil && m.latestAt == n {
		return m.latest
	}
	found := m.all[n]
	if found == nil {
		found = new(T)
		m.all[n] = found
	}
	m.latest, m.latestAt = found, n
	return found
}
