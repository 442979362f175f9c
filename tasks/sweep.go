package tasks

import (
	"context"
	"fmt"
	"time"

	"nightshift/batch"
)

const (
	// endPiece is how many lines one script ends, so that it does not hold Redis
	// for long; endPieces is how many of them one round makes.
	endPiece  = 1000
	endPieces = 20
	// sweepAge is how old a released line must be before its task is looked for.
	sweepAge = time.Minute
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
