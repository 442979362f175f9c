package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

// forcing is what the command of an action does and says.
type forcing struct {
	action      breaker.Action
	use         string
	short, long string
	hold        string // usage of --for; "": it has none
	noHold      string // the hint where --for is no time
}

const whichBreaker = " BREAKER is a model (openai/gpt-4o), a provider (openai) or a region of one (openai@eastus)."

// forcings are the commands that change a breaker.
func forcings() []forcing {
	return []forcing{
		{
			action: breaker.ForceOpen, use: "open BREAKER...", short: "keep calls away from a model or provider",
			long: "Holds breakers open, until `worker breakers close` or for a time. No call goes there and no probe either; lines take the next rung of their ladder or wait, and spend nothing. Calls in flight finish, and their answers count for their lines. After the time it is probed like any other." + whichBreaker +
				" The hold is the fleet's: it outlives workers and restarts of Redis, and the list says whose it is.",
			hold: "hold it open for this `TIME`, e.g. 90m; without it, until it is closed", noHold: "leave --for out to hold it open until it is closed",
		},
		{
			action: breaker.ForceClose, use: "close [BREAKER...]", short: "let calls go to a model or provider again",
			long: "Closes breakers, and ends a hold. Calls go there at once, and lines that wait for it are woken within seconds; what it had counted is forgotten, so it opens again when enough new calls fail. With --for it is held closed for that time, whatever fails." + whichBreaker,
			hold: "hold it closed for this `TIME`, e.g. 10m, whatever fails", noHold: "leave --for out to close it without holding it",
		},
		{
			action: breaker.ForceReset, use: "reset [BREAKER...]", short: "have a breaker begin anew",
			long: "Has breakers begin anew, as if they had never been used: closed, nothing counted, held by nobody. Lines that wait for them are woken within seconds." + whichBreaker,
		},
	}
}

// forceFlags are the flags of the three commands.
type forceFlags struct {
	hold        time.Duration
	all, asJSON bool
}

func (p *program) forceCommand(f forcing) *cobra.Command {
	var flags forceFlags
	c := &cobra.Command{
		Use: f.use, Short: f.short, Long: f.long, Args: cli.Args,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkForce(c, f, flags, args); err != nil {
				return err
			}
			conn, err := p.connectState(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			keys := conn.Levels
			if !flags.all {
				if keys, err = pick(conn, args); err != nil {
					return err
				}
			}
			return p.force(c.Context(), conn, keys, breaker.Force{Action: f.action, For: flags.hold, By: cli.Operator()}, flags.asJSON)
		},
	}
	if f.hold != "" {
		c.Flags().DurationVar(&flags.hold, "for", 0, f.hold)
	}
	if f.action != breaker.ForceOpen {
		c.Flags().BoolVar(&flags.all, "all", false, "all breakers of the configuration")
	}
	jsonFlag(c, &flags.asJSON)
	return c
}

// checkForce checks what can be told wrong from the command line alone.
func checkForce(c *cobra.Command, f forcing, flags forceFlags, args []string) error {
	switch {
	case flags.all && len(args) > 0:
		return cli.Usage("name breakers, or give --all", "--all and %q contradict each other", args[0])
	case !flags.all && len(args) == 0:
		return cli.Usage("name one as in `worker breakers`, or give --all", "BREAKER is missing")
	case c.Flags().Changed("for") && flags.hold <= 0:
		return cli.Usage(f.noHold, "--for %s is no time to hold a breaker", flags.hold)
	}
	if err := (breaker.Force{Action: f.action, For: flags.hold}).Validate(); err != nil {
		return cli.Usage(f.noHold, "--%s", err)
	}
	return nil
}

// force does it to each of the breakers, says what that means, and prints them
// as they are then.
func (p *program) force(ctx context.Context, conn *app.Conn, keys []breaker.Key, f breaker.Force, asJSON bool) error {
	before, err := listed(ctx, conn)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if err := conn.Breakers.Force(ctx, k, f); err != nil {
			return fmt.Errorf("%w (%d of %s done)", err, i, cli.Count(len(keys), "breaker"))
		}
	}
	after, err := listed(ctx, conn)
	if err != nil {
		return err
	}
	now := time.Now()
	p.tellDeeds(f, of(before, keys), now)
	if f.Action == breaker.ForceOpen {
		p.tellLadders(conn, after, keys)
	} else {
		p.tellShut(after, keys)
	}
	speeds, err := readPaces(ctx, conn)
	if err != nil {
		return err
	}
	return p.printBreakers(conn, speeds, after, of(after, keys), asJSON)
}

// tellDeeds says what was done to breakers that were in the given states. Of
// many it leaves out those to which nothing happened.
func (p *program) tellDeeds(f breaker.Force, before []breaker.Status, now time.Time) {
	var same int
	for _, s := range before {
		if f.Action != breaker.ForceOpen && f.For == 0 && len(before) > 1 && s.State == breaker.Closed && s.Held.State == "" && s.Results+s.Judged == 0 {
			same++
			continue
		}
		p.Say("%s", p.deed(f, s, now))
	}
	if same > 0 {
		p.Say("closed already, with nothing counted: %s", cli.Count(same, "breaker"))
	}
}

// deed says what was done to a breaker that was in the given state.
func (p *program) deed(f breaker.Force, was breaker.Status, now time.Time) string {
	name, until := was.Key.String(), ""
	if f.For > 0 {
		until = p.when(now.Add(f.For), now)
	}
	var text string
	switch {
	case f.Action == breaker.ForceOpen && f.For == 0:
		text = fmt.Sprintf("%s is held open until `worker breakers close %s`: no call goes to it, those in flight finish", name, name)
	case f.Action == breaker.ForceOpen:
		text = fmt.Sprintf("%s is held open until %s: no call goes to it, those in flight finish", name, until)
	case f.Action == breaker.ForceReset:
		text = fmt.Sprintf("%s was %s and begins anew: closed, nothing counted", name, words(was.State))
	case was.State == breaker.Closed:
		text = fmt.Sprintf("%s was closed already; its count begins anew", name)
	default:
		text = fmt.Sprintf("%s was %s and is closed", name, words(was.State))
	}
	if f.Action == breaker.ForceClose && f.For > 0 {
		text += "; it stays closed until " + until + ", whatever fails"
	}
	if was.Held.State != "" {
		text += " (it was held " + p.holder(was.Held, now) + ")"
	}
	return text
}

// tellLadders says what opening breakers means for the lines of each ladder
// that has one of their models.
func (p *program) tellLadders(conn *app.Conn, all []breaker.Status, opened []breaker.Key) {
	shut, hit := map[string]bool{}, map[string]bool{} // models
	for _, s := range all {
		if s.Scope == breaker.ScopeModel {
			shut[s.Key.Model] = s.State != breaker.Closed || parentOf(s, all).State != breaker.Closed
			hit[s.Key.Model] = slices.Contains(opened, s.Key) || slices.Contains(opened, s.Key.Parent())
		}
	}
	var climb, late, wait []string
	for _, name := range conn.Config.LadderNames() {
		rungs := conn.Config.Ladders[name].Rungs
		switch {
		case !slices.ContainsFunc(rungs, func(r config.Rung) bool { return hit[r.Model] }):
		case slices.ContainsFunc(rungs, func(r config.Rung) bool { return !shut[r.Model] && !r.AtDeadline }): // a text is never shut
			climb = append(climb, name)
		case slices.ContainsFunc(rungs, func(r config.Rung) bool { return !shut[r.Model] }):
			late = append(late, name)
		default:
			wait = append(wait, name)
		}
	}
	if len(climb) > 0 {
		p.Say("lines of %s go on with their other rungs", ladders(climb))
	}
	if len(late) > 0 {
		p.Say("lines of %s wait for the deadline, and spend no retry", ladders(late))
	}
	if len(wait) > 0 {
		p.Say("lines of %s wait, and spend no retry", ladders(wait))
	}
	if len(climb)+len(late)+len(wait) == 0 {
		p.Say("no ladder has a rung for it, so no line will notice")
	}
}

func ladders(names []string) string {
	if len(names) == 1 {
		return "ladder " + names[0]
	}
	return "ladders " + join(names)
}

// tellShut says that lines go on, or warns of breakers on the other level that
// keep calls away from what was closed.
func (p *program) tellShut(all []breaker.Status, closed []breaker.Key) {
	free := true
	for _, s := range all {
		if s.State == breaker.Closed || slices.Contains(closed, s.Key) {
			continue
		}
		for _, k := range closed {
			if k.Parent() == s.Key || k == s.Key.Parent() {
				p.Warn("%s is %s still, so calls wait for it: worker breakers close %s", s.Key, words(s.State), s.Key)
				free = false
				break
			}
		}
	}
	if free {
		p.Say("waiting lines are woken within seconds, where a worker runs")
	}
}
