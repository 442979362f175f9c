package replay

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/batch"
)

// TestPickIsThatOfTheKeeper: where one batch waits, or none may be released, the
// answer is the one that package batch gives.
func TestPickIsThatOfTheKeeper(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 20, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		g := newBacklog()
		k := batch.Picking{
			Now: now, Room: rapid.IntRange(0, 30).Draw(t, "room"), Deferred: rapid.IntRange(1, 10).Draw(t, "deferred"),
			Rate: rapid.SampledFrom([]float64{0, 2}).Draw(t, "rate"), Calls: batch.Calls{Producers: map[string]int{}},
		}
		q := &simQueue{name: "q"}
		for i := range rapid.IntRange(1, 3).Draw(t, "producers") {
			name := fmt.Sprint("p", i)
			for j := range rapid.IntRange(0, 3).Draw(t, "batches") {
				b := &simBatch{Batch: &Batch{ID: fmt.Sprint(name, j), Producer: name, At: now.Add(-time.Minute), Lines: make([]Line, rapid.IntRange(1, 20).Draw(t, "lines"))}, queue: q}
				if rapid.Bool().Draw(t, "due") {
					b.deadline = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "deadline")) * time.Second)
				}
				g.add(b)
				b.out = rapid.IntRange(0, 12).Draw(t, "out")
				b.deferred = rapid.IntRange(0, b.out).Draw(t, "asleep")
				b.producer.out += b.out
				b.producer.deferred += b.deferred
			}
			if p := g.byName[name]; p != nil { // of batches that are wholly released
				n := rapid.IntRange(0, 5).Draw(t, "older")
				p.out, p.deferred = p.out+n, p.deferred+rapid.IntRange(0, n).Draw(t, "older asleep")
			}
			if rapid.Bool().Draw(t, "guarded") {
				k.Calls.Producers[name] = rapid.IntRange(0, 15).Draw(t, "calls")
			}
		}
		got, want := map[string]int{}, map[string]int{}
		for b, n := range g.pick(k) {
			got[b.ID] += n
		}
		g.pickMany(k, func(b *simBatch, n int) bool { want[b.ID] += n; return true })
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("released %v; package batch says %v", got, want)
		}
	})
}

// TestFifoAndSleepers: what goes in comes out in order, whoever leaves in between.
func TestFifoAndSleepers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		var s sleepers
		var queue []int
		var asleep []*simLine
		for i := range rapid.IntRange(0, 400).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "push") > 0 || len(queue) == 0 {
				f.push(i)
				queue = append(queue, i)
				l := &simLine{number: int64(i)}
				s.push(l)
				asleep = append(asleep, l)
				continue
			}
			if x := f.pop(); x != queue[0] {
				t.Fatalf("popped %d, not %d", x, queue[0])
			}
			queue = queue[1:]
			j := rapid.IntRange(0, len(asleep)-1).Draw(t, "leaves")
			s.remove(asleep[j])
			asleep = append(asleep[:j:j], asleep[j+1:]...)
		}
		var left []*simLine
		for l := s.first; l != nil; l = l.after {
			left = append(left, l)
		}
		if f.len() != len(queue) || s.n != len(asleep) || fmt.Sprint(left) != fmt.Sprint(asleep) {
			t.Fatalf("%d in the queue, not %d; %d asleep, not %d", f.len(), len(queue), s.n, len(asleep))
		}
	})
}
