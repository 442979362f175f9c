package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/ladder"
)

func (p *program) statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "status [BATCH]", Short: "how far a batch is, or all of them", Args: cli.Args,
		Long: "Shows a batch: its counts and who answered its lines, its rate and when it will be done, its cost, and what it waits for. Without BATCH, a table of all, newest first. Lines that did not succeed are told apart: failed, expired, cancelled.",
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			if len(args) == 0 {
				return p.listBatches(c.Context(), conn, asJSON)
			}
			s, err := lookUp(c.Context(), conn, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(p.Out, s)
			}
			return errors.Join(p.printStatus(s), p.sayUnserved(c.Context(), conn, s))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON; times are RFC 3339")
	return c
}

// lookUp returns the status of a batch.
func lookUp(ctx context.Context, conn *app.Conn, id string) (batch.Status, error) {
	s, err := conn.Status(ctx, id)
	if errors.Is(err, batch.ErrNotFound) {
		return s, noSuchBatch(id)
	}
	return s, err
}

func noSuchBatch(id string) error {
	return cli.Fail("`enqueue status` lists the batches", fmt.Errorf("there is no batch %q", id))
}

func (p *program) listBatches(ctx context.Context, conn *app.Conn, asJSON bool) error {
	all, unread := conn.List(ctx) // what can be read is shown, whatever cannot
	if asJSON {
		if all == nil {
			all = []batch.Status{}
		}
		return errors.Join(unread, cli.JSON(p.Out, all))
	}
	if len(all) == 0 && unread == nil {
		p.Say("no batches; `enqueue batch FILE` submits one")
		return nil
	}
	var rows [][]string
	for _, s := range all {
		rows = append(rows, []string{
			s.ID, string(s.State), s.Queue, s.Producer, fmt.Sprintf("%d/%d", s.Total-s.Outstanding, s.Total),
			orDash(outcomesOf(s).String()), "$" + s.CostUSD.String(), p.Time(s.CreatedAt),
		})
	}
	return cli.Table(p.Out, []string{"BATCH", "STATE", "QUEUE", "PRODUCER", "DONE", "NOT SUCCEEDED", "COST", "CREATED"}, rows)
}

func (p *program) printStatus(s batch.Status) error {
	now := time.Now()
	pairs := [][2]string{
		{"batch", s.ID},
		{"state", string(s.State)},
		{"queue", s.Queue},
		{"producer", s.Producer},
		{"lines", fmt.Sprintf("%d of %d done", s.Total-s.Outstanding, s.Total)},
		{"", lineCounts(s)},
	}
	pairs = append(pairs, named("answered by", answeredBy(s))...)
	pairs = append(pairs, [][2]string{
		{"calls", fmt.Sprintf("%d, and %s", s.Calls, cli.Count(s.Deferrals, "deferral"))},
		{"cost", cost(s)},
	}...)
	pairs = append(pairs, named("forecast", p.foreseen(s, now))...)
	if s.Allowance > 0 {
		pairs = append(pairs, [2]string{"allowance", fmt.Sprintf("%s of its own, granted by %s", cli.Count(s.Allowance, "call"), s.AllowedBy)})
	}
	pairs = append(pairs, [2]string{"created", p.Time(s.CreatedAt)})
	if s.Deadline != nil {
		pairs = append(pairs, [2]string{"deadline", p.Time(*s.Deadline)})
	}
	if s.FinishedAt != nil {
		pairs = append(pairs, [2]string{"finished", fmt.Sprintf("%s, after %s", p.Time(*s.FinishedAt), cli.Duration(s.FinishedAt.Sub(s.CreatedAt)))})
	} else {
		pairs = append(pairs, [2]string{"rate", p.pace(s, now)})
	}
	if s.Notify != nil {
		pairs = append(pairs, [2]string{"notify", p.notified(*s.Notify, now)})
	}
	var waits []string
	for _, w := range s.WaitingFor {
		waits = append(waits, p.waiting(w, now))
	}
	return cli.Pairs(p.Out, append(pairs, named("waits for", waits)...))
}

// named are rows of which the first has a name.
func named(name string, rows []string) (pairs [][2]string) {
	for i, row := range rows {
		if i > 0 {
			name = ""
		}
		pairs = append(pairs, [2]string{name, row})
	}
	return pairs
}

// answeredBy tells how many lines each model answered, most first.
func answeredBy(s batch.Status) (rows []string) {
	for _, a := range s.Answerers() {
		rows = append(rows, fmt.Sprintf("%s (%d)", a.Model, a.Lines))
	}
	return rows
}

// lineCounts tells how the lines that are done ended, and how many are not.
func lineCounts(s batch.Status) string {
	parts := append([]string{fmt.Sprintf("%d succeeded", s.Succeeded)}, ofThem(s.Degraded, s.Cached)...)
	if bad := outcomesOf(s).String(); bad != "" {
		parts = append(parts, bad)
	}
	if s.Outstanding > 0 {
		parts = append(parts, fmt.Sprintf("%d outstanding", s.Outstanding))
	}
	return strings.Join(parts, ", ")
}

// ofThem tells how many of the lines that succeeded are something else than the
// answer of a call to their first choice.
func ofThem(degraded, cached int64) (parts []string) {
	for _, c := range []struct {
		n    int64
		what string
	}{
		{degraded, "degraded"},
		{cached, "cached"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d of them %s", c.n, c.what))
		}
	}
	return parts
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func cost(s batch.Status) string {
	text := "$" + s.CostUSD.String()
	if s.WastedUSD > 0 {
		text += fmt.Sprintf(" ($%s of it wasted)", s.WastedUSD)
	}
	if s.BudgetUSD != nil {
		text += ", of a budget of " + money(*s.BudgetUSD)
	}
	return text
}

func (p *program) pace(s batch.Status, now time.Time) string {
	text := fmt.Sprintf("%.1f lines a minute", s.RatePerMinute)
	if s.ETA != nil {
		text += ", done at about " + p.Clock(*s.ETA, now)
	}
	if s.OnTime != nil && !*s.OnTime {
		text += ", too late for the deadline"
	}
	return text
}

// waiting is what lines wait for, until when where that is known, and how many.
func (p *program) waiting(w batch.WaitingFor, now time.Time) string {
	text := waitCause(w)
	if !w.Until.IsZero() {
		text += " until " + p.Clock(w.Until, now)
	}
	if w.Lines > 0 {
		text += ": " + cli.Count(w.Lines, "line")
	}
	return text
}

func waitCause(w batch.WaitingFor) string {
	what := strings.ReplaceAll(w.Reason, "_", " ")
	if w.Parent != "" {
		what = strings.Replace(what, "breaker", "breaker of "+w.Parent, 1)
	}
	switch {
	case w.Reason == batch.ReasonPaused && w.HeldBy != "":
		return "its queue, paused by " + w.HeldBy
	case w.Reason == batch.ReasonPaused:
		return "its queue, which is paused"
	case w.Reason == batch.ReasonHours:
		return "the hours of its queue"
	case w.Reason == batch.ReasonSchedule:
		return "its schedule"
	case w.HeldBy != "":
		return w.Model + " (" + strings.TrimSuffix(what, " open") + " held open by " + w.HeldBy + ")"
	case w.Model != "":
		return w.Model + " (" + what + ")"
	case w.Reason == ladder.ReasonGuard:
		return "the hourly guard"
	case w.Reason == "retry":
		return "their next try"
	case w.Reason == ladder.ReasonRung:
		return "a rung with after or at_deadline"
	}
	return what
}
