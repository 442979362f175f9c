package batch

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Share is how many lines of a batch are to be released.
type Share struct {
	ID string
	N  int
	// Room bounds them by starting rung, see Release.
	Room map[int]int
}

// Pick says what to release from the backlogs of one queue when there is room
// for that many lines. The producers get equal shares, counting what each has
// out already and is not deferred; within one, the earliest deadline goes first
// (then the oldest), within a batch the order of the file.
//
// deferred bounds the lines of one producer and starting rung that may be
// deferred: a class that has some gets what is left to the bound, the others go
// on. One that has none is bounded by room alone: nothing says that its lines
// would wait, and a healthy queue begins more than the bound in a moment. Batches
// that are cancelled or past their deadline get nothing; End is for them.
func Pick(backlogs []Backlog, room, deferred int, now time.Time) []Share {
	producers := byProducer(backlogs, deferred, now)
	for range max(room, 0) {
		p := neediest(producers)
		if p == nil {
			break
		}
		p.granted++
	}
	var shares []Share
	for _, p := range producers {
		shares = append(shares, p.shares()...)
	}
	return shares
}

// claim is what one producer could get and gets.
type claim struct {
	producer string
	active   int64 // out and not deferred
	batches  []Backlog
	room     map[int]int // by class
	wants    int         // lines that may be released at all
	granted  int
}

func byProducer(backlogs []Backlog, deferred int, now time.Time) []*claim {
	byName := map[string]*claim{}
	var all []*claim
	for _, b := range backlogs {
		c := byName[b.Producer]
		if c == nil {
			c = &claim{producer: b.Producer, room: map[int]int{}}
			byName[b.Producer] = c
			all = append(all, c)
		}
		c.active += b.Out
		for class := range b.Classes {
			if _, ok := c.room[class]; !ok {
				c.room[class] = deferred
			}
		}
		if b.Waiting > 0 && !b.Cancelled && (b.Deadline.IsZero() || now.Before(b.Deadline)) {
			c.batches = append(c.batches, b)
		}
	}
	for _, b := range backlogs {
		c := byName[b.Producer]
		for class, n := range b.Deferred {
			c.active -= int64(n)
			if _, ok := c.room[class]; ok {
				c.room[class] -= n
			}
		}
	}
	for _, c := range all {
		for class, left := range c.room {
			if left == deferred {
				c.room[class] = math.MaxInt
			}
		}
	}
	slices.SortFunc(all, func(a, b *claim) int { return cmp.Compare(a.producer, b.producer) })
	for _, c := range all {
		slices.SortFunc(c.batches, urgency)
		c.wants = c.count()
	}
	return all
}

// urgency orders the batches of one producer.
func urgency(a, b Backlog) int {
	if a.Deadline.IsZero() != b.Deadline.IsZero() {
		if a.Deadline.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Deadline.Compare(b.Deadline), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// neediest returns the producer with the fewest lines under way that wants more.
func neediest(all []*claim) *claim {
	var best *claim
	for _, c := range all {
		if c.granted < c.wants && (best == nil || c.active+int64(c.granted) < best.active+int64(best.granted)) {
			best = c
		}
	}
	return best
}

// count returns how many lines the producer's batches have within its room.
func (c *claim) count() int {
	n := 0
	for class, room := range c.room {
		var waiting int64
		for _, b := range c.batches {
			waiting += b.Classes[class]
		}
		n += int(min(waiting, int64(max(room, 0))))
	}
	return n
}

// shares spreads what was granted over the producer's batches.
func (c *claim) shares() []Share {
	var out []Share
	for _, b := range c.batches {
		if c.granted == 0 {
			break
		}
		s := Share{ID: b.ID, Room: map[int]int{}}
		for class, waiting := range b.Classes {
			s.Room[class] = int(min(waiting, int64(max(c.room[class], 0))))
			s.N += s.Room[class]
		}
		if s.N > c.granted {
			// The mix of classes is not known, and the later batches get nothing.
			s.N = c.granted
		}
		if s.N == 0 {
			continue
		}
		for class, n := range s.Room {
			c.room[class] -= n
		}
		c.granted -= s.N
		out = append(out, s)
	}
	return out
}
