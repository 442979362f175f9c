package replay

// fifo is a queue, first in, first out.
type fifo[T any] struct {
	all  []T
	head int
}

func (f *fifo[T]) len() int { return len(f.all) - f.head }

func (f *fifo[T]) push(x T) { f.all = append(f.all, x) }

// pop takes the first, which must be there.
func (f *fifo[T]) pop() T {
	var none T
	x := f.all[f.head]
	f.all[f.head] = none
	f.head++
	if f.head > 64 && 2*f.head > len(f.all) {
		n := copy(f.all, f.all[f.head:])
		clear(f.all[n:])
		f.all, f.head = f.all[:n], 0
	}
	return x
}

// sleepers are the lines of a queue that wait, in the order in which they began
// to: a list through the lines, since any of them can leave it at any time.
type sleepers struct {
	first, last *simLine
	n           int
}

func (s *sleepers) push(l *simLine) {
	l.before, l.after = s.last, nil
	if s.last == nil {
		s.first = l
	} else {
		s.last.after = l
	}
	s.last = l
	s.n++
}

func (s *sleepers) remove(l *simLine) {
	if l.before == nil {
		s.first = l.after
	} else {
		l.before.after = l.after
	}
	if l.after == nil {
		s.last = l.before
	} else {
		l.after.before = l.before
	}
	l.before, l.after = nil, nil
	s.n--
}
