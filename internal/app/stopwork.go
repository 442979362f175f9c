package app

import "context"

// StopWork stops the worker alone, as Worker.Stop says, and leaves connections
// open: who runs a batch in this process then takes the last results. Stop must
// still follow.
func (a *App) StopWork(ctx context.Context) error {
	if a.worker == nil {
		return nil
	}
	return a.worker.Stop(ctx)
}
