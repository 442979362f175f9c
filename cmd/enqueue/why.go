package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/provider"
)

func (p *program) whyCommand() *cobra.Command {
	var asJSON, named bool
	c := &cobra.Command{
		Use: "why BATCH LINE", Short: "one line's story: where it is, what it waits for, what it went through", Args: cli.Args,
		Long: "Tells where a line is now (in the backlog and at which place, released to the queue, held by a worker, waiting for what and until when, finished), every call that was made for it with its time and cost, what was passed over and why, its deferrals and retries. LINE is a line number or, where it is no number, a custom_id; to find one of those, the requests of the batch are read one after the other, which takes seconds in a large one. It shows neither prompt nor answer.",
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			s, err := p.storyOf(c.Context(), conn, args[0], args[1], named)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(p.Out, s)
			}
			return p.printStory(s, time.Now())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON; times are RFC 3339")
	c.Flags().BoolVar(&named, "custom-id", false, "LINE is a custom_id, though it looks like a number")
	return c
}

// storyOf looks a line up by its number or its custom_id.
func (p *program) storyOf(ctx context.Context, conn *app.Conn, id, name string, named bool) (s batch.Story, err error) {
	line, notNumber := strconv.ParseInt(name, 10, 64)
	if notNumber != nil || named {
		line, err = p.find(ctx, conn, id, name)
	}
	if err == nil {
		s, err = conn.Batches.Why(ctx, id, line)
	}
	var missing *batch.NoLineError
	switch {
	case errors.As(err, &missing):
		return s, noSuchLine(missing, name, notNumber == nil && !named)
	case errors.Is(err, batch.ErrNotFound):
		return s, noSuchBatch(id)
	}
	return s, err
}

func noSuchLine(e *batch.NoLineError, name string, number bool) error {
	if e.Total == 0 || e.Last == 0 {
		return cli.Fail("", fmt.Errorf("batch %s has no lines yet", e.Batch))
	}
	there := fmt.Sprintf("its %s are numbered %d to %d", cli.Count(e.Total, "line"), e.First, e.Last)
	if !number {
		return cli.Fail(there, fmt.Errorf("batch %s has no line with the custom_id %q", e.Batch, name))
	}
	if e.Total != e.Last-e.First+1 {
		there += "; blank lines of the file have a number too"
	}
	return cli.Fail(there+"; --custom-id takes a number for a custom_id", fmt.Errorf("batch %s has no line %s", e.Batch, name))
}

// find is the line with a custom_id. It says so where that takes long.
func (p *program) find(ctx context.Context, conn *app.Conn, id, name string) (int64, error) {
	var progress *cli.Progress
	defer func() {
		if progress != nil {
			progress.Close()
		}
	}()
	return conn.Batches.Find(ctx, id, name, func(looked, all int64) {
		if progress == nil {
			progress = p.NewProgress("looking for "+name, all)
		}
		progress.Update(cli.Step{Done: looked, Total: all})
	})
}

func (p *program) printStory(s batch.Story, now time.Time) error {
	pairs := [][2]string{
		{"line", fmt.Sprintf("%d of batch %s, %q", s.Line, s.Batch, s.CustomID)},
		{"now", p.stage(s, now)},
	}
	if s.ReleasedAt != nil {
		pairs = append(pairs, [2]string{"released", p.Time(*s.ReleasedAt)})
	}
	if s.Generation > 0 {
		pairs = append(pairs, [2]string{"retried", cli.Count(s.Generation, "time")})
	}
	pairs = append(pairs, [2]string{"so far", sofar(s)}, [2]string{"cost", "$" + s.CostUSD.String()})
	if err := cli.Pairs(p.Out, pairs); err != nil || len(s.Attempts) == 0 {
		return err
	}
	fmt.Fprintln(p.Out)
	return cli.Table(p.Out, []string{"AT (" + p.Zone(now) + ")", "MODEL", "KIND", "TOOK", "COST", "REQUEST ID", "DETAIL"}, p.attemptRows(s.Attempts))
}

// attemptRows tells what was tried, and what was passed over.
func (p *program) attemptRows(all []provider.Call) (rows [][]string) {
	for _, a := range all {
		took, paid := cli.Duration(time.Duration(a.LatencyMS)*time.Millisecond), "$"+a.Cost.String()
		if a.Kind == batch.KindSkipped {
			took, paid = "-", "-"
		}
		rows = append(rows, []string{p.Stamp(a.StartedAt), a.Model, string(a.Kind), took, paid, orDash(a.RequestID), orDash(a.Detail)})
	}
	return rows
}

// stage is where a line is, in words.
func (p *program) stage(s batch.Story, now time.Time) string {
	switch s.Stage {
	case batch.StageBacklog:
		text := fmt.Sprintf("in the backlog, at place %d of the batch", *s.Place)
		if s.BatchState != batch.Running {
			text += ", which is " + string(s.BatchState)
		}
		return text
	case batch.StageRunning:
		return "held by a worker, whose lease ends at " + p.Clock(*s.LeaseUntil, now) + " unless it is renewed"
	case batch.StageWaiting:
		text := "waits for " + waitCause(*s.WaitingFor)
		if !s.WaitingFor.Until.IsZero() {
			text += " until " + p.Clock(s.WaitingFor.Until, now)
		}
		return text
	case batch.StageFinished:
		return p.ending(s, now)
	}
	if s.LeaseUntil != nil {
		return "its worker said nothing more, and its lease ended at " + p.Clock(*s.LeaseUntil, now) + "; it is begun anew"
	}
	return "in the queue, for the next worker with a free slot"
}

// ending is how a line finished, in words.
func (p *program) ending(s batch.Story, now time.Time) string {
	text := string(s.Outcome)
	if s.FinishedAt != nil {
		text += " at " + p.Clock(*s.FinishedAt, now)
	}
	if s.Model != "" {
		text += ", answered by " + s.Model
	}
	for what, is := range map[string]bool{" (degraded)": s.Degraded, " (cached)": s.Cached && !s.Degraded} {
		if is {
			text += what
		}
	}
	if s.Error != nil {
		return text + ": " + s.Error.Code + ": " + s.Error.Message
	}
	if s.Outcome != batch.Succeeded {
		text += fmt.Sprintf(": the provider refused the request with status %d", s.StatusCode)
	}
	return text
}

// sofar counts what a line went through.
func sofar(s batch.Story) string {
	calls := 0
	for _, a := range s.Attempts {
		if a.Kind != batch.KindSkipped {
			calls++
		}
	}
	parts := []string{cli.Count(calls, "call"), cli.Count(s.Deferrals, "deferral")}
	if s.Failures > 0 {
		parts = append(parts, cli.Count(s.Failures, "failed attempt"))
	}
	if s.Crashes > 0 {
		parts = append(parts, cli.Count(s.Crashes, "worker")+" lost over it")
	}
	return strings.Join(parts, ", ")
}
