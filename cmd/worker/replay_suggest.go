package main

import (
	"cmp"
	"context"
	"fmt"

	"nightshift/internal/cli"
	"nightshift/replay"
)

// suggest prints the frontier of the numbers that a breaker can have.
func (p *program) suggest(ctx context.Context, in *replayInput, f replayFlags) error {
	all, err := replay.Suggest(in.question)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if f.json {
		return cli.JSON(p.Out, all)
	}
	var rows [][]string
	for _, c := range all {
		if !c.Frontier && !c.Configured {
			continue
		}
		note := ""
		if c.Configured {
			note = "as configured"
			if !c.Frontier {
				note += "; others are better"
			}
		}
		rows = append(rows, []string{
			fmt.Sprint(c.Window), fmt.Sprint(c.Failures), fmt.Sprintf("%gs", c.Cooldown), fmt.Sprint(c.Wasted), fmt.Sprint(c.Probes),
			fmt.Sprint(c.FalseTrips), fmt.Sprintf("%.1f", c.WaitP95), note,
		})
	}
	if err := cli.Table(p.Out, []string{"WINDOW", "FAILURES", "COOLDOWN", "WASTED", "PROBES", "FALSE TRIPS", "WAIT P95 S", ""}, rows); err != nil {
		return err
	}
	p.Say("%s tried for the breakers of all models; these are the ones that no other beats. They fit this traffic: a quiet night says little about a bad one", cli.Count(len(all)-1, "pair"))
	return nil
}
