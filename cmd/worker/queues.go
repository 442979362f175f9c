package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/tasks"
)

func (p *program) queuesCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "queues", Short: "list the queues; pause and unpause them", Args: cli.Args,
		Long: "Lists the queues of the configuration: lines under way (ACTIVE), about to begin (PENDING), waiting for a time or a breaker (WAITING), and not released (BACKLOG); the slots of all workers that run, and the hours. STATE is open, closed (by its hours) or paused.",
		RunE: func(c *cobra.Command, _ []string) error {
			return p.onQueues(c.Context(), nil, func(context.Context, *app.Conn) error { return nil }, asJSON)
		},
	}
	jsonFlag(c, &asJSON)
	c.AddCommand(p.pauseCommand(), p.unpauseCommand())
	return c
}

func (p *program) pauseCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "pause QUEUE...", Short: "begin no more lines of a queue", Args: cli.Args,
		Long: "Has no more lines of the queues begin, in the whole fleet, until `worker queues unpause`: calls in flight finish, and nothing more is released. Deadlines go on. A pause outlives workers and Redis; no worker ends it.",
		RunE: func(c *cobra.Command, args []string) error {
			return p.onQueues(c.Context(), args, func(ctx context.Context, conn *app.Conn) error {
				for _, name := range args {
					changed, err := conn.Queues.Pause(ctx, name, tasks.Pause{By: cli.Operator(), At: time.Now().UTC().Truncate(time.Second)})
					if err != nil {
						return err
					}
					p.tellPause(name, changed, "is paused", "was paused already, and stays so")
				}
				return nil
			}, asJSON)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (p *program) unpauseCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "unpause QUEUE...", Short: "let lines of a queue begin again", Args: cli.Args,
		Long: "Ends the pause of the queues, whoever made it.",
		RunE: func(c *cobra.Command, args []string) error {
			return p.onQueues(c.Context(), args, func(ctx context.Context, conn *app.Conn) error {
				for _, name := range args {
					changed, err := conn.Queues.Unpause(ctx, name)
					if err != nil {
						return err
					}
					p.tellPause(name, changed, "goes on", "was not paused")
				}
				return nil
			}, asJSON)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (p *program) tellPause(queue string, changed bool, done, already string) {
	text := done
	if !changed {
		text = already
	}
	p.Say("queue %s %s", queue, text)
}

// onQueues does something to queues, none: all, and prints them as they are then.
func (p *program) onQueues(ctx context.Context, names []string, do func(context.Context, *app.Conn) error, asJSON bool) error {
	conn, err := p.connectState(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, name := range names {
		if _, ok := conn.Config.Queue(name); !ok {
			return cli.Usage("the queues are: "+join(conn.Config.QueueNames()), "there is no queue %q", name)
		}
	}
	if err := do(ctx, conn); err != nil {
		return err
	}
	now := time.Now()
	all, err := conn.QueueStatuses(ctx, now)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(s app.QueueStatus) bool { return !slices.Contains(names, s.Name) })
	}
	return p.printQueues(all, now, asJSON)
}

func (p *program) printQueues(all []app.QueueStatus, now time.Time, asJSON bool) error {
	if asJSON {
		return cli.JSON(p.Out, queueRows(all))
	}
	var rows [][]string
	var below []string
	for _, s := range all {
		hours := s.Hours
		if hours == "" {
			hours = "always"
		}
		rows = append(rows, []string{
			s.Name, queueState(s), fmt.Sprint(s.Active), fmt.Sprint(s.Pending), fmt.Sprint(s.Retry + s.Scheduled),
			fmt.Sprint(s.Backlog), fmt.Sprint(s.Slots), hours,
		})
		below = append(below, indented(p.queueDetails(s, now), "    "))
	}
	return p.printRows([]string{"QUEUE", "STATE", "ACTIVE", "PENDING", "WAITING", "BACKLOG", "SLOTS", "HOURS"}, rows, below)
}

func (p *program) queueDetails(s app.QueueStatus, now time.Time) (all []detail) {
	if s.Paused != nil {
		by := "in the console"
		if s.Paused.By != "" {
			by = fmt.Sprintf("by %s at %s", s.Paused.By, p.clock(s.Paused.At, now))
		}
		all = append(all, detail{"paused", by})
	}
	switch {
	case s.Until.IsZero():
	case s.Open:
		all = append(all, detail{"open", "until " + p.clock(s.Until, now)})
	default:
		all = append(all, detail{"opens", "at " + p.clock(s.Until, now)})
	}
	return all
}

func queueState(s app.QueueStatus) string {
	switch {
	case s.Paused != nil:
		return "paused"
	case !s.Open:
		return "closed"
	}
	return "open"
}

// queueRow is a queue in the JSON of `worker queues --json`.
type queueRow struct {
	Queue    string     `json:"queue"`
	State    string     `json:"state"` // open, closed, paused
	Active   int        `json:"active"`
	Pending  int        `json:"pending"`
	Waiting  int        `json:"waiting"`
	Backlog  int64      `json:"backlog"`
	Slots    int        `json:"slots"`
	Hours    string     `json:"hours"` // "": always
	Open     bool       `json:"open"`  // by its hours
	Until    *time.Time `json:"until"` // when its hours change that; null: never
	PausedBy *string    `json:"paused_by"`
	PausedAt *time.Time `json:"paused_at"` // null, as paused_by: it is not paused, or nobody knows
}

func queueRows(all []app.QueueStatus) []queueRow {
	records := []queueRow{}
	for _, s := range all {
		r := queueRow{
			Queue: s.Name, State: queueState(s), Active: s.Active, Pending: s.Pending, Waiting: s.Retry + s.Scheduled,
			Backlog: s.Backlog, Slots: s.Slots, Hours: strings.TrimSpace(s.Hours), Open: s.Open, Until: orNull(s.Until),
		}
		if s.Paused != nil && s.Paused.By != "" {
			r.PausedBy, r.PausedAt = &s.Paused.By, &s.Paused.At
		}
		records = append(records, r)
	}
	return records
}
