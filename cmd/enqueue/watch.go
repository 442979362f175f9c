package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

// watchEvery is how often the status of a followed batch is read.
const watchEvery = 500 * time.Millisecond

// servedEvery is at how many of these it is looked whether a worker serves the queue.
const servedEvery = 20

func (p *program) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch BATCH", Short: "show a batch's progress until it is done", Args: cli.Args,
		Long: "Shows a batch's progress until it is done: a bar on a terminal, plain lines elsewhere. The exit code is 3 where some lines failed, expired or were cancelled. Ending it (^C, exit code 130) ends nothing else: the batch goes on. A restart of Redis is waited for, for two minutes.",
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			return p.await(c.Context(), conn, args[0])
		},
	}
}

// await shows a batch's progress until it is done, and how it ended.
func (p *program) await(ctx context.Context, conn *app.Conn, id string) error {
	s, err := p.watch(ctx, conn, id)
	if err != nil && cli.Interrupted(ctx) {
		p.Say("stopped watching; the batch goes on")
		return cli.Exit(cli.ExitInterrupted)
	}
	if err != nil {
		return err
	}
	p.Say("%s: %s; cost %s", s.ID, lineCounts(s), cost(s))
	return outcomesOf(s).verdict()
}

// watch shows a batch's progress until it is done, and returns its last status.
func (p *program) watch(ctx context.Context, conn *app.Conn, id string) (batch.Status, error) {
	s, err := lookUp(ctx, conn, id)
	if err != nil {
		return s, err
	}
	progress := p.NewProgress(id, s.Total)
	defer progress.Close()
	lacks := ""
	for n := 0; ; n++ {
		if n%servedEvery == 0 {
			text, err := unserved(ctx, conn, s)
			if err == nil && text != "" && text != lacks { // an error shows in the status
				progress.Event("%s", text)
			}
			lacks = text
		}
		progress.Update(withOutcomes(p.wait(s), outcomesOf(s)))
		if s.State == batch.Done {
			return s, nil
		}
		if err := pause(ctx, watchEvery); err != nil {
			return s, err
		}
		if s, err = p.statusOf(ctx, conn, id); err != nil {
			return s, err
		}
	}
}

// wait is a status as progress shows it: how far it is, and what it waits for.
func (p *program) wait(s batch.Status) cli.Step {
	step := cli.Step{Done: s.Total - s.Outstanding, Total: s.Total, State: string(s.State)}
	if s.State != batch.Waiting || len(s.WaitingFor) == 0 {
		return step
	}
	w := s.WaitingFor[0]
	step.State = "waiting for " + waitCause(w)
	step.Brief = step.State
	if w.Model != "" {
		step.Brief = "waits for " + w.Model
	}
	if !w.Until.IsZero() {
		step.Note = "until " + p.Clock(w.Until, time.Now())
		step.Brief += " until " + p.Stamp(w.Until)
	}
	return step
}

// withOutcomes adds the lines that ended without success.
func withOutcomes(step cli.Step, o outcomes) cli.Step {
	bad := o.String()
	if bad == "" {
		return step
	}
	step.Note = strings.TrimPrefix(step.Note+", "+bad, ", ")
	if step.Brief != "" {
		step.Brief += ", " + bad
	}
	return step
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
