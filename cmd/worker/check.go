package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

func (p *program) checkCommand() *cobra.Command {
	var o app.CheckOptions
	c := &cobra.Command{
		Use: "check", Short: "check the configuration, Redis and every model", Args: cli.Args,
		Long: "Checks the configuration, Redis (version, persistence, eviction) and every model, which gets one probe: a short prompt with a tiny token limit, which is a purchase. Says which ladders have no last resort, so that their lines wait, and which have a text that waits for nothing. The exit code is 1 where something is wrong; warnings and notes do not count. Where no Redis is named, one that does not answer is a warning: `enqueue run` embeds one.",
		RunE: func(c *cobra.Command, _ []string) error {
			var opts []config.Option
			if o.NoProbe {
				opts = append(opts, config.WithoutKeys())
			}
			cfg, err := p.LoadConfig(opts...)
			if err != nil {
				return err
			}
			r, err := app.Check(c.Context(), cfg, o)
			if err != nil {
				return err
			}
			if err := p.printReport(cfg, r); err != nil || !r.Failed() {
				return err
			}
			return cli.Exit(cli.ExitError)
		},
	}
	c.Flags().BoolVar(&o.NoProbe, "no-probe", false, "call no model; no key is needed then")
	return c
}

func (p *program) printReport(cfg *config.Config, r app.Report) error {
	rows := [][]string{{"config", p.Common.Config, string(app.Good), strings.Join([]string{
		cli.Count(len(cfg.Queues), "queue"), cli.Count(len(cfg.Ladders), "ladder"), cli.Count(len(cfg.Models), "model"),
	}, ", ")}}
	for _, f := range r.Findings {
		rows = append(rows, []string{f.What, f.Name, string(f.Grade), f.Detail})
	}
	return cli.Table(p.Out, []string{"WHAT", "NAME", "STATE", "DETAIL"}, rows)
}
