package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

// watchEvery is how often the status of a followed batch is read.
const watchEvery = 500 * time.Millisecond

func (p *program) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch BATCH", Short: "show a batch's progress until it is done", Args: cli.Args,
		Long: "Shows a batch's progress until it is done: a bar on a terminal, plain lines elsewhere. The exit code is 3 where some lines failed, expired or were cancelled. Ending it ends nothing else.",
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			s, err := p.watch(c.Context(), conn, args[0])
			if err != nil {
				return err
			}
			p.Say("%s: %s; cost %s", s.ID, lineCounts(s), cost(s))
			return verdict(s)
		},
	}
}

// watch shows a batch's progress until it is done, and returns its last status.
func (p *program) watch(ctx context.Context, conn *app.Conn, id string) (batch.Status, error) {
	s, err := lookUp(ctx, conn, id)
	if err != nil {
		return s, err
	}
	progress := p.NewProgress(id, s.Total)
	defer progress.Close()
	for {
		progress.Update(p.step(s))
		if s.State == batch.Done {
			return s, nil
		}
		if err := pause(ctx, watchEvery); err != nil {
			return s, err
		}
		if s, err = lookUp(ctx, conn, id); err != nil {
			return s, err
		}
	}
}

// step is a status as progress shows it.
func (p *program) step(s batch.Status) cli.Step {
	step := cli.Step{Done: s.Total - s.Outstanding, Total: s.Total, State: string(s.State)}
	var notes []string
	if s.State == batch.Waiting && len(s.WaitingFor) > 0 {
		w := s.WaitingFor[0]
		step.State = "waiting for " + waitCause(w)
		notes = append(notes, "until "+p.Clock(w.Until, time.Now()))
	}
	if bad := s.Failed + s.Expired + s.Cancelled; bad > 0 {
		notes = append(notes, fmt.Sprintf("%d failed", bad))
	}
	step.Note = strings.Join(notes, ", ")
	return step
}

// verdict is the exit code of a batch that is done.
func verdict(s batch.Status) error {
	if s.Failed+s.Expired+s.Cancelled > 0 {
		return cli.Exit(cli.ExitSomeFailed)
	}
	return nil
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
