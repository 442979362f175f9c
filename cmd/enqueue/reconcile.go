package main

import (
	"errors"
	"fmt"
	"os"

	"nightshift/internal/cli"
)

// purpose is what a run is for, as far as older results are concerned.
type purpose struct {
	rehearsal   bool
	retryFailed bool
}

// fate is what becomes of a line that the output has.
type fate int

const (
	keep       fate = iota // it counts, or is none of ours
	rehearsed              // a rehearsal's, in the way of a real run
	superseded             // its request changed, or it failed and is tried again
	doubled                // the line has a result already
)

// judge says what becomes of an older result, and notes it where it counts.
func (l *ledger) judge(r resultLine, p purpose) fate {
	e, ours := l.lines[r.CustomID]
	switch {
	case !ours:
		return keep
	case r.Nightshift.Rehearsal && !p.rehearsal:
		return rehearsed
	case e.request != r.Nightshift.Request, !r.succeeded() && p.retryFailed:
		return superseded
	case e.done:
		return doubled
	}
	l.settle(r)
	return keep
}

// reconcile reads what the output has already: a line counts as done when its
// result is real and its request unchanged. Results that the run will replace
// leave the file, so that it never has two of one line; what was paid for is
// kept beside it, in NAME.replaced.
func (p *program) reconcile(o *output, l *ledger, why purpose) error {
	cut, err := o.mend()
	if err != nil {
		return err
	}
	if cut > 0 {
		p.Say("mended %s: its last line was torn; cut off %d bytes, the line will be done again", o.name, cut)
	}
	drop, count := map[int]bool{}, map[fate]int{}
	var aside [][]byte
	err = o.each(func(number int, line []byte, r resultLine) error {
		if why.rehearsal && !r.Nightshift.Rehearsal {
			return cli.Usage("name another file with -o", "%s holds real results; a rehearsal needs a file of its own", o.name)
		}
		f := l.judge(r, why)
		if f == keep {
			return nil
		}
		count[f]++
		drop[number] = true
		if f == superseded {
			aside = append(aside, append(line, '\n'))
		}
		return nil
	})
	if err != nil || len(drop) == 0 {
		return err
	}
	if err := setAside(o.name+".replaced", aside); err != nil {
		return err
	}
	if err := o.without(drop); err != nil {
		return err
	}
	p.sayReplaced(o.name, count)
	return nil
}

func (p *program) sayReplaced(name string, count map[fate]int) {
	if n := count[rehearsed]; n > 0 {
		p.Say("removed %s of a rehearsal from %s", cli.Count(n, "result"), name)
	}
	if n := count[doubled]; n > 0 {
		p.Say("removed %s from %s whose lines have one already", cli.Count(n, "result"), name)
	}
	if n := count[superseded]; n > 0 {
		p.Say("%s will be replaced; moved from %s to %s.replaced", cli.Count(n, "result"), name, name)
	}
}

// setAside appends results to a file and writes them through to the disk.
func setAside(name string, lines [][]byte) error {
	if len(lines) == 0 {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return fmt.Errorf("set results aside: %w", err)
	}
	for _, line := range lines {
		if _, err := f.Write(line); err != nil {
			return errors.Join(fmt.Errorf("set results aside: %w", err), f.Close())
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("set results aside: %w", err)
	}
	return nil
}
