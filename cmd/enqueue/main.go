// Command enqueue submits batches and follows them.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{cli.New("enqueue", stdin, stdout, stderr)}
	return p.Execute(p.root(), args)
}

// program is what the commands of enqueue share.
type program struct{ *cli.Env }

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use: "enqueue", Short: "submit batches of requests to language models and follow them", Version: app.Version(),
		Long: "enqueue submits files of requests, one a line, and follows them until each line has its result.\n\n" +
			"Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 a runtime error, " +
			"2 wrong usage, 3 finished but some lines failed, expired or were cancelled, 4 refused for now, 130 interrupted.",
	}
	root.AddCommand(p.batchCommand(), p.runCommand(), p.estimateCommand(), p.statusCommand(), p.watchCommand(), p.whyCommand(), p.resultsCommand(),
		p.cancelCommand(), p.retryCommand(), p.updateCommand(), p.deleteCommand())
	return root
}

// connect reaches the Redis of the flags, the environment or the configuration,
// for commands that look at batches and change none of their lines.
func (p *program) connect(ctx context.Context) (*app.Conn, error) {
	cfg, err := p.LoadRedis()
	if err != nil {
		return nil, err
	}
	return p.dial(ctx, cfg)
}

func (p *program) dial(ctx context.Context, cfg *config.Config) (*app.Conn, error) {
	conn, err := app.Connect(ctx, cfg, p.Logger(slog.LevelWarn))
	if errors.Is(err, app.ErrNoRedis) {
		return nil, cli.NoRedis(err)
	}
	return conn, err
}
