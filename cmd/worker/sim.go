package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"

	"nightshift/internal/cli"
	"nightshift/internal/sim"
)

func (p *program) simCommand() *cobra.Command {
	var addr, script string
	c := &cobra.Command{
		Use: "sim", Short: "serve the provider simulator, for rehearsals", Args: cli.Args,
		Long: "Serves a provider of OpenAI's and Anthropic's shape that answers with what it was asked, and fails as its script says. Prints its base URL on standard output. " +
			"It sends nothing anywhere and needs no key.\n\n" +
			"The kinds of fault in a script: " + faultKinds() + ". docs/formats.md explains them and the script, and examples/outage.yaml is one.",
		RunE: func(c *cobra.Command, _ []string) error { return p.simulate(c.Context(), addr, script) },
	}
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:9300", "listen on `ADDR`")
	c.Flags().StringVar(&script, "script", "", "the `FILE` with latencies and faults, YAML; without one it answers at once and never fails")
	return c
}

// faultKinds lists the kinds as a script has them: numbers need quotes in YAML.
func faultKinds() string {
	var all []string
	for _, k := range sim.Kinds() {
		text := string(k)
		if _, err := strconv.Atoi(text); err == nil {
			text = strconv.Quote(text)
		}
		all = append(all, text)
	}
	return join(all)
}

func (p *program) simulate(ctx context.Context, addr, file string) error {
	var script sim.Script
	if file != "" {
		var err error
		if script, err = sim.LoadFile(file); err != nil {
			return err
		}
	}
	log := p.Logger(slog.LevelInfo)
	s := sim.New(script, sim.Options{Logger: log})
	if err := s.Start(addr); err != nil {
		return err
	}
	fmt.Fprintln(p.Out, s.URL())
	log.Info("started", "url", s.URL(), "script", file)
	<-ctx.Done()
	counts := s.Counts()
	if err := s.Close(); err != nil {
		return fmt.Errorf("stop simulator: %w", err)
	}
	log.Info("stopped", "calls", counts.Calls)
	return ended(ctx)
}
