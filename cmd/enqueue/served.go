package main

import (
	"context"

	"nightshift/batch"
	"nightshift/internal/app"
)

// sayUnserved tells a person that no worker serves the queue of a batch that is not
// done: its state and its rate look as if it went on.
func (p *program) sayUnserved(ctx context.Context, conn *app.Conn, s batch.Status) error {
	if s.FinishedAt != nil || s.Outstanding == 0 {
		return nil
	}
	workers, err := conn.Fleet.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if _, serves := w.Queues[s.Queue]; serves {
			return nil
		}
	}
	p.Say("no worker serves the queue %s: its lines wait until one does (`worker run`)", s.Queue)
	return nil
}
