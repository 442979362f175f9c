// Command worker calls the models for the lines of batches.
package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"nightshift/internal/app"
	"nightshift/internal/cli"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{cli.New("worker", stdin, stdout, stderr)}
	return p.Execute(p.root(), joinAddresses(args))
}

// program is what the commands of worker share.
type program struct{ *cli.Env }

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use: "worker", Short: "call models for the lines of batches", Version: app.Version(),
		Long: "worker takes the lines of batches from Redis and calls the models of the configuration for them. Any number of workers share the work; one of them, whichever holds the lease, is the keeper.\n\n" +
			"Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 a runtime error, 2 wrong usage, 130 interrupted.",
	}
	root.AddCommand(p.runCommand(), p.checkCommand(), p.initCommand(), p.statusCommand(), p.breakersCommand(), p.guardCommand(), p.queuesCommand(), p.healthCommand(), p.callsCommand(), p.replayCommand(), p.dashboardCommand(), p.simCommand())
	return root
}
