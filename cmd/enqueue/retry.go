package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/provider"
)

// retryCodes are the codes with which lines can fail or expire.
var retryCodes = []string{
	batch.CodeRetriesExhausted, batch.CodeCallsExhausted, batch.CodeBudgetExhausted, batch.CodeExpired, batch.CodeLost,
	string(provider.Unavailable), string(provider.Timeout), string(provider.RateLimited), string(provider.QuotaExhausted),
	string(provider.Misconfigured), string(provider.InvalidRequest), string(provider.ContextExceeded),
	string(provider.ContentFiltered), string(provider.InvalidOutput),
}

func (p *program) retryCommand() *cobra.Command {
	var r batch.Retry
	var deadline string
	c := &cobra.Command{
		Use: "retry BATCH", Short: "run failed and expired lines again", Args: cli.Args,
		Long: "Takes the lines of a batch that failed or expired back, and runs them again before those that have not begun. Lines that succeeded or were cancelled stay as they are, as do lines that --skip-invalid passed over. A batch that was done runs again; one whose deadline has passed needs a new one.\n\n" +
			"--code takes only lines that ended with that code: " + strings.Join(retryCodes, ", ") + ". The batch's cost keeps what the first time cost; each new result has the cost of its own calls.",
		RunE: func(c *cobra.Command, args []string) error {
			for _, code := range r.Codes {
				if !slices.Contains(retryCodes, code) {
					return cli.Usage("use one of "+strings.Join(retryCodes, ", "), "--code: no line fails with %q", code)
				}
			}
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			if deadline != "" {
				if r.Deadline, err = deadlineAt(deadline, time.Now(), time.Time{}, conn.Config.Location()); err != nil {
					return err
				}
			}
			s, err := lookUp(c.Context(), conn, args[0])
			if err != nil {
				return err
			}
			return p.retry(c.Context(), conn, s, r)
		},
	}
	c.Flags().StringArrayVar(&r.Codes, "code", nil, "only lines that ended with this `CODE`; may be given more than once")
	c.Flags().StringVar(&deadline, "deadline", "", "when the batch must be done now: a `TIME` of day, RFC 3339, or a span from now on (8h)")
	return c
}

func (p *program) retry(ctx context.Context, conn *app.Conn, s batch.Status, r batch.Retry) error {
	if spent, err := spentBudget(ctx, conn, s); err != nil {
		return err
	} else if spent {
		return cli.Refuse("`enqueue update "+s.ID+" --budget USD` raises it", "the budget of %s, %s, is spent", s.ID, money(*s.BudgetUSD))
	}
	progress := p.NewProgress(s.ID, s.Total)
	n, err := conn.Batches.Retry(ctx, s.ID, r, func(looked, all int64) {
		progress.Update(cli.Step{Done: looked, Total: all, State: "looking for lines"})
	})
	progress.Close()
	if err != nil {
		return p.notChanged(s, err)
	}
	if n == 0 {
		p.Say("no line of %s to run again: %s", s.ID, lineCounts(s))
		return nil
	}
	p.Say("%s of %s will run again", cli.Count(n, "line"), s.ID)
	return nil
}

// spentBudget says whether no call of the batch would be paid for.
func spentBudget(ctx context.Context, conn *app.Conn, s batch.Status) (bool, error) {
	if s.BudgetUSD == nil {
		return false, nil
	}
	room, err := conn.Guard.Room(ctx, nil, []string{s.ID})
	return room.Batches[s.ID].Spent, err
}

// notChanged tells why a batch stays as it is.
func (p *program) notChanged(s batch.Status, err error) error {
	switch {
	case errors.Is(err, batch.ErrNotFound):
		return noSuchBatch(s.ID)
	case errors.Is(err, batch.ErrCancelled):
		return cli.Refuse("`enqueue batch FILE --again` submits its lines anew", "%s was cancelled", s.ID)
	case errors.Is(err, batch.ErrEnqueuing):
		return cli.Refuse("`enqueue batch FILE --id "+s.ID+"` completes it", "%s is not submitted completely", s.ID)
	case errors.Is(err, batch.ErrDone):
		return cli.Refuse("`enqueue retry "+s.ID+" --deadline TIME` runs its failed and expired lines again", "%s is done: %s", s.ID, lineCounts(s))
	case errors.Is(err, batch.ErrRunning):
		return cli.Refuse("`enqueue cancel "+s.ID+"` ends it", "%s is %s: only a batch that is done or cancelled can be deleted", s.ID, s.State)
	case errors.Is(err, batch.ErrDeadline) && s.Deadline != nil:
		return cli.Refuse("name a new one: --deadline 8h", "the deadline of %s passed at %s", s.ID, p.Clock(*s.Deadline, time.Now()))
	}
	return err
}
