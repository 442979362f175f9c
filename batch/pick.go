package batch

import (
	"cmp"
	"maps"
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

// Picking is what Pick goes by, beside the backlogs.
type Picking struct {
	Now  time.Time
	Room int // lines that may be released at all
	// Deferred bounds the lines of one producer and starting rung that may be
	// deferred: a class that has some gets what is left to the bound, the others
	// go on. One that has none is bounded by Room alone: nothing says that its
	// lines would wait, and a healthy queue begins more than the bound in a moment.
	Deferred int
	// Rate is how many lines the queue ends a second; 0: not known, and then no
	// batch is thought to miss its deadline.
	Rate  float64
	Calls Calls
}

// Calls is what the guards of the hour leave for lines that are not released
// yet. The zero Calls bounds nothing.
type Calls struct {
	// Producers are the calls that each of them has left; one that is not named
	// is not bounded.
	Producers map[string]int
	// Own are calls of a batch's own, which its lines use first and which are not
	// its producer's.
	Own map[string]int
}

// Pick says what to release from the backlogs of one queue. The batches of the
// highest priority go first, and each lower one gets what these leave. Within
// one priority, first lines of the batches that would otherwise miss their
// deadline (see urgent), the earliest first. Then the producers get equal shares,
// counting what each has out already and is not deferred; within one, the
// earliest deadline goes first (then the oldest), within a batch the order of the
// file. No producer gets more lines than its guard leaves calls. Batches that are
// cancelled, past their deadline, or not to begin yet get nothing; End is for the
// first two.
func Pick(backlogs []Backlog, p Picking) []Share {
	producers := byProducer(backlogs, p)
	room := max(p.Room, 0)
	var shares []Share
	var ahead int64 // lines of higher priorities
	for _, level := range byPriority(backlogs, p.Now) {
		level.lineUp(producers)
		some := level.pick(producers, room, ahead, p)
		room -= sum(some)
		shares = append(shares, some...)
		for _, b := range level {
			ahead += b.load(p.Calls)
		}
	}
	return shares
}

// level are the batches of one priority that may begin.
type level []Backlog

// byPriority returns the levels, the highest first.
func byPriority(backlogs []Backlog, now time.Time) (levels []level) {
	all := map[int]level{}
	for _, b := range backlogs {
		if b.alive(now) && b.begun(now) {
			all[b.Priority] = append(all[b.Priority], b)
		}
	}
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		levels = append(levels, all[n])
	}
	return levels
}

// lineUp gives the producers what they have in the level.
func (l level) lineUp(producers map[string]*claim) {
	for _, c := range producers {
		c.batches = nil
	}
	for _, b := range slices.SortedFunc(slices.Values(l), urgency) {
		if b.Waiting > 0 {
			c := producers[b.Producer]
			c.batches = append(c.batches, b)
		}
	}
}

// pick picks from one level, behind so many lines of higher ones.
func (l level) pick(producers map[string]*claim, room int, ahead int64, p Picking) (shares []Share) {
	for _, b := range urgent(l, ahead, p) {
		c := producers[b.Producer]
		if s := c.take(b, room); s.N > 0 {
			room -= s.N
			c.active += int64(s.N)
			shares = append(shares, s)
		}
		c.batches = slices.DeleteFunc(c.batches, func(o Backlog) bool { return o.ID == b.ID })
	}
	return append(shares, equally(producers, room)...)
}

// equally gives every producer the same, as far as it wants it.
func equally(producers map[string]*claim, room int) (shares []Share) {
	all := slices.SortedFunc(maps.Values(producers), func(a, b *claim) int { return cmp.Compare(a.producer, b.producer) })
	for _, c := range all {
		c.wants, c.granted = sum(c.clone().takeAll(math.MaxInt)), 0
	}
	for range room {
		c := neediest(all)
		if c == nil {
			break
		}
		c.granted++
	}
	for _, c := range all {
		c.active += int64(c.granted)
		shares = append(shares, c.takeAll(c.granted)...)
	}
	return shares
}

// claim is what one producer could get and gets.
type claim struct {
	producer string
	active   int64          // out and not deferred
	batches  []Backlog      // of the level
	room     map[int]int    // by class
	calls    int            // that its guard leaves
	own      map[string]int // calls of batches
	wants    int            // lines that may be released at all
	granted  int
}

func byProducer(backlogs []Backlog, p Picking) map[string]*claim {
	all := map[string]*claim{}
	for _, b := range backlogs {
		c := all[b.Producer]
		if c == nil {
			c = newClaim(b.Producer, p.Calls)
			all[b.Producer] = c
		}
		c.active += b.Out
		for class, n := range b.Deferred {
			c.active -= int64(n)
			if n > 0 {
				if _, ok := c.room[class]; !ok {
					c.room[class] = p.Deferred
				}
				c.room[class] -= n
			}
		}
	}
	return all
}

func newClaim(producer string, calls Calls) *claim {
	c := &claim{producer: producer, room: map[int]int{}, calls: math.MaxInt, own: maps.Clone(calls.Own)}
	if n, bounded := calls.Producers[producer]; bounded {
		c.calls = max(n, 0)
	}
	return c
}

// clone is for trying out; the batches are shared, they do not change.
func (c *claim) clone() *claim {
	d := *c
	d.room, d.own = maps.Clone(c.room), maps.Clone(c.own)
	return &d
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

// takeAll spreads n lines over the producer's batches.
func (c *claim) takeAll(n int) (shares []Share) {
	for _, b := range c.batches {
		if s := c.take(b, n); s.N > 0 {
			n -= s.N
			shares = append(shares, s)
		}
	}
	return shares
}

// take gives up to n lines to a batch. Where that is fewer than its classes have
// room for, the mix of them is not known, and all that they could get is taken
// from the later batches.
func (c *claim) take(b Backlog, n int) Share {
	s := Share{ID: b.ID, Room: map[int]int{}}
	for class, waiting := range b.Classes {
		room, bounded := c.room[class]
		if !bounded {
			room = math.MaxInt
		}
		if s.Room[class] = int(min(waiting, int64(max(room, 0)))); bounded {
			c.room[class] -= s.Room[class]
		}
		s.N += s.Room[class]
	}
	own := max(c.own[b.ID], 0)
	s.N = min(s.N, n, own+min(c.calls, math.MaxInt-own)) // their sum, which may not overflow
	if own > 0 {
		c.own[b.ID] -= min(own, s.N)
	}
	c.calls -= max(s.N-own, 0)
	return s
}

func sum(shares []Share) (n int) {
	for _, s := range shares {
		n += s.N
	}
	return n
}
