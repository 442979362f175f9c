package tasks

import (
	"math"
	"time"

	"nightshift/batch"
)

const (
	// flowMemory is how long a queue's rate remembers: as long as the rate of a
	// batch's status, which people compare.
	flowMemory = 5 * time.Minute
	// flowFirst is how long a queue is watched before its rate is believed.
	flowFirst = 10 * time.Second
	// flowGap is the longest pause between two looks that still says something.
	flowGap = 10 * time.Second
)

// throughput knows how many lines the queues end a second, from what the keeper
// reads anyway. It is the keeper's alone.
type throughput struct {
	at     time.Time
	ended  map[string]int64 // by batch, at the last look
	queues map[string]*flow
}

// flow is one queue's: the lines and the seconds of the last minutes, the older
// the less.
type flow struct {
	lines, seconds float64
	watched        time.Duration
}

func newThroughput() *throughput {
	return &throughput{ended: map[string]int64{}, queues: map[string]*flow{}}
}

// rate returns the lines a second of a queue; 0: not known yet.
func (t *throughput) rate(queue string) float64 {
	f := t.queues[queue]
	if f == nil || f.watched < flowFirst {
		return 0
	}
	return f.lines / f.seconds
}

// look takes the state of all batches. Lines that the keeper ends in bulk say
// nothing about how fast work is done, so batches of which inBulk is true are
// left out; and a queue that had nothing left to release was not at its limit,
// so that time says nothing either.
func (t *throughput) look(backlogs []batch.Backlog, now time.Time, inBulk func(batch.Backlog) bool) {
	gap := now.Sub(t.at)
	before := t.ended
	t.at, t.ended = now, map[string]int64{}
	done, busy := map[string]int64{}, map[string]bool{}
	for _, b := range backlogs {
		if inBulk(b) {
			continue
		}
		n := b.Total - b.Waiting - b.Out
		t.ended[b.ID] = n
		busy[b.Queue] = busy[b.Queue] || b.Waiting > 0
		if was, known := before[b.ID]; known && n > was {
			done[b.Queue] += n - was
		}
	}
	if gap <= 0 || gap > flowGap {
		return
	}
	for queue, is := range busy {
		if is {
			t.flow(queue).add(float64(done[queue]), gap)
		}
	}
}

func (t *throughput) flow(queue string) *flow {
	if t.queues[queue] == nil {
		t.queues[queue] = &flow{}
	}
	return t.queues[queue]
}

func (f *flow) add(lines float64, gap time.Duration) {
	fade := math.Exp(-gap.Seconds() / flowMemory.Seconds())
	f.lines, f.seconds = f.lines*fade+lines, f.seconds*fade+gap.Seconds()
	f.watched += gap
}
