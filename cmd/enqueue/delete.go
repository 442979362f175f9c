package main

import (
	"github.com/spf13/cobra"

	"nightshift/internal/cli"
)

func (p *program) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete BATCH", Short: "delete a batch, its requests and its results", Args: cli.Args,
		Long: "Deletes all that is kept of a batch: requests, results and counts. Only a batch that is done or cancelled can be deleted; of one that was cancelled, calls still under way finish, but their answers are lost. An interrupted deletion goes on when it is repeated, and is otherwise completed by the workers.\n\n" +
			"Batches are deleted by themselves batches.keep (168h) after their end.",
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := p.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			s, err := conn.Status(c.Context(), args[0])
			if err != nil { // it may be half deleted
				s.ID = args[0]
			}
			if err := conn.Deleter.Delete(c.Context(), s.ID); err != nil {
				return p.notChanged(s, err)
			}
			p.Say("%s is deleted", s.ID)
			return nil
		},
	}
}
