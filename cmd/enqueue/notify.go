package main

import (
	"errors"
	"fmt"
	"time"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/cli"
	"nightshift/internal/notify"
)

// notifyHelp is the help of --notify.
const notifyHelp = "post a small JSON to this `URL` when the batch ends; see docs/batches.md"

// checkNotify says what is wrong with the URL of --notify, as far as it shows. "": none.
func checkNotify(cfg *config.Config, to string) error {
	if to == "" {
		return nil
	}
	err := notify.CheckURL(to, cfg.Batches.Notify.AllowPrivate)
	if err == nil {
		return nil
	}
	hint := "write it as in https://example.com/hook"
	if _, private := errors.AsType[*notify.PrivateError](err); private {
		hint = "batches.notify.allow_private: true in the configuration, of the workers too, allows it"
	}
	return cli.Usage(hint, "--notify: %w", err)
}

// notified says whether the URL of a batch was told of its end.
func (p *program) notified(n batch.Notified, now time.Time) string {
	switch {
	case n.State == batch.NotifyTold:
		return fmt.Sprintf("%s told at %s", n.URL, p.Clock(*n.ToldAt, now))
	case n.State == batch.NotifyFailed:
		return fmt.Sprintf("%s not told, given up after %s: %s", n.URL, tries(int64(n.Attempts)), n.Error)
	case n.Error != "":
		return fmt.Sprintf("%s not told yet, after %s: %s; next at %s", n.URL, tries(int64(n.Attempts)), n.Error, p.Clock(*n.NextAt, now))
	case n.Attempts > 0:
		return n.URL + " is being told"
	}
	return n.URL + " will be told of the end"
}
