package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"nightshift/breaker"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

// columns is the width that the list keeps to, but for long names of models.
const columns = 100

// printBreakers prints some breakers of all, as JSON or as a table.
func (p *program) printBreakers(conn *app.Conn, speeds paces, all, some []breaker.Status, asJSON bool) error {
	if asJSON {
		return cli.JSON(p.Out, breakerRecords(some, speeds))
	}
	now := time.Now()
	var rows [][]string
	var details []string // of each row
	shown := map[breaker.Key]bool{}
	for _, s := range some {
		indent := ""
		if s.Scope == breaker.ScopeModel && shown[s.Key.Parent()] {
			indent = "  "
		}
		shown[s.Key] = true
		opens := conn.Numbers(s.Key)
		rows = append(rows, []string{
			indent + s.Key.String(), string(s.Scope), words(s.State),
			fmt.Sprintf("%d of %d", s.Failures, s.Results), fmt.Sprintf("%d of %d", opens.Failures, s.Window),
			brief(s.Cooldown), p.ends(s, now),
		})
		details = append(details, indented(p.details(s, parentOf(s, all), speeds, now), indent+"    "))
	}
	header := []string{"BREAKER", "SCOPE", "STATE", "FAILED", "OPENS AT", "COOLDOWN", "UNTIL (" + p.Zone(now) + ")"}
	return p.printRows(header, rows, details)
}

// printRows prints a table with lines of text below its rows.
func (p *program) printRows(header []string, rows [][]string, below []string) error {
	var table, out bytes.Buffer
	if err := cli.Table(&table, header, rows); err != nil {
		return err
	}
	for i, line := range strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n") {
		out.WriteString(strings.TrimRight(line, " ") + "\n")
		if i > 0 {
			out.WriteString(below[i-1])
		}
	}
	if _, err := out.WriteTo(p.Out); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// parentOf returns the breaker above a model's; of a parent, itself.
func parentOf(s breaker.Status, all []breaker.Status) breaker.Status {
	for _, p := range all {
		if p.Key == s.Key.Parent() {
			return p
		}
	}
	return s
}

// detail is one thing to know of a breaker, by its name.
type detail struct{ name, text string }

// details is what the columns cannot hold.
func (p *program) details(s, parent breaker.Status, speeds paces, now time.Time) []detail {
	var all []detail
	if s.Held.State != "" {
		all = append(all, detail{"held", p.hold(s.Held, now)})
	}
	if s.State != breaker.Closed {
		if s.Held.State == "" {
			all = append(all, detail{"reason", s.Reason})
		}
		all = append(all, detail{"probe", p.probe(s, parent, now)})
	}
	if s.Invalid > 0 {
		all = append(all, detail{"outputs", fmt.Sprintf("%d of the last %d invalid (%d%%)", s.Invalid, s.Judged, 100*s.Invalid/s.Judged)})
	}
	if text := p.pace(speeds[s.Key], now); text != "" {
		all = append(all, detail{"pace", text})
	}
	return all
}

// holder says who holds a breaker in which state, and since when.
func (p *program) holder(h breaker.Held, now time.Time) string {
	return fmt.Sprintf("%s by %s since %s", words(h.State), h.By, p.clock(h.At, now))
}

// hold is holder, and until when.
func (p *program) hold(h breaker.Held, now time.Time) string {
	text := p.holder(h, now)
	if h.Until.IsZero() {
		return text + ", until it is closed or reset"
	}
	return text + ", until " + p.when(h.Until, now)
}

// probe says what comes of a breaker that is not closed, in the order in which
// the breaker decides it.
func (p *program) probe(s, parent breaker.Status, now time.Time) string {
	due := s.State == breaker.HalfOpen || !s.Until.After(now)
	switch {
	case s.Probing > 0:
		return fmt.Sprintf("%d in flight, at most until %s", s.Probing, p.when(s.Until, now))
	case s.Held.State == breaker.Open:
		return "none while it is held"
	case s.Key != parent.Key && parent.State != breaker.Closed:
		return "none before " + parent.Key.String() + " is closed"
	case !s.Wanted:
		return "none until a line asks for it"
	case s.TaskProbes && due:
		return "due now: a waiting line is woken for it"
	case s.TaskProbes:
		return "a waiting line at " + p.when(s.Until, now)
	case due:
		return "due now"
	}
	return "next at " + p.when(s.Until, now)
}

// ends is when a breaker's state ends by itself.
func (p *program) ends(s breaker.Status, now time.Time) string {
	switch {
	case s.State == breaker.Closed:
		return "-"
	case s.Until.IsZero():
		return "for good"
	}
	return p.when(s.Until, now)
}

// clock is a time, with its zone only where it is not that of the list.
func (p *program) clock(t, now time.Time) string {
	return strings.TrimSuffix(p.Clock(t, now), " "+p.Zone(now))
}

// when is a time and how far away it is.
func (p *program) when(t, now time.Time) string {
	if !t.After(now) {
		return p.clock(t, now) + " (now)"
	}
	return p.clock(t, now) + " (in " + brief(t.Sub(now)) + ")"
}

// brief is a span without what nobody waits for: 22s, 4m12s, 5m, 1h00m.
func brief(d time.Duration) string {
	if d < time.Second {
		return cli.Duration(d)
	}
	if d = d.Round(time.Second); d >= time.Hour {
		return cli.Duration(d)
	}
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		return short + "m"
	}
	return text
}

func words(s breaker.State) string { return strings.ReplaceAll(string(s), "_", "-") }

// indented writes details as lines, broken at words so that they fit.
func indented(all []detail, indent string) string {
	var out strings.Builder
	for _, d := range all {
		line := indent + d.name + ":"
		for _, word := range strings.Fields(d.text) {
			if len([]rune(line+" "+word)) > columns {
				out.WriteString(line + "\n")
				line = indent + strings.Repeat(" ", len(d.name)+1)
			}
			line += " " + word
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}
