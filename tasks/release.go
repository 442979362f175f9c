package tasks

import (
	"context"
	"fmt"
	"slices"

	"nightshift/batch"
)

// deferredMin is the least number of deferred lines a producer may have on a
// starting rung; beyond max(deferredMin, slots) it gets no more.
const deferredMin = 100

// strength returns the slots of all live workers for a queue, and how many
// tasks they began in the last 2 s. Of its own process it knows it now; others say
// it once a second.
func (k *Keeper) strength(queue string) (slots, begun int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.live {
		slots += h.Queues[queue].Slots
		if h.ID == k.id && k.begun != nil {
			begun += k.begun(queue)
		} else {
			begun += h.Queues[queue].Begun
		}
	}
	return slots, begun
}

// release moves lines from the backlogs of a queue to asynq. What was moved and
// could not be enqueued is owed to the queue; the sweep finds what a dead keeper owed.
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
		k.quiet.stir(s.ID)
		refs, err := k.backlog.Release(ctx, s.ID, k.epoch.Load(), s.N, s.Room)
		if err != nil {
			return fmt.Errorf("release lines of %s: %w", s.ID, err)
		}
		k.owed[queue] = append(k.owed[queue], refs...)
		if err := k.payOwed(ctx, queue); err != nil {
			return err
		}
	}
	return nil
}

// payOwed enqueues what was moved and is not known to be enqueued. Done twice, or
// after another keeper did it, it changes nothing.
func (k *Keeper) payOwed(ctx context.Context, queue string) error {
	if err := k.queue.enqueueAll(ctx, queue, k.owed[queue]); err != nil {
		return err
	}
	delete(k.owed, queue)
	return nil
}
