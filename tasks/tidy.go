package tasks

import (
	"context"
	"errors"
	"time"

	"nightshift/batch"
)

const (
	// tidyEvery is how often batches are looked for whose time is over.
	tidyEvery = time.Minute
	// tidyLimit bounds how long one round deletes batches, so that the keeper's
	// other work does not wait: the rest is for the next minute.
	tidyLimit = time.Second
)

// tidy deletes the batches that were kept for long enough, and what is left of
// those whose deletion was interrupted.
func (k *Keeper) tidy(ctx context.Context) error {
	if k.deleter == nil {
		return nil
	}
	over, err := k.backlog.Overdue(ctx, k.keepFor)
	errs := []error{err}
	until := k.now().Add(tidyLimit)
	for _, id := range over {
		if !k.now().Before(until) {
			break
		}
		err := k.deleter.Delete(ctx, id)
		switch {
		case err == nil:
			k.log.Info("deleted a batch whose time was over", "batch", id)
		case !errors.Is(err, batch.ErrNotFound) && !errors.Is(err, batch.ErrRunning): // else a person was faster
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
