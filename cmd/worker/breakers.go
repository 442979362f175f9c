package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

func (p *program) breakersCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "breakers", Short: "list the breakers of all providers and models", Args: cli.Args,
		Long: "Lists the breakers of all providers and models of the configuration, as the fleet sees them.",
		RunE: func(c *cobra.Command, _ []string) error { return p.listBreakers(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON; times are RFC 3339")
	return c
}

func (p *program) listBreakers(ctx context.Context, asJSON bool) error {
	cfg, err := p.LoadShared(config.WithoutKeys())
	if err != nil {
		return err
	}
	conn, err := app.Connect(ctx, cfg, p.Logger(slog.LevelWarn))
	if err != nil {
		return orNoRedis(err)
	}
	defer conn.Close()
	all, err := conn.Breakers.List(ctx, conn.Levels)
	if err != nil {
		return fmt.Errorf("list breakers: %w", err)
	}
	if asJSON {
		return cli.JSON(p.Out, breakerRecords(all))
	}
	var rows [][]string
	now := time.Now()
	for _, s := range all {
		rows = append(rows, []string{
			string(s.Scope), s.Key.String(), orDash(s.Key.Region), strings.ReplaceAll(string(s.State), "_", "-"),
			fmt.Sprintf("%d of %d", s.Failures, s.Results), p.Clock(s.Until, now), orDash(s.Reason),
		})
	}
	return cli.Table(p.Out, []string{"SCOPE", "BREAKER", "REGION", "STATE", "FAILED", "UNTIL", "REASON"}, rows)
}

// breakerRecord is a breaker in the JSON of `worker breakers --json`.
type breakerRecord struct {
	Scope      breaker.Scope `json:"scope"`
	Provider   string        `json:"provider"`
	Model      string        `json:"model"`
	Region     string        `json:"region"`
	State      breaker.State `json:"state"`
	Reason     string        `json:"reason"`
	Until      *time.Time    `json:"until"` // null while it is closed
	CooldownMS int64         `json:"cooldown_ms"`
	Failures   int           `json:"failures"`
	Results    int           `json:"results"`
	Window     int           `json:"window"`
}

func breakerRecords(all []breaker.Status) []breakerRecord {
	records := []breakerRecord{}
	for _, s := range all {
		r := breakerRecord{
			Scope: s.Scope, Provider: s.Key.Provider, Model: s.Key.Model, Region: s.Key.Region, State: s.State, Reason: s.Reason,
			CooldownMS: s.Cooldown.Milliseconds(), Failures: s.Failures, Results: s.Results, Window: s.Window,
		}
		if !s.Until.IsZero() {
			until := s.Until
			r.Until = &until
		}
		records = append(records, r)
	}
	return records
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func join(names []string) string { return strings.Join(names, ", ") }
