package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nightshift/batch"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

const (
	// awayLimit is how long a command that follows a batch waits for Redis: longer
	// than it takes to restart with a night's batches in its append-only file.
	awayLimit = 2 * time.Minute
	// askAgain is how often it asks meanwhile.
	askAgain = time.Second
	// hiccups is how often something fails in a row, though Redis answers, before
	// that is its end.
	hiccups = 3
)

// steady does what asks Redis something, and does it again where Redis was away:
// until it answers, or for two minutes. do must go on where it stood.
func (p *program) steady(ctx context.Context, conn *app.Conn, do func() error) error {
	var since time.Time // Redis is away; zero: it is not
	for failed := 0; ; {
		err := do()
		if err == nil && !since.IsZero() {
			p.Say("redis answers again, after %s", cli.Duration(time.Since(since)))
		}
		if err == nil || ctx.Err() != nil || final(err) {
			return err
		}
		switch away := conn.Ping(ctx); {
		case away == nil:
			if failed++; failed == hiccups {
				return err
			}
		case since.IsZero():
			since = time.Now()
			p.Say("redis does not answer; trying for %s: %s", cli.Duration(awayLimit), err)
		case time.Since(since) > awayLimit:
			return cli.Fail("the batch is as it was; the same command goes on", fmt.Errorf("redis did not answer for %s: %w", cli.Duration(awayLimit), away))
		}
		if err := pause(ctx, askAgain); err != nil {
			return err
		}
	}
}

// final says whether an error is none of Redis being away.
func final(err error) bool {
	var output *outputError
	return errors.Is(err, batch.ErrNotFound) || errors.As(err, &output)
}

// statusOf is the status of a batch that is followed.
func (p *program) statusOf(ctx context.Context, conn *app.Conn, id string) (s batch.Status, err error) {
	err = p.steady(ctx, conn, func() error {
		s, err = conn.Status(ctx, id)
		return err
	})
	if errors.Is(err, batch.ErrNotFound) {
		err = noSuchBatch(id)
	}
	return s, err
}
