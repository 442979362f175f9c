package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

func (p *program) estimateCommand() *cobra.Command {
	var (
		i      intent
		asJSON bool
	)
	c := &cobra.Command{
		Use: "estimate FILE", Short: "what a file would take: tokens, cost, time, and the guard's verdict", Args: cli.Args,
		Long: "Checks a file of requests as batch does and tells what it would take: tokens and USD by rung of the queue's ladder, when it would be done under the limits that are known, and whether the hourly guard lets it through in time. Nothing is sent and nothing is enqueued.\n\n" +
			"Tokens are counted roughly, a token for about four bytes; an answer is thought to be as long as max_tokens allows, or 500 tokens. The figures are those of one call a line: retries, repairs and outages come on top. " +
			"Limits are those of the configuration and, where Redis answers, what the fleet has learned and what is outstanding.",
		RunE: func(c *cobra.Command, args []string) error { return p.estimateFile(c.Context(), i, asJSON, args[0]) },
	}
	c.Flags().StringVar(&i.queue, "queue", "", "estimate for this `QUEUE`; default: the first of the configuration")
	c.Flags().StringVar(&i.producer, "producer", "", "`NAME` of who would submit; default: NIGHTSHIFT_PRODUCER, else the user's name")
	i.terms.scheduleFlags(c)
	c.Flags().Int64Var(&i.terms.allowance, "allowance", 0, allowanceHelp)
	c.Flags().BoolVar(&i.ignoreModel, "ignore-model", false, ignoreModelHelp)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON; times are RFC 3339")
	return c
}

func (p *program) estimateFile(ctx context.Context, i intent, asJSON bool, file string) error {
	producer, err := producerOf(i.producer)
	if err != nil {
		return err
	}
	cfg, err := p.LoadConfig(config.WithoutKeys())
	if err != nil {
		return err
	}
	w, err := p.weigh(ctx, cfg, i, producer, "", file)
	if err != nil {
		return err
	}
	defer w.in.close()
	o, err := p.outlook(ctx, cfg, w.d)
	if err != nil {
		return err
	}
	forecast := batch.Foresee(w.work, o)
	if asJSON {
		return cli.JSON(p.Out, forecast)
	}
	return p.printEstimate(forecast, w.d)
}

// outlook is what is known of limits: what the fleet knows, or, where no Redis
// answers, the configuration alone.
func (p *program) outlook(ctx context.Context, cfg *config.Config, d batch.Description) (batch.Outlook, error) {
	if t, err := cfg.Redis.Target(); err != nil || t.Kind == config.RedisEmbedded {
		return app.Outlook(cfg, d, d.CreatedAt), err
	}
	conn, err := p.dial(ctx, cfg)
	if errors.Is(err, app.ErrNoRedis) && ctx.Err() == nil {
		p.Warn("redis does not answer: limits are those of the configuration alone")
		return app.Outlook(cfg, d, d.CreatedAt), nil
	}
	if err != nil {
		return batch.Outlook{}, err
	}
	defer conn.Close()
	return conn.Outlook(ctx, d, d.CreatedAt)
}

func (p *program) printEstimate(f batch.Forecast, d batch.Description) error {
	var rows [][]string
	for i, r := range f.Rungs {
		cost := "no price"
		if r.CostUSD != nil {
			cost = money(*r.CostUSD)
		}
		rows = append(rows, []string{
			fmt.Sprint(i + 1), r.Model, fmt.Sprint(r.Lines), orDash(numberOrNone(r.TooLarge)),
			fmt.Sprint(r.InputTokens), fmt.Sprint(r.OutputTokens), cost,
		})
	}
	if err := cli.Table(p.Out, []string{"RUNG", "MODEL", "LINES", "TOO LARGE", "TOKENS IN", "TOKENS OUT", "COST"}, rows); err != nil {
		return err
	}
	known := "what is configured alone"
	if f.Learned {
		known = "what is configured, and what the fleet has learned"
	}
	pairs := [][2]string{{"batch", figures(f)}, {"done", p.finish(f)}}
	for _, b := range f.Bounds[min(1, len(f.Bounds)):] {
		pairs = append(pairs, [2]string{"", fmt.Sprintf("in %s under %s", cli.Duration(time.Duration(b.Seconds)*time.Second), boundText(b))})
	}
	if f.StartAt != nil {
		pairs = append(pairs, [2]string{"begins", p.Clock(*f.StartAt, f.At)})
	}
	if !d.Deadline.IsZero() {
		pairs = append(pairs, [2]string{"deadline", p.Clock(d.Deadline, f.At)})
	}
	pairs = append(pairs, named("guard", p.guardText(f.Guard, f.At))...)
	return cli.Pairs(p.Out, append(pairs, [2]string{"limits", known}))
}

func numberOrNone(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
