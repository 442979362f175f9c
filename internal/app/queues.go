package app

import (
	"context"
	"errors"
	"time"

	"nightshift/tasks"
)

// QueueStatus is a queue of the configuration as the fleet has it.
type QueueStatus struct {
	Name string
	tasks.QueueState
	Backlog int64 // lines that are not released
	Slots   int   // in all workers that run
	Hours   string
	Open    bool      // by its hours
	Until   time.Time // when its hours change that; zero: never
}

// QueueStatuses returns the queues in the order of the configuration.
func (c *Conn) QueueStatuses(ctx context.Context, now time.Time) ([]QueueStatus, error) {
	names := c.Config.QueueNames()
	states, err := c.Queues.States(ctx, names)
	workers, fleetErr := c.Fleet.Workers(ctx)
	backlogs, unread := c.Batches.Backlogs(ctx)
	if err := errors.Join(err, fleetErr, unread); err != nil {
		return nil, err
	}
	var all []QueueStatus
	for _, q := range c.Config.Queues {
		h := c.hours[q.Name]
		s := QueueStatus{Name: q.Name, QueueState: states[q.Name], Hours: q.Hours, Open: h.Open(now), Until: h.Closes(now)}
		if !s.Open {
			s.Until = h.Next(now)
		}
		for _, w := range workers {
			s.Slots += w.Queues[q.Name].Slots
		}
		for _, b := range backlogs {
			if b.Queue == q.Name {
				s.Backlog += b.Waiting
			}
		}
		all = append(all, s)
	}
	return all, nil
}
