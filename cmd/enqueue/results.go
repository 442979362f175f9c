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

func (p *program) resultsCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "results BATCH", Short: "print the results of a batch, one a line", Args: cli.Args,
		Long: "Prints one JSON object for every line that is finished, in the order in which they finished. It can be used while the batch runs: then it prints what there is, says how much is missing, and the exit code is 0. Once the batch is done, the exit code is 3 where some lines failed, expired or were cancelled; they have a result too.",
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			s, err := lookUp(c.Context(), conn, args[0])
			if err != nil {
				return err
			}
			n, err := p.writeResults(c.Context(), conn, s.ID, out)
			if err != nil {
				return err
			}
			if n < s.Total {
				p.Say("%d of %s so far; %s is %s", n, cli.Count(s.Total, "result"), s.ID, s.State)
				return nil
			}
			// The state anew: the last lines may have ended since.
			if s, err = lookUp(c.Context(), conn, s.ID); err != nil {
				return err
			}
			err = outcomesOf(s).verdict()
			if err != nil {
				p.Say("%s: %s", s.ID, lineCounts(s))
			}
			return err
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "write to `FILE`, all or nothing, in place of standard output")
	return c
}

// writeResults writes what is finished and returns how many lines that is.
func (p *program) writeResults(ctx context.Context, conn *app.Conn, id, out string) (n int64, err error) {
	if out == "" || out == "-" {
		return copyResults(ctx, conn, id, p.Out)
	}
	err = writeFile(out, func(w io.Writer) error {
		n, err = copyResults(ctx, conn, id, w)
		return err
	})
	return n, err
}

// copyResults streams all records; memory stays flat.
func copyResults(ctx context.Context, conn *app.Conn, id string, w io.Writer) (int64, error) {
	buf := bufio.NewWriterSize(w, 64<<10)
	var n int64
	_, err := conn.Batches.Results(ctx, id, 0, func(r batch.Record) error {
		n++
		if _, err := buf.Write(r.JSON); err != nil {
			return fmt.Errorf("write result of line %d: %w", r.Line, err)
		}
		return buf.WriteByte('\n')
	})
	return n, errors.Join(err, buf.Flush())
}
