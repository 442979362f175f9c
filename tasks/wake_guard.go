package tasks

import (
	"context"
	"slices"
	"time"

	"nightshift/batch"
	"nightshift/limit"
)

// wakeGuarded wakes up to room lines that wait for a guard which would let them
// in, in the order of their places: one was released, its limit was raised, or
// calls fell out of the hour. It returns how many.
func (k *Keeper) wakeGuarded(ctx context.Context, queue string, backlogs []batch.Backlog, waiting []batch.OutEntry, room int) (n int, err error) {
	byID := map[string]batch.Backlog{}
	for _, b := range backlogs {
		byID[b.ID] = b
	}
	for _, e := range k.letIn(byID, waiting, room) {
		if ctx.Err() != nil {
			break
		}
		awake, err := k.wake(queue, e)
		if err != nil {
			return n, err
		}
		if awake {
			k.quota.released(byID[e.Ref.Batch], 1)
			n++
		}
	}
	return n, nil
}

// letIn returns up to room of the waiting lines that their guards have room for,
// beside those that are about to begin.
func (k *Keeper) letIn(byID map[string]batch.Backlog, waiting []batch.OutEntry, room int) (in []batch.OutEntry) {
	waiting = slices.DeleteFunc(slices.Clone(waiting), func(e batch.OutEntry) bool { return !e.Wait.Guard })
	if k.quota == nil || len(waiting) == 0 {
		return nil
	}
	slices.SortStableFunc(waiting, func(a, b batch.OutEntry) int { return a.Wait.Until.Compare(b.Wait.Until) })
	left := newGuardsLeft(k.quota.rooms)
	for _, id := range k.aboutToCall(waiting) {
		if b, mine := byID[id]; mine {
			left.take(b.Producer)
		}
	}
	for _, e := range waiting {
		producer := byID[e.Ref.Batch].Producer
		if len(in) < room && !k.isPending(e) && !k.wasTried(e) && left.has(producer) {
			left.take(producer)
			in = append(in, e)
		}
	}
	return in
}

// begunFor is how long a line that was woken is taken to be without its call
// once it has begun: the guards were asked a moment ago, and it may wait for a
// slot of its model.
const begunFor = 5 * time.Second

// aboutToCall returns the batch of each line that was let in, or has come to its
// time, and may not be counted by its guard yet.
func (k *Keeper) aboutToCall(waiting []batch.OutEntry) (batches []string) {
	sleeping := map[string]bool{}
	for _, e := range waiting {
		sleeping[TaskID(e.Ref)] = true
		if k.isPending(e) {
			batches = append(batches, e.Ref.Batch)
		}
	}
	for id, w := range k.woken {
		if !sleeping[id] && k.now().Sub(w.at) < begunFor {
			batches = append(batches, w.batch)
		}
	}
	return batches
}

// isPending says whether a waiting line is about to begin: it was woken, or its
// time has come.
func (k *Keeper) isPending(e batch.OutEntry) bool {
	return k.wasWoken(e) || !e.Wait.Until.After(k.now())
}

// wasTried says whether the line was woken not long ago and came back. What it
// would cost is not known here: one that is too dear for what is left would be
// woken for nothing, again and again.
func (k *Keeper) wasTried(e batch.OutEntry) bool {
	_, is := k.woken[TaskID(e.Ref)]
	return is
}

// guardsLeft counts the lines that could be let in, by producer and in all.
type guardsLeft struct {
	rooms limit.Rooms
	taken map[string]int
	all   int
}

func newGuardsLeft(rooms limit.Rooms) *guardsLeft {
	return &guardsLeft{rooms: rooms, taken: map[string]int{}}
}

func (g *guardsLeft) take(producer string) {
	g.taken[producer]++
	g.all++
}

func (g *guardsLeft) has(producer string) bool {
	return g.taken[producer] < ready(g.rooms.Producers[producer]) && g.all < ready(g.rooms.All)
}
