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
	"nightshift/limit"
	"nightshift/provider"
)

func (p *program) guardCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "guard", Short: "list what each producer called in the hour; release who is over the limit", Args: cli.Args,
		Long: "Lists the hourly guard: every producer with calls in the last hour or limits of its own, and as `*` all of them together where they have a limit. CALLS and USD are those of the last hour and the limit, WAITING the lines that have a place, UNTIL when the next new call is let in. `system` is the producer of probes, which are never refused.\n\n" +
			"docs/limits.md explains the guard, and how to let a batch or a producer through.",
		RunE: func(c *cobra.Command, _ []string) error {
			conn, err := p.connectState(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			all, err := conn.Guards(c.Context())
			if err != nil {
				return err
			}
			if err := p.printGuards(all, asJSON); err != nil || asJSON {
				return err
			}
			p.Say("%s", guardSummary(all))
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	c.AddCommand(p.releaseCommand())
	return c
}

func (p *program) releaseCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "release PRODUCER...", Short: "have a producer's hour begin anew", Args: cli.Args,
		Long: "Sets what producers called in the hour to nothing, calls and USD: they may use their whole limit again. Lines that wait for it are woken within seconds. Who did it and when stands in the list. PRODUCER is a name as in `worker guard`; '*' is the limit of all together, which the release of one producer does not change.",
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := p.connectState(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			return p.release(c.Context(), conn, args, asJSON)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// release sets the hours of producers to nothing, says what that means, and
// prints them as they are then.
func (p *program) release(ctx context.Context, conn *app.Conn, names []string, asJSON bool) error {
	before, err := conn.Guards(ctx)
	if err != nil {
		return err
	}
	some, err := pickGuards(before, names)
	if err != nil {
		return err
	}
	for i, s := range some {
		if err := conn.Guard.Reopen(ctx, s.Producer, cli.Operator()); err != nil {
			return fmt.Errorf("%w (%d of %s done)", err, i, cli.Count(len(some), "producer"))
		}
	}
	after, err := conn.Guards(ctx)
	if err != nil {
		return err
	}
	p.tellReleased(some, after)
	released := func(s limit.GuardStatus) bool { return slices.Contains(names, s.Producer) }
	return p.printGuards(slices.DeleteFunc(after, func(s limit.GuardStatus) bool { return !released(s) }), asJSON)
}

// pickGuards returns the guards of the names, each once. All names that are
// nobody's are reported at once.
func pickGuards(all []limit.GuardStatus, names []string) ([]limit.GuardStatus, error) {
	var some []limit.GuardStatus
	var known, wrong []string
	for _, s := range all {
		known = append(known, s.Producer)
		if slices.Contains(names, s.Producer) {
			some = append(some, s)
		}
	}
	for _, name := range names {
		switch {
		case slices.Contains(known, name):
		case name == limit.AllProducers:
			wrong = append(wrong, "there is no limit of all producers")
		default:
			wrong = append(wrong, fmt.Sprintf("producer %q has no calls in the hour", name))
		}
	}
	if len(wrong) > 0 {
		return nil, cli.Fail(knownProducers(known), fmt.Errorf("%s", strings.Join(wrong, "\n")))
	}
	return some, nil
}

func knownProducers(known []string) string {
	if n := len(known); n == 0 || n > 20 {
		return "`worker guard` lists who has"
	}
	return "these have, or have limits of their own: " + join(known)
}

// tellReleased says what was released, and warns where the limit of all keeps
// calls away still.
func (p *program) tellReleased(before, after []limit.GuardStatus) {
	for _, s := range before {
		text := fmt.Sprintf("%s begins a new hour: it had %s and %s", who(s.Producer), callsOf(s), usdOf(s))
		if s.Open {
			text += "; it was open, and is closed"
		}
		p.Say("%s", text)
	}
	if i := slices.IndexFunc(after, func(s limit.GuardStatus) bool { return s.Producer == limit.AllProducers && s.Open }); i >= 0 {
		p.Warn("the limit of all producers is reached still, so calls wait for it: worker guard release '*'")
		return
	}
	if slices.ContainsFunc(before, func(s limit.GuardStatus) bool { return s.Waiting > 0 }) {
		p.Say("waiting lines are woken within seconds, where a worker runs")
	}
}

func who(producer string) string {
	if producer == limit.AllProducers {
		return "the count of all producers"
	}
	return "producer " + producer
}

// guardSummary is the list in one line.
func guardSummary(all []limit.GuardStatus) string {
	var open int
	for _, s := range all {
		if s.Open {
			open++
		}
	}
	switch {
	case len(all) == 0:
		return "nobody called in the last hour"
	case open > 0:
		return fmt.Sprintf("over the limit: %d of %d; `worker guard release PRODUCER` lets one through", open, len(all))
	}
	return "nobody is over a limit"
}

// guardRecord is a producer in the JSON of `worker guard --json`.
type guardRecord struct {
	Producer     string       `json:"producer"`
	State        string       `json:"state"`
	Calls        int64        `json:"calls"`
	CallsPerHour int64        `json:"calls_per_hour"` // 0: no limit
	USD          provider.USD `json:"usd"`
	USDPerHour   provider.USD `json:"usd_per_hour"` // 0: no limit
	Until        *time.Time   `json:"until"`        // null while it is closed
}

func guardRecords(all []limit.GuardStatus) []guardRecord {
	records := []guardRecord{}
	for _, s := range all {
		records = append(records, guardRecord{
			Producer: s.Producer, State: stateOf(s), Calls: s.Calls, CallsPerHour: s.Limits.Calls,
			USD: provider.USD(s.USD), USDPerHour: provider.USD(s.Limits.USD), Until: orNull(s.Until),
		})
	}
	return records
}

func stateOf(s limit.GuardStatus) string {
	if s.Open {
		return "open"
	}
	return "closed"
}
