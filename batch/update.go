package batch

import (
	"context"
	"fmt"
	"time"

	"nightshift/provider"
)

// Update is what changes of a batch.
type Update struct {
	Deadline time.Time     // zero: it stays
	Priority *int          // nil: it stays
	Budget   *provider.USD // nil: it stays; 0: no cap any more
}

// Update changes the terms of a batch that is not over; lines that are under way
// go by the new ones from their next attempt on. ErrNotFound, ErrDone,
// ErrCancelled, ErrDeadline (the new one has passed) and ErrBeforeStart say why it
// does not.
func (s *Redis) Update(ctx context.Context, id string, u Update) error {
	d, err := s.description(ctx, id)
	if err == nil && !u.Deadline.IsZero() && !u.Deadline.After(d.NotBefore) {
		err = ErrBeforeStart
	}
	if err != nil {
		return wrap("update batch "+id, err)
	}
	args := []any{s.nowArg(), msOrNone(u.Deadline), "", ""}
	if u.Priority != nil {
		args[2] = *u.Priority
	}
	if u.Budget != nil {
		args[3] = int64(*u.Budget)
	}
	code, err := s.scripts.update.Run(ctx, s.rdb, []string{metaKey(id)}, args...).Int64()
	if err == nil {
		err = changeError(code)
	}
	return wrap("update batch "+id, err)
}

// changeError is the error of a code that the scripts which change a batch as a
// whole return; 1 is none.
func changeError(code int64) error {
	switch code {
	case 1:
		return nil
	case 2:
		return ErrNotFound
	case 3:
		return ErrDone
	case 4:
		return ErrCancelled
	case 5:
		return ErrDeadline
	case 6:
		return ErrEnqueuing
	case 7:
		return ErrRunning
	}
	return fmt.Errorf("the script replied %d", code)
}
