package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// sweepMost is how many lines of a batch one sweep looks for, sweepPiece how
	// many at a time.
	sweepMost  = 5000
	sweepPiece = 500
)

// endDead ends lines of batches that were cancelled or whose deadline passed, by
// the clock of Redis, and those not released of batches that spent their budget.
func (k *Keeper) endDead(ctx context.Context, backlogs []batch.Backlog) error {
	var errs []error
	for _, b := range backlogs {
		switch {
		case b.Cancelled:
			errs = append(errs, k.end(ctx, b, batch.Cancelled))
		case !b.Deadline.IsZero() && !b.Now.Before(b.Deadline):
			errs = append(errs, k.end(ctx, b, batch.Expired))
		case b.Waiting > 0 && k.quota.spent(b):
			errs = append(errs, k.end(ctx, b, batch.Failed))
		}
	}
	return errors.Join(errs...)
}

// endsInBulk says whether the keeper ends lines of the batch itself, all at once.
func (k *Keeper) endsInBulk(b batch.Backlog) bool {
	return b.Cancelled || !b.Deadline.IsZero() && !b.Now.Before(b.Deadline) || k.texts[b.ID] != nil || k.quota.spent(b)
}

func (k *Keeper) end(ctx context.Context, b batch.Backlog, o batch.Outcome) error {
	k.quiet.stir(b.ID)
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
	return nil
}

// sweep looks for the tasks of lines that were released long ago and that no
// live lease holds, and brings back those that vanished. What it does not get
// to in one round, the oldest first, is left for the next.
func (k *Keeper) sweep(ctx context.Context, backlogs []batch.Backlog) error {
	var errs []error
	for _, b := range backlogs {
		if b.Out == 0 || b.Cancelled {
			continue
		}
		old, err := k.old(ctx, b.ID, b.Now)
		errs = append(errs, err)
		for piece := range slices.Chunk(old, sweepPiece) {
			if err := k.sweepPiece(ctx, b, piece); err != nil {
				errs = append(errs, err)
				break
			}
		}
	}
	return errors.Join(errs...)
}

// old returns the released lines of a batch that are old enough to be looked
// for, the oldest first, as many as one sweep takes.
func (k *Keeper) old(ctx context.Context, id string, now time.Time) ([]batch.Ref, error) {
	out, err := k.backlog.Out(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read released lines of %s: %w", id, err)
	}
	out = slices.DeleteFunc(out, func(e batch.OutEntry) bool { return e.Leased || now.Sub(e.Since) < sweepAge })
	slices.SortStableFunc(out, func(a, b batch.OutEntry) int { return a.Since.Compare(b.Since) })
	var refs []batch.Ref
	for _, e := range out[:min(len(out), sweepMost)] {
		refs = append(refs, e.Ref)
	}
	return refs, nil
}

// sweepPiece looks for some tasks in one round trip and starts the age of their
// lines anew, so that the next sweep goes on behind them.
func (k *Keeper) sweepPiece(ctx context.Context, b batch.Backlog, refs []batch.Ref) error {
	states, err := k.queue.states(ctx, b.Queue, refs)
	if err != nil {
		return err
	}
	for i, ref := range refs {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("sweep %s: %w", b.ID, err)
		}
		mended, err := k.queue.mend(ctx, b.Queue, ref, states[i])
		if err != nil {
			return err
		}
		if mended {
			k.log.Warn("brought back a task that had vanished", "batch", b.ID, "line", ref.Line)
		}
	}
	if err := k.backlog.Touch(ctx, refs); err != nil {
		return fmt.Errorf("touch released lines of %s: %w", b.ID, err)
	}
	return nil
}
