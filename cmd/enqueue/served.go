package main

import (
	"context"
	"fmt"

	"nightshift/batch"
	"nightshift/internal/app"
)

// unserved says to a person that no worker serves the queue of a batch that is not
// done, whose state and rate look as if it went on; "": one does.
func unserved(ctx context.Context, conn *app.Conn, s batch.Status) (string, error) {
	if s.FinishedAt != nil || s.Outstanding == 0 {
		return "", nil
	}
	workers, err := conn.Fleet.Workers(ctx)
	if err != nil {
		return "", err
	}
	for _, w := range workers {
		if _, serves := w.Queues[s.Queue]; serves {
			return "", nil
		}
	}
	return fmt.Sprintf("no worker serves the queue %s: its lines wait until one does (`worker run`)", s.Queue), nil
}

func (p *program) sayUnserved(ctx context.Context, conn *app.Conn, s batch.Status) error {
	text, err := unserved(ctx, conn, s)
	if text != "" {
		p.Say("%s", text)
	}
	return err
}
