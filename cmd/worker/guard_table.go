package main

import (
	"fmt"
	"time"

	"nightshift/internal/cli"
	"nightshift/limit"
	"nightshift/provider"
)

// printGuards prints producers, as JSON or as a table.
func (p *program) printGuards(all []limit.GuardStatus, asJSON bool) error {
	if asJSON {
		return cli.JSON(p.Out, guardRecords(all))
	}
	if len(all) == 0 {
		return nil
	}
	now := time.Now()
	var rows [][]string
	var details []string // of each row
	for _, s := range all {
		until := "-"
		if s.Open {
			until = p.when(s.Until, now)
		}
		rows = append(rows, []string{s.Producer, stateOf(s), spent(s.Calls, s.Limits.Calls), spent(provider.USD(s.USD), provider.USD(s.Limits.USD)), fmt.Sprint(s.Waiting), until})
		var text []detail
		if !s.Released.IsZero() {
			text = append(text, detail{"released", fmt.Sprintf("by %s at %s", s.ReleasedBy, p.clock(s.Released, now))})
		}
		details = append(details, indented(text, "    "))
	}
	return p.printRows([]string{"PRODUCER", "STATE", "CALLS", "USD", "WAITING", "UNTIL (" + p.Zone(now) + ")"}, rows, details)
}

// spent is what was used of a limit.
func spent[N ~int64](used, limit N) string {
	if limit <= 0 {
		return fmt.Sprint(used)
	}
	return fmt.Sprintf("%v of %v", used, limit)
}

func callsOf(s limit.GuardStatus) string {
	if s.Limits.Calls > 0 {
		return spent(s.Calls, s.Limits.Calls) + " calls"
	}
	return cli.Count(s.Calls, "call")
}

func usdOf(s limit.GuardStatus) string {
	return spent(provider.USD(s.USD), provider.USD(s.Limits.USD)) + " USD"
}
