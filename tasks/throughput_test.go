package tasks

import (
	"math"
	"testing"
	"time"

	"nightshift/batch"
)

// flowing is a queue in which a batch of a million lines goes on.
type flowing struct {
	*throughput
	now time.Time
	b   batch.Backlog
}

func newFlowing() *flowing {
	b := batch.Backlog{Description: batch.Description{ID: "b", Queue: "q", Total: 1_000_000}, Waiting: 1_000_000}
	return &flowing{newThroughput(), time.Unix(1000, 0), b}
}

// round lets a tenth of a second pass and n lines end.
func (f *flowing) round(n int64, inBulk bool, more ...batch.Backlog) {
	f.now = f.now.Add(100 * time.Millisecond)
	f.b.Waiting -= n
	f.look(append(more, f.b), f.now, func(batch.Backlog) bool { return inBulk })
}

func (f *flowing) expect(t *testing.T, want float64) {
	t.Helper()
	if got := f.rate("q"); math.Abs(got-want) > 0.05*want {
		t.Errorf("%.2f lines a second, want %.2f", got, want)
	}
}

func TestRateOfAQueue(t *testing.T) {
	f := newFlowing()
	for range 50 {
		f.round(2, false)
	}
	f.expect(t, 0) // too early to tell
	for range 100 {
		f.round(2, false)
	}
	f.expect(t, 20)
	for range 20 * 600 { // twenty minutes
		f.round(5, false)
	}
	f.expect(t, 50)
	for range 100 {
		f.round(1000, true) // by the keeper
	}
	f.expect(t, 50)
	f.now = f.now.Add(time.Hour) // the keeper was away
	f.round(5, false)
	f.now = f.now.Add(-time.Hour) // a clock was set
	f.round(5, false)
	f.expect(t, 50)
	f.b.Waiting, f.b.Out = 0, f.b.Waiting
	for range 1000 {
		f.round(0, false) // nothing left to release
	}
	f.expect(t, 50)
	if r := f.rate("other"); r != 0 {
		t.Errorf("%f lines a second of a queue that is not there", r)
	}
}

// A queue at a standstill is slower by the minute, and a batch that is gone
// counts for nothing.
func TestRateOfAQueueThatStands(t *testing.T) {
	f := newFlowing()
	gone := batch.Backlog{Description: batch.Description{ID: "gone", Queue: "q", Total: 500}, Waiting: 500}
	for range 600 {
		f.round(2, false, gone)
	}
	f.round(2, false)
	f.expect(t, 20)
	for range 3000 {
		f.round(0, false)
	}
	if r := f.rate("q"); r <= 0 || r > 5 {
		t.Errorf("%.2f lines a second after five minutes of none", r)
	}
}
