package main

import (
	"errors"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/internal/cli"
)

func (p *program) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel BATCH", Short: "end a batch; finished lines keep their results", Args: cli.Args,
		Long: "Ends a batch. Finished lines keep their results, calls under way finish and count, and the other lines end as cancelled.",
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
			if s.State == batch.Done {
				p.Say("%s is done already: %s", s.ID, lineCounts(s))
				return nil
			}
			if err := conn.Batches.Cancel(c.Context(), s.ID); errors.Is(err, batch.ErrNotFound) {
				return noSuchBatch(s.ID)
			} else if err != nil {
				return err
			}
			p.Say("%s is cancelled; what was finished keeps its result", s.ID)
			return conn.Settle(c.Context(), s.ID)
		},
	}
}
