package main

import (
	"github.com/spf13/cobra"

	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

func (p *program) dashboardCommand() *cobra.Command {
	var addr string
	c := &cobra.Command{
		Use: "dashboard", Short: "serve the web page alone", Args: cli.Args,
		Long: "Serves the web page alone: batches and breakers, and the queues under /queues. On an address that is not loopback it needs dashboard.token_env.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := p.LoadShared(config.WithoutKeys())
			if err != nil {
				return err
			}
			if addr != "" {
				cfg.Dashboard.Addr = addr
			}
			if cfg.Dashboard.Addr == "" {
				return cli.Usage("name one with --addr, e.g. --addr 127.0.0.1:8080", "dashboard.addr is empty in %s", p.Common.Config)
			}
			return p.serve(c.Context(), cfg, app.Options{Dashboard: true})
		},
	}
	c.Flags().StringVar(&addr, "addr", "", "listen on `ADDR` in place of dashboard.addr")
	return c
}
