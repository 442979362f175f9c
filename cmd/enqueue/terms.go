package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/limit"
	"nightshift/provider"
)

// allowanceHelp is the help of --allowance.
const allowanceHelp = "grant the batch `N` calls of its own, which the hourly guard of its producer does not count"

// terms are what a submission asks for beside its lines.
type terms struct {
	at, in, deadline, budget string
	priority                 int
	allowance                int64

	start time.Time // of at or in; zero: at once
	due   time.Time // of deadline; zero: the queue's
	usd   provider.USD
}

// scheduleFlags are the flags that say when a batch is run.
func (t *terms) scheduleFlags(c *cobra.Command) {
	c.Flags().StringVar(&t.at, "at", "", atHelp)
	c.Flags().StringVar(&t.in, "in", "", inHelp)
	c.Flags().StringVar(&t.deadline, "deadline", "", deadlineHelp)
}

// priorityHelp is the help of --priority.
var priorityHelp = fmt.Sprintf("a `NUMBER` from %d to %d: batches of a higher one come before all others of their queue, whoever submitted them", -batch.MaxPriority, batch.MaxPriority)

// checkPriority holds --priority to its bounds.
func checkPriority(n int) error {
	if n < -batch.MaxPriority || n > batch.MaxPriority {
		return cli.Usage(fmt.Sprintf("it may be from %d to %d; 0 is the usual one", -batch.MaxPriority, batch.MaxPriority), "--priority: %d is out of bounds", n)
	}
	return nil
}

// check reads the flags.
func (t *terms) check(now time.Time, zone *time.Location) (err error) {
	if t.allowance < 0 {
		return cli.Usage("leave it out for none", "--allowance: %d calls cannot be granted", t.allowance)
	}
	if err := checkPriority(t.priority); err != nil {
		return err
	}
	if t.start, err = startAt(t.at, t.in, now, zone); err != nil {
		return err
	}
	if t.deadline != "" {
		if t.due, err = deadlineAt(t.deadline, now, t.start, zone); err != nil {
			return err
		}
		if !t.due.After(t.start) {
			return cli.Usage("name a later deadline, or an earlier start", "the batch may begin at %s, but its deadline is at %s",
				clock(t.start, zone), clock(t.due, zone))
		}
	}
	t.usd, err = budgetOf(t.budget)
	return err
}

// clock is an absolute time with its zone.
func clock(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

// apply writes the terms into a description. The queue's deadline counts from
// where the batch may begin: who submits for the night has the whole of it.
func (t *terms) apply(d *batch.Description, by string) {
	d.NotBefore, d.Priority = t.start.UTC(), t.priority
	switch {
	case !t.due.IsZero():
		d.Deadline = t.due
	case !t.start.IsZero() && !d.Deadline.IsZero():
		d.Deadline = t.start.Add(d.Deadline.Sub(d.CreatedAt))
	}
	if d.Budget = t.usd; t.allowance > 0 {
		d.Allowance, d.AllowedBy = t.allowance, by
	}
}

// settleTerms does the arithmetic of a new batch: it foresees what the batch
// takes, says so, and refuses a batch that the hourly guard would let through
// too late.
func (p *program) settleTerms(ctx context.Context, conn *app.Conn, d *batch.Description, w batch.Work) error {
	o, err := conn.Outlook(ctx, *d, d.CreatedAt)
	if err != nil {
		return err
	}
	f := batch.Foresee(w, o)
	d.Forecast = &f
	p.saySchedule(conn.Config, *d)
	p.sayForecast(f)
	if g := f.Guard; g != nil && g.Verdict == batch.Late && !degrades(conn.Config, *d) {
		return p.tooSlow(g, *d)
	}
	p.warnOf(f, *d)
	return nil
}

// saySchedule tells when a batch begins that does not begin at once, and when it
// must be done.
func (p *program) saySchedule(cfg *config.Config, d batch.Description) {
	begins := cfg.HoursOf(d.Queue).Next(later(d.CreatedAt, d.NotBefore))
	if begins.Equal(d.CreatedAt) {
		return
	}
	text := fmt.Sprintf("begins at %s, in %s", p.Time(begins), cli.Duration(begins.Sub(d.CreatedAt)))
	if !begins.Equal(d.NotBefore) {
		text += fmt.Sprintf(", when queue %s opens", d.Queue)
	}
	if !d.Deadline.IsZero() {
		text += "; deadline at " + p.Time(d.Deadline)
	}
	p.Say("%s", text)
	if !d.Deadline.IsZero() && !begins.Before(d.Deadline) {
		p.Warn("queue %s opens after the deadline: its lines will expire", d.Queue)
	}
}

// degrades says that lines over the guard need not wait: they may use rungs
// that cost nothing meanwhile, and the ladder has one.
func degrades(cfg *config.Config, d batch.Description) bool {
	if cfg.Guard.Over != "degrade" {
		return false
	}
	q, _ := cfg.Queue(d.Queue)
	return slices.ContainsFunc(cfg.Ladders[q.Ladder].Rungs, func(r config.Rung) bool {
		return cfg.PriceOf(r).Free()
	})
}

// tooSlow refuses a batch, with the figures.
func (p *program) tooSlow(g *batch.GuardForecast, d batch.Description) error {
	hint := fmt.Sprintf("--allowance %d grants this batch calls of its own; or --deadline names a later time", g.Needed)
	if g.Needed == 0 {
		hint = "--deadline names a later time; the limits are in the block guard of the configuration"
	}
	rows := p.guardText(g, d.CreatedAt)
	left := "in " + cli.Duration(d.Deadline.Sub(d.CreatedAt))
	if d.NotBefore.After(d.CreatedAt) {
		left = cli.Duration(d.Deadline.Sub(d.NotBefore)) + " after it may begin"
	}
	return cli.Refuse(hint, "the hourly guard would let %s through in %s, but the deadline is %s (%s); %s",
		cli.Count(d.Total, "line"), cli.Duration(time.Duration(g.Seconds)*time.Second), left, p.Clock(d.Deadline, d.CreatedAt), strings.Join(rows[:len(rows)-1], "; "))
}

// warnOf warns of what may come in the way of a batch that is taken.
func (p *program) warnOf(f batch.Forecast, d batch.Description) {
	late := f.Guard != nil && f.Guard.Verdict == batch.Late
	switch {
	case late:
		p.Warn("the hourly guard lets the batch through after its deadline (%s); until then its lines use rungs that cost nothing", p.Clock(d.Deadline, f.At))
	case f.Guard != nil && f.Guard.Verdict == batch.Tight:
		p.Warn("the hourly guard lets the batch through in %s, just before its deadline (%s)",
			cli.Duration(time.Duration(f.Guard.Seconds)*time.Second), p.Clock(d.Deadline, f.At))
	}
	if f.FinishAt != nil && !d.Deadline.IsZero() && f.FinishAt.After(d.Deadline) && !late {
		p.Warn("the batch may miss its deadline (%s): %s", p.Clock(d.Deadline, f.At), boundText(f.Bounds[0]))
	}
	if d.Budget > 0 && f.CostUSD > d.Budget {
		p.Warn("the budget of %s is less than the estimate of %s: lines that it does not pay for fail as budget_exhausted", money(d.Budget), money(f.CostUSD))
	}
	if d.Budget > 0 && len(f.Unpriced) > 0 {
		p.Warn("calls of %s cost nothing of the budget: it has no price", strings.Join(f.Unpriced, ", "))
	}
}

// grant writes a batch's own budget and allowance, before any of its lines can run.
func grant(ctx context.Context, conn *app.Conn, d batch.Description) error {
	var errs []error
	if d.Budget > 0 {
		errs = append(errs, conn.Guard.SetBudget(ctx, d.ID, int64(d.Budget)))
	}
	if d.Allowance > 0 {
		errs = append(errs, conn.Guard.Grant(ctx, d.ID, limit.Grant{Calls: d.Allowance, By: d.AllowedBy, At: d.CreatedAt}))
	}
	return errors.Join(errs...)
}

// money is an amount as people read it: cents, of less than a dollar hundredths
// of a cent, and all digits of less than that.
func money(u provider.USD) string {
	switch {
	case u >= provider.Dollars(1):
		return fmt.Sprintf("$%.2f", u.Float())
	case u >= provider.Dollars(0.0001):
		const hundredth = 100_000 // nano-dollars
		return "$" + ((u + hundredth/2) / hundredth * hundredth).String()
	}
	return "$" + u.String()
}
