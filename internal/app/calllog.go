package app

import (
	"context"

	"nightshift/replay"
)

// buildCallLog has the log take what the worker does.
func (a *App) buildCallLog(watch *watching) error {
	c := a.conn.Config.CallLog
	if c.Keep == 0 && c.File == "" {
		return nil
	}
	o := replay.LogOptions{Keep: c.Keep, File: c.File, Worker: a.worker.ID(), Logger: a.opts.Logger}
	if c.Keep > 0 {
		o.Redis = a.conn.Redis.Breaker()
	}
	l, err := replay.NewLog(o)
	if err != nil {
		return err
	}
	a.log, watch.calls = l, l
	return nil
}

// Calls exports the call log of the fleet.
func (c *Conn) Calls(ctx context.Context, e replay.Exporting) error {
	return replay.Export(ctx, c.state, e)
}
