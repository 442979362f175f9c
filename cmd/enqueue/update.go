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
	"nightshift/provider"
)

// changes are what `enqueue update` is asked for.
type changes struct {
	deadline, budget string
	priority         int
}

func (p *program) updateCommand() *cobra.Command {
	var ch changes
	c := &cobra.Command{
		Use: "update BATCH", Short: "change the deadline, priority or budget of a batch", Args: cli.Args,
		Long: "Changes a batch that is not done. Lines under way go by the old deadline until their attempt ends. --budget counts all that the batch cost since its submission; `none` lifts the cap.",
		RunE: func(c *cobra.Command, args []string) error {
			priority := c.Flags().Changed("priority")
			if ch.deadline == "" && ch.budget == "" && !priority {
				return cli.Usage("name --deadline, --priority or --budget", "nothing to change")
			}
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			u, err := ch.read(time.Now(), conn.Config.Location(), priority)
			if err != nil {
				return err
			}
			s, err := lookUp(c.Context(), conn, args[0])
			if err != nil {
				return err
			}
			return p.update(c.Context(), conn, s, u)
		},
	}
	c.Flags().StringVar(&ch.deadline, "deadline", "", "when it must be done: a `TIME` of day, RFC 3339, or a span from now on (8h)")
	c.Flags().IntVar(&ch.priority, "priority", 0, priorityHelp)
	c.Flags().StringVar(&ch.budget, "budget", "", "the most that it may cost in all, in `USD`; none: no cap")
	return c
}

// read reads the flags.
func (ch changes) read(now time.Time, zone *time.Location, priority bool) (u batch.Update, err error) {
	if ch.deadline != "" {
		if u.Deadline, err = deadlineAt(ch.deadline, now, time.Time{}, zone); err != nil {
			return u, err
		}
	}
	if priority {
		u.Priority = &ch.priority
		if err := checkPriority(ch.priority); err != nil {
			return u, err
		}
	}
	if ch.budget != "" {
		u.Budget = new(provider.USD)
		if ch.budget != "none" {
			*u.Budget, err = budgetOf(ch.budget)
		}
	}
	return u, err
}

func (p *program) update(ctx context.Context, conn *app.Conn, s batch.Status, u batch.Update) error {
	err := conn.Batches.Update(ctx, s.ID, u)
	switch {
	case errors.Is(err, batch.ErrDeadline):
		return cli.Usage("name a time that is still to come", "--deadline: %s has passed", p.Time(u.Deadline))
	case errors.Is(err, batch.ErrBeforeStart):
		return cli.Usage("name a time after that", "--deadline: %s is before the first line of %s begins", p.Time(u.Deadline), s.ID)
	case err != nil:
		return p.notChanged(s, err)
	}
	if u.Budget != nil {
		if err := conn.Guard.SetBudget(ctx, s.ID, int64(*u.Budget)); err != nil {
			return err
		}
	}
	p.Say("%s: %s", s.ID, strings.Join(p.changed(u), ", "))
	return nil
}

// changed names the new terms.
func (p *program) changed(u batch.Update) (parts []string) {
	if !u.Deadline.IsZero() {
		parts = append(parts, "deadline "+p.Clock(u.Deadline, time.Now()))
	}
	if u.Priority != nil {
		parts = append(parts, fmt.Sprintf("priority %d", *u.Priority))
	}
	if u.Budget != nil && *u.Budget == 0 {
		parts = append(parts, "no budget")
	} else if u.Budget != nil {
		parts = append(parts, "budget "+money(*u.Budget))
	}
	return parts
}
