package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"nightshift/config"
	"nightshift/internal/cli"
)

func (p *program) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "write a commented configuration to start from", Args: cli.Args,
		Long: "Writes a configuration with every key, its default and what it means, to --config FILE (nightshift.yaml). A file that is there stays as it is.",
		RunE: func(*cobra.Command, []string) error {
			name := p.Common.Config
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if errors.Is(err, fs.ErrExist) {
				return cli.Fail("name another file with --config FILE", fmt.Errorf("%s exists; it is left as it is", name))
			}
			if err != nil {
				return fmt.Errorf("write configuration: %w", err)
			}
			_, err = f.Write(config.Sample())
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("write configuration: %w", err)
			}
			p.Say("wrote %s; edit the lines marked EDIT, then: worker check", name)
			return nil
		},
	}
}
