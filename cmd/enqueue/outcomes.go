package main

import (
	"fmt"
	"strings"

	"nightshift/batch"
	"nightshift/internal/cli"
)

// outcomes counts the lines that ended without success. They are always told
// apart: who cancels a batch has no failures to look into.
type outcomes struct {
	failed, expired, cancelled int64
}

func outcomesOf(s batch.Status) outcomes { return outcomes{s.Failed, s.Expired, s.Cancelled} }

// add counts a line.
func (o *outcomes) add(how batch.Outcome) {
	switch how {
	case batch.Failed:
		o.failed++
	case batch.Expired:
		o.expired++
	case batch.Cancelled:
		o.cancelled++
	}
}

func (o outcomes) total() int64 { return o.failed + o.expired + o.cancelled }

// String names what there is, e.g. "3 failed, 2 expired"; "" where there is nothing.
func (o outcomes) String() string {
	var parts []string
	for _, c := range []struct {
		n   int64
		how batch.Outcome
	}{{o.failed, batch.Failed}, {o.expired, batch.Expired}, {o.cancelled, batch.Cancelled}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.how))
		}
	}
	return strings.Join(parts, ", ")
}

// verdict is the exit code of lines that are all done.
func (o outcomes) verdict() error {
	if o.total() > 0 {
		return cli.Exit(cli.ExitSomeFailed)
	}
	return nil
}
