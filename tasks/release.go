package tasks

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"nightshift/batch"
)

const (
	// enqueueParallel is how many tasks are enqueued at a time: asynq has no
	// batch call, and one goroutine is bound by the round trip.
	enqueueParallel = 16
	// maxAhead bounds the tasks that are pending: beyond it there is nothing to
	// gain, and the keeper's rounds would take long.
	maxAhead = 10_000
	// deferredMin is the least number of deferred lines a producer may have on a
	// starting rung; beyond max(deferredMin, slots) it gets no more.
	deferredMin = 100
)

// strength returns the slots of all live workers for a queue, and how many
// tasks they began in the last 2 s.
func (k *Keeper) strength(queue string) (slots, begun int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.live {
		slots += h.Queues[queue].Slots
		begun += h.Queues[queue].Begun
	}
	return slots, begun
}

// ahead is how many tasks should be pending: what the queue began in 2 s, at
// least half the slots, unless the configuration names a number.
func ahead(configured, slots, begun int) int {
	if slots == 0 {
		return 0
	}
	if configured > 0 {
		return min(configured, maxAhead)
	}
	return min(max(begun, (slots+1)/2), maxAhead)
}

// release moves lines from the backlogs of a queue to asynq. A line that was
// moved but not enqueued is found by the sweep.
func (k *Keeper) release(ctx context.Context, queue string, backlogs []batch.Backlog, room, slots int) error {
	picking := batch.Picking{
		Now: backlogs[0].Now, Room: room, Deferred: max(deferredMin, slots), Rate: k.flow.rate(queue),
	}
	if !k.unguarded[queue] {
		k.quota.bound(&picking)
	}
	byID := map[string]batch.Backlog{}
	for _, b := range backlogs {
		byID[b.ID] = b
	}
	for _, s := range batch.Pick(slices.DeleteFunc(slices.Clone(backlogs), k.quota.spent), picking) {
		k.quota.released(byID[s.ID], s.N)
		refs, err := k.backlog.Release(ctx, s.ID, k.epoch.Load(), s.N, s.Room)
		if err != nil {
			return fmt.Errorf("release lines of %s: %w", s.ID, err)
		}
		if err := k.enqueueAll(ctx, queue, refs); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) enqueueAll(ctx context.Context, queue string, refs []batch.Ref) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(enqueueParallel)
	for _, ref := range refs {
		g.Go(func() error { return k.queue.enqueue(ctx, queue, ref) })
	}
	return g.Wait()
}
