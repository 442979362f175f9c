package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

// served is the value of --dashboard and --metrics without an address.
const served = "configured"

type runFlags struct {
	queues             []string
	concurrency        int
	dashboard, metrics string
}

func (p *program) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run", Short: "take lines and call models until it is stopped", Args: cli.Args,
		Long: "Takes lines and calls models until it is stopped. SIGTERM and SIGINT: it takes no more lines and starts no further call, lets calls in flight finish within worker.shutdown_timeout, and hands back the rest unspent. A second signal ends the calls too.",
		RunE: func(c *cobra.Command, _ []string) error { return p.work(c.Context(), f) },
	}
	c.Flags().StringSliceVar(&f.queues, "queues", nil, "serve these `QUEUES` only, separated by commas")
	c.Flags().IntVar(&f.concurrency, "concurrency", 0, "lines under way at once, for each queue; `N` in place of queues.*.concurrency")
	c.Flags().StringVar(&f.dashboard, "dashboard", "", "serve the web page too, on `[ADDR]`; without an address, on dashboard.addr")
	c.Flags().StringVar(&f.metrics, "metrics", "", "serve Prometheus metrics, on `[ADDR]`; without an address, on metrics.addr")
	return c
}

// joinAddresses gives --metrics and --dashboard their values: the next word
// where it is an address, else the configured one. A flag of pflag's whose value
// may be left out takes none from the next word, but that is how people write it.
func joinAddresses(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg != "--metrics" && arg != "--dashboard":
		case i+1 < len(args) && strings.Contains(args[i+1], ":") && args[i+1][0] != '-':
			i++
			arg += "=" + args[i]
		default:
			arg += "=" + served
		}
		out = append(out, arg)
	}
	return out
}

func (p *program) work(ctx context.Context, f runFlags) error {
	if f.concurrency < 0 {
		return cli.Usage("leave it out to take what the configuration says", "--concurrency %d is below 1", f.concurrency)
	}
	cfg, err := p.LoadShared()
	if err != nil {
		return err
	}
	for _, name := range f.queues {
		if _, ok := cfg.Queue(name); !ok {
			return cli.Usage("the queues are: "+join(cfg.QueueNames()), "--queues: there is no queue %q", name)
		}
	}
	return p.serve(ctx, cfg, app.Options{
		Queues: f.queues, Concurrency: f.concurrency, Worker: true,
		Dashboard: address(f.dashboard, &cfg.Dashboard.Addr), Metrics: address(f.metrics, &cfg.Metrics.Addr),
	})
}

// address says whether a part is served, and puts an address that the flag
// names in place of the configured one.
func address(flag string, configured *string) bool {
	if flag != "" && flag != served {
		*configured = flag
	}
	return flag != ""
}

// serve runs the parts until a signal ends the context, then stops them.
func (p *program) serve(ctx context.Context, cfg *config.Config, o app.Options) error {
	log := p.Logger(slog.LevelInfo)
	o.Logger, o.Version = log, app.Version()
	a, err := app.New(ctx, cfg, o)
	if err != nil {
		return orNoRedis(err)
	}
	if err := a.Start(ctx); errors.Is(err, syscall.EADDRINUSE) {
		return cli.Fail("name another address with --metrics ADDR, --dashboard ADDR or, for `worker dashboard`, --addr", err)
	} else if err != nil {
		return err
	}
	log.Info("started", "version", o.Version, "config", cfg.Hash(), "redis", cfg.Redis,
		"dashboard", a.DashboardURL(), "metrics", a.MetricsURL())
	<-ctx.Done()
	log.Info("stopping", "cause", context.Cause(ctx), "at_most", cfg.Worker.ShutdownTimeout)
	if err := a.Stop(p.Hurry()); err != nil {
		return err
	}
	log.Info("stopped")
	return ended(ctx)
}

// orNoRedis names the ways on where Redis does not answer.
func orNoRedis(err error) error {
	if errors.Is(err, app.ErrNoRedis) {
		return cli.NoRedis(err)
	}
	return err
}

// ended is the exit code of a service that a signal ended: SIGTERM is the usual
// end, SIGINT an interruption.
func ended(ctx context.Context) error {
	if cli.Terminated(ctx) {
		return nil
	}
	return cli.Exit(cli.ExitInterrupted)
}
