package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"nightshift/config"
	"nightshift/internal/cli"
	"nightshift/internal/sim"
)

//go:embed rehearsal.yaml
var rehearsal string

// realProvider is the configuration that a rehearsal ends with: ten lines to a
// real provider.
//
//go:embed real.yaml
var realProvider string

// rehearse is a stage where the simulator answers and Redis is embedded.
func (p *program) rehearse() (*stage, error) {
	if p.Common.RedisNamed() || p.Common.ConfigNamed() {
		return nil, cli.Usage("leave --config and --redis out", "a rehearsal has a configuration and a Redis of its own")
	}
	s := sim.New(sim.Rehearsal(), sim.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(rehearsal, "SIMULATOR", s.URL())
	cfg, err := config.Parse("rehearsal.yaml", []byte(text), nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the rehearsal's configuration: %w", err), s.Close())
	}
	p.Say("This is a rehearsal: a simulator answers, with a scripted outage of both models.\nNothing leaves this machine and nothing costs money.")
	return &stage{
		cfg: cfg, embedded: true,
		close: func() { _ = s.Close() }, // its listener is all that could fail to close
		after: func() { p.sayReal() },
	}, nil
}

// sayReal says how to do the same for real.
func (p *program) sayReal() {
	p.Say("\nIt was a rehearsal: every result says \"rehearsal\":true. With a real provider, put this into %s:\n\n%s\nthen `export OPENAI_API_KEY=...`, and run the same command without --rehearse (and with another -o).",
		cli.DefaultConfig, indent(realProvider))
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}
