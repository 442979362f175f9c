package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"nightshift/breaker"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

func (p *program) showCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show BREAKER...", Short: "one breaker and its last transitions", Args: cli.Args,
		Long: "Shows breakers with their last transitions, the newest first: when each of them opened and closed, and why." + whichBreaker,
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := p.connectState(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			keys, err := pick(conn, args)
			if err != nil {
				return err
			}
			all, err := listed(c.Context(), conn)
			if err != nil {
				return err
			}
			speeds, err := readPaces(c.Context(), conn)
			if err != nil {
				return err
			}
			some := of(all, keys)
			if asJSON {
				return cli.JSON(p.Out, breakerRecords(some, speeds))
			}
			return p.showBreakers(conn, speeds, all, some)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (p *program) showBreakers(conn *app.Conn, speeds paces, all, some []breaker.Status) error {
	now := time.Now()
	for i, s := range some {
		if i > 0 {
			fmt.Fprintln(p.Out)
		}
		numbers := conn.Numbers(s.Key)
		pairs := [][2]string{
			{"breaker", s.Key.String() + ", " + describe(s.Key)},
			{"state", words(s.State)},
			{"failed", fmt.Sprintf("%d of the last %d calls; %d of %d open it", s.Failures, s.Results, numbers.Failures, s.Window)},
			{"cooldown", fmt.Sprintf("%s when it opens next, at most %s", brief(s.Cooldown), brief(numbers.MaxCooldown))},
		}
		if s.State != breaker.Closed && !s.Until.IsZero() {
			pairs[1][1] += ", until " + p.ends(s, now)
		}
		for _, d := range p.details(s, parentOf(s, all), speeds, now) {
			pairs = append(pairs, [2]string{d.name, d.text})
		}
		if err := cli.Pairs(p.Out, pairs); err != nil {
			return err
		}
		if err := p.printHistory(s.Transitions, now); err != nil {
			return err
		}
	}
	return nil
}

// describe says what a breaker is for.
func describe(k breaker.Key) string {
	switch {
	case k.Scope() == breaker.ScopeModel:
		return "a model of " + k.Parent().String()
	case k.Region != "":
		return "the region " + k.Region + " of " + k.Provider + " as a whole"
	}
	return "the provider as a whole"
}

func (p *program) printHistory(transitions []breaker.Transition, now time.Time) error {
	if len(transitions) == 0 {
		_, err := fmt.Fprintln(p.Out, "history   none: it has been closed all along")
		return err
	}
	var rows [][]string
	for _, t := range transitions {
		rows = append(rows, []string{p.clock(t.At, now), words(t.From), words(t.To), t.Reason})
	}
	return cli.Table(p.Out, []string{"AT (" + p.Zone(now) + ")", "FROM", "TO", "REASON"}, rows)
}
