package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

// resultFlags say which results go where, and when.
type resultFlags struct {
	out, errors     string
	follow, ordered bool
}

func (p *program) resultsCommand() *cobra.Command {
	var f resultFlags
	c := &cobra.Command{
		Use: "results BATCH", Short: "print the results of a batch, one a line", Args: cli.Args,
		Long: "Prints one JSON object for every line that is finished, in the order in which they finished. It can be used while the batch runs: then it prints what there is, says how much is missing, and the exit code is 0. Once the batch is done, the exit code is 3 where some lines failed, expired or were cancelled; they have a result too.\n\n" +
			"--follow prints each result as its line finishes, until the batch is done. Files are appended to then, and the same command again goes on where they end; a file that holds other results is refused. Ending it (^C, exit code 130) ends nothing else, and a restart of Redis is waited for.",
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			s, err := lookUp(c.Context(), conn, args[0])
			if err != nil {
				return err
			}
			if f.follow {
				return p.followResults(c.Context(), conn, s, f)
			}
			return p.printResults(c.Context(), conn, s, f)
		},
	}
	c.Flags().StringVarP(&f.out, "output", "o", "-", "write to `FILE`, all or nothing, in place of standard output")
	c.Flags().StringVar(&f.errors, "errors", "", "write every result that is no answer (not 2xx) to `FILE`, and only the others where -o says")
	c.Flags().BoolVar(&f.follow, "follow", false, "go on until the batch is done; files are appended to")
	c.Flags().BoolVar(&f.ordered, "ordered", false, "in the order of the lines' numbers; with --follow, each line waits for those before it")
	return c
}

func (f *resultFlags) check() error {
	if f.out == "" {
		f.out = "-"
	}
	if f.errors != "" && sameFile(f.out, f.errors) {
		return cli.Usage("name two files, or leave --errors out", "-o and --errors are both %s", nameOf(f.out))
	}
	return nil
}

// names are where results go: all, or those that succeeded and the rest.
func (f *resultFlags) names() []string {
	if f.errors == "" {
		return []string{f.out}
	}
	return []string{f.out, f.errors}
}

// printResults writes what is finished.
func (p *program) printResults(ctx context.Context, conn *app.Conn, s batch.Status, f resultFlags) error {
	var n int64
	err := writeFiles(f.names(), p.Out, func(w []io.Writer) (err error) {
		n, err = copyResults(ctx, conn, s.ID, f.ordered, w)
		return err
	})
	if err != nil {
		return err
	}
	// The state anew: the last lines may have ended since.
	if s, err = lookUp(ctx, conn, s.ID); err != nil {
		return err
	}
	if n < s.Total || s.State != batch.Done {
		p.Say("%d of %s so far; %s is %s", n, cli.Count(s.Total, "result"), s.ID, s.State)
		return nil
	}
	return p.allDone(s)
}

// allDone is how the results of a batch that is done end.
func (p *program) allDone(s batch.Status) error {
	err := outcomesOf(s).verdict()
	if err != nil {
		p.Say("%s: %s", s.ID, lineCounts(s))
	}
	return err
}

// place is which of the writers a record is for: the last has those that did not
// succeed.
func place(r batch.Record, writers int) int {
	if r.Outcome == batch.Succeeded {
		return 0
	}
	return writers - 1
}

// copyResults streams all records; memory stays flat.
func copyResults(ctx context.Context, conn *app.Conn, id string, ordered bool, to []io.Writer) (n int64, err error) {
	out := make([]*bufio.Writer, len(to))
	for i, w := range to {
		out[i] = bufio.NewWriterSize(w, 64<<10)
	}
	write := func(r batch.Record) error {
		n++
		w := out[place(r, len(out))]
		if _, err := w.Write(r.JSON); err != nil {
			return fmt.Errorf("write result of line %d: %w", r.Line, err)
		}
		return w.WriteByte('\n')
	}
	if ordered {
		var o *batch.Order
		if o, err = conn.Batches.Finished(ctx, id, 0); err == nil {
			err = o.Read(ctx, true, write)
		}
	} else {
		_, err = conn.Batches.Results(ctx, id, 0, write)
	}
	return n, flush(out, err)
}

// flush sends what is left to the outputs, and adds what fails to an error. A writer
// that failed before says the same once more.
func flush(out []*bufio.Writer, err error) error {
	for _, w := range out {
		if failed := w.Flush(); !errors.Is(err, failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
