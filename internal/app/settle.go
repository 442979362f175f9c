package app

import (
	"context"
	"errors"
	"time"

	"nightshift/batch"
)

// settleLimit bounds how long a reader of statuses ends lines: enough for some
// 100,000 of them. The next reader goes on.
const settleLimit = time.Second

// Settle ends the lines of a batch that is cancelled or past its deadline, where
// no keeper is there to do it.
func (c *Conn) Settle(ctx context.Context, id string) error {
	if led, err := c.Fleet.Led(ctx); led || err != nil {
		return err
	}
	_, err := c.Batches.Settle(ctx, id)
	return err
}

// settle has the statuses true where nobody runs: what is over ends first.
func (c *Conn) settle(ctx context.Context, all []batch.Status) error {
	bounded, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var errs []error
	for i, st := range all {
		late := st.Deadline != nil && !st.Deadline.After(time.Now())
		if st.Outstanding == 0 || !late && st.State != batch.Cancelling {
			continue
		}
		err := c.Settle(bounded, st.ID)
		if err == nil || bounded.Err() != nil && ctx.Err() == nil {
			if st, err = c.Batches.Status(ctx, st.ID); err == nil {
				all[i] = st
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
