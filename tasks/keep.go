package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"nightshift/batch"
)

const (
	// enqueueParallel is how many tasks are enqueued at a time: asynq has no
	// batch call, and one goroutine is bound by the round trip.
	enqueueParallel = 16
	// endPiece is how many lines one script ends, so that it does not hold Redis
	// for long; endPieces is how many of them one round makes.
	endPiece  = 1000
	endPieces = 20
	// deferredMin is the least number of deferred lines a producer may have on a
	// starting rung; beyond max(deferredMin, slots) it gets no more.
	deferredMin = 100
)

// endDead ends lines of batches that were cancelled or whose deadline passed.
func (k *Keeper) endDead(ctx context.Context, backlogs []batch.Backlog, now time.Time) error {
	for _, b := range backlogs {
		o := batch.Cancelled
		if !b.Cancelled {
			if b.Deadline.IsZero() || now.Before(b.Deadline) {
				continue
			}
			o = batch.Expired
		}
		for range endPieces {
			n, err := k.backlog.End(ctx, b.ID, k.epoch.Load(), o, endPiece)
			if err != nil {
				return fmt.Errorf("end lines of %s: %w", b.ID, err)
			}
			if n > 0 {
				k.obs.LinesEnded(b.Queue, o, n)
			}
			if n < endPiece {
				break
			}
		}
	}
	return nil
}

// release moves lines from the backlogs of a queue to asynq. A line that was
// moved but not enqueued is found by the sweep.
func (k *Keeper) release(ctx context.Context, queue string, backlogs []batch.Backlog, room, slots int, now time.Time) error {
	for _, s := range batch.Pick(backlogs, room, max(deferredMin, slots), now) {
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

// wakeUp wakes up to room lines that wait for a breaker which is closed now,
// and returns how many.
func (k *Keeper) wakeUp(ctx context.Context, queue string, backlogs []batch.Backlog, room int) (int, error) {
	var waiting []batch.OutEntry
	for _, b := range backlogs {
		if len(b.Deferred) == 0 {
			continue
		}
		out, err := k.backlog.Out(ctx, b.ID)
		if err != nil {
			return 0, fmt.Errorf("read released lines of %s: %w", b.ID, err)
		}
		for _, e := range out {
			if !e.Leased && e.Wait.Open != "" {
				waiting = append(waiting, e)
			}
		}
	}
	k.forgetWoken()
	open, err := k.openModels(ctx, waiting)
	if err != nil {
		return 0, fmt.Errorf("ask breakers: %w", err)
	}
	n := 0
	for _, e := range waiting {
		id := TaskID(e.Ref)
		if n >= room || !anyClosed(e, open) || k.woken[id].Equal(e.Wait.Until) {
			continue
		}
		if err := k.queue.wake(queue, e.Ref); err != nil {
			return n, err
		}
		k.woken[id] = e.Wait.Until
		n++
	}
	return n, nil
}

// anyClosed says whether a breaker that refused the line is closed now.
func anyClosed(e batch.OutEntry, open map[string]bool) bool {
	return slices.ContainsFunc(strings.Fields(e.Wait.Open), func(m string) bool { return !open[m] })
}

// forgetWoken drops what can no longer be woken twice.
func (k *Keeper) forgetWoken() {
	past := k.now().Add(-time.Minute)
	for id, until := range k.woken {
		if until.Before(past) {
			delete(k.woken, id)
		}
	}
}

// sweep looks for the tasks of lines that were released long ago and that no
// live lease holds, and brings back those that vanished.
func (k *Keeper) sweep(ctx context.Context, backlogs []batch.Backlog, now time.Time) error {
	for _, b := range backlogs {
		if b.Out == 0 || b.Cancelled {
			continue
		}
		out, err := k.backlog.Out(ctx, b.ID)
		if err != nil {
			return fmt.Errorf("read released lines of %s: %w", b.ID, err)
		}
		var seen []batch.Ref
		for _, e := range out {
			if e.Leased || now.Sub(e.Since) < sweepAge {
				continue
			}
			mended, err := k.queue.mend(ctx, b.Queue, e.Ref)
			if err != nil {
				return err
			}
			if mended {
				k.log.Warn("brought back a task that had vanished", "batch", b.ID, "line", e.Ref.Line)
			}
			seen = append(seen, e.Ref)
		}
		if len(seen) > 0 {
			if err := k.backlog.Touch(ctx, seen); err != nil {
				return fmt.Errorf("touch released lines of %s: %w", b.ID, err)
			}
		}
	}
	return nil
}
