package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"nightshift/batch"
	"nightshift/internal/cli"
)

// figures are the tokens and the cost of a forecast, in words.
func figures(f batch.Forecast) string {
	lines := cli.Count(f.Lines, "line")
	if f.TooLarge > 0 {
		lines += fmt.Sprintf(" (%d too large for every rung)", f.TooLarge)
	}
	return fmt.Sprintf("%s, about %d tokens in and %d out, %s", lines, f.InputTokens, f.OutputTokens, estimatedCost(f))
}

// estimatedCost is what a batch is thought to cost, without the models that have no price.
func estimatedCost(f batch.Forecast) string {
	cost := money(f.CostUSD)
	if len(f.Unpriced) > 0 {
		return fmt.Sprintf("%s (without %s, which has no price)", cost, strings.Join(f.Unpriced, ", "))
	}
	return cost
}

// finish is when a batch is thought to be done, and why not sooner.
func (p *program) finish(f batch.Forecast) string {
	if f.FinishAt == nil {
		return "not known: no limit of its models is configured or learned yet"
	}
	text := fmt.Sprintf("about %s, in %s: %s", p.Clock(*f.FinishAt, f.At), cli.Duration(f.FinishAt.Sub(f.At)), boundText(f.Bounds[0]))
	if f.Ahead > 0 {
		text += fmt.Sprintf("; %s of other batches come first", cli.Count(f.Ahead, "line"))
	}
	return text
}

// boundText is a bound in words.
func boundText(b batch.Bound) string {
	n := strconv.FormatFloat(b.Limit, 'f', -1, 64)
	switch b.What {
	case batch.BoundRequests:
		return fmt.Sprintf("%s calls a minute of %s (%s)", n, b.Model, b.Source)
	case batch.BoundTokens:
		return fmt.Sprintf("%s tokens a minute of %s (%s)", n, b.Model, b.Source)
	case batch.BoundConcurrency:
		return fmt.Sprintf("%s calls of %s in flight (%s)", n, b.Model, b.Source)
	case batch.BoundSlots:
		return n + " slots of the workers that run"
	case batch.BoundGlobalGuard:
		return fmt.Sprintf("the hourly guard, %s calls of all producers", n)
	case batch.BoundGuardUSD:
		return fmt.Sprintf("the hourly guard, $%s of the producer", n)
	}
	return fmt.Sprintf("the hourly guard, %s calls of the producer", n)
}

// guardText is the guard's arithmetic in words.
func (p *program) guardText(g *batch.GuardForecast, now time.Time) []string {
	if g == nil {
		return []string{"no limit"}
	}
	var rows []string
	if g.CallsPerHour > 0 {
		rows = append(rows, fmt.Sprintf("%s: %d of %d calls an hour used%s", g.Producer, g.Calls, g.CallsPerHour, outstanding(g.Outstanding)))
	}
	if g.USDPerHour > 0 {
		rows = append(rows, fmt.Sprintf("%s: $%s of $%s an hour used", g.Producer, g.USD, g.USDPerHour))
	}
	if g.GlobalCallsPerHour > 0 {
		rows = append(rows, fmt.Sprintf("all producers: %d of %d calls an hour used", g.GlobalCalls, g.GlobalCallsPerHour))
	}
	if g.Until != nil {
		rows = append(rows, "it is open until "+p.Clock(*g.Until, now))
	}
	return append(rows, verdict(g))
}

func outstanding(lines int64) string {
	if lines == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of other batches outstanding", cli.Count(lines, "line"))
}

// verdict is the guard's judgement of a batch in words.
func verdict(g *batch.GuardForecast) string {
	through := "the batch passes at once"
	if g.Seconds > 0 {
		through = "the batch is through in " + cli.Duration(time.Duration(g.Seconds)*time.Second)
	}
	switch g.Verdict {
	case batch.Tight:
		return through + ", just before its deadline"
	case batch.Late:
		if g.Needed == 0 {
			return through + ", after its deadline, whatever its allowance"
		}
		return fmt.Sprintf("%s, after its deadline: it needs an allowance of %d", through, g.Needed)
	}
	return through
}

// sayForecast tells on standard error what a batch will take.
func (p *program) sayForecast(f batch.Forecast) {
	p.Say("forecast: %s", figures(f))
	p.Say("  done: %s", p.finish(f))
	if g := f.Guard; g != nil && (g.Seconds > 0 || g.Until != nil) {
		p.Say("  guard: %s", strings.Join(p.guardText(g, f.At), "; "))
	}
}

// foreseen are the rows of a status that hold a forecast against what happened.
func (p *program) foreseen(s batch.Status, now time.Time) []string {
	f := s.Forecast
	if f == nil {
		return nil
	}
	row := money(f.CostUSD)
	if f.FinishAt != nil {
		row = fmt.Sprintf("%s, and %s", cli.Duration(f.FinishAt.Sub(f.At)), row)
	}
	if s.FinishedAt != nil {
		return []string{row, fmt.Sprintf("it took %s, and %s", cli.Duration(s.FinishedAt.Sub(s.CreatedAt)), money(s.CostUSD))}
	}
	if f.FinishAt == nil {
		return []string{row}
	}
	row += fmt.Sprintf(" (done at about %s: %s)", p.Clock(*f.FinishAt, now), boundText(f.Bounds[0]))
	by := f.LinesBy(now)
	return []string{row, fmt.Sprintf("by now %s and %s were foreseen, it is %d and %s", cli.Count(by, "line"), money(f.CostOf(by)), s.Total-s.Outstanding, money(s.CostUSD))}
}
