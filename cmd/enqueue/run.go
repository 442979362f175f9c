package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

type runFlags struct {
	out, queue, producer               string
	rehearse, retryFailed, ignoreModel bool
}

func (p *program) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run FILE", Short: "do a whole file in this process, results to a file", Args: cli.Args,
		Long: "Does a whole file of requests in this process and appends each result to OUT as its line finishes. Redis is embedded unless one is named by --redis, NIGHTSHIFT_REDIS_URL or the configuration; then this process is one more worker until its batch is done.\n\n" +
			"Run again, it does only what OUT lacks: a line counts as done when its result is real and its request unchanged. The first interrupt (^C) lets calls in flight finish; the same command goes on later.\n\n" +
			"With --rehearse the built-in simulator answers, with a scripted outage: no configuration, no Redis and no key are needed, and every result says so.",
		RunE: func(c *cobra.Command, args []string) error {
			if f.out == "" {
				return cli.Usage("e.g. "+again(c, args)+" -o results.jsonl", "-o OUT is missing")
			}
			return p.runFile(c.Context(), f, args[0])
		},
	}
	c.Flags().StringVarP(&f.out, "output", "o", "", "append results to `OUT`; - is standard output")
	c.Flags().BoolVar(&f.rehearse, "rehearse", false, "let the built-in simulator answer")
	c.Flags().BoolVar(&f.retryFailed, "retry-failed", false, "do the lines again that did not succeed: failed, expired or cancelled in OUT")
	c.Flags().BoolVar(&f.ignoreModel, "ignore-model", false, ignoreModelHelp)
	c.Flags().StringVar(&f.queue, "queue", "", "run as this `QUEUE`; default: the first of the configuration")
	c.Flags().StringVar(&f.producer, "producer", "", "`NAME` of who submits; default: NIGHTSHIFT_PRODUCER, else the user's name")
	return c
}

func (p *program) runFile(ctx context.Context, f runFlags, file string) error {
	producer, err := producerOf(f.producer)
	if err != nil {
		return err
	}
	stage, err := p.setUp(f)
	if err != nil {
		return err
	}
	defer stage.close()
	q, err := queueNamed(stage.cfg, f.queue)
	if err != nil {
		return err
	}
	s := &session{
		p: p, queue: q, why: purpose{f.rehearse, f.retryFailed}, producer: producer,
		live: newLive(), started: time.Now(),
	}
	if err := s.openFiles(ctx, f, file, stage); err != nil {
		return err
	}
	defer s.in.close()
	err = p.perform(ctx, s, stage)
	if closeErr := s.out.close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	return err
}

// openFiles checks the input and reads what the output has already. It makes no
// output before there is a Redis to work with.
func (s *session) openFiles(ctx context.Context, f runFlags, file string, stage *stage) (err error) {
	if s.in, err = openInput(ctx, file, s.p.In); err != nil {
		return err
	}
	s.in.models = newModels(stage.cfg, s.queue, f.ignoreModel || f.rehearse)
	if s.sum, err = s.in.validate(ctx); err != nil {
		err = s.in.models.badInput(err)
	} else if _, absent := os.Stat(f.out); f.out != "-" && absent != nil {
		err = s.p.reach(ctx, stage)
	}
	if err == nil {
		err = s.openOutput(ctx, f)
	}
	if err != nil {
		s.in.close()
	} else if n := s.in.models.named.Load(); f.rehearse && n > 0 {
		s.p.Say("%s a model; the rehearsal has a ladder of its own, at whose first rung all lines start.", names(n))
	}
	return err
}

func names(lines int64) string {
	if lines == 1 {
		return "1 line names"
	}
	return fmt.Sprintf("%d lines name", lines)
}

// reach says where Redis does not answer.
func (p *program) reach(ctx context.Context, stage *stage) error {
	if stage.embedded {
		return nil
	}
	conn, err := app.Connect(ctx, stage.cfg, p.Logger(slog.LevelWarn))
	if err != nil {
		return orEmbedded(err)
	}
	return conn.Close()
}

// orEmbedded names the way on where Redis does not answer.
func orEmbedded(err error) error {
	if errors.Is(err, app.ErrNoRedis) {
		return cli.Fail("--redis embedded, or leave redis.url out, to run without one", err)
	}
	return err
}

func (s *session) openOutput(ctx context.Context, f runFlags) (err error) {
	if s.ledger, err = newLedger(ctx, s.in, s.sum.Lines); err != nil {
		return err
	}
	if s.out, err = openOutput(f.out, s.p.Out); err != nil {
		return err
	}
	if s.out.is(s.in.path) {
		err = cli.Usage("name another file with -o", "%s is the file of requests itself", f.out)
	} else {
		err = s.p.reconcile(s.out, s.ledger, s.why)
	}
	if err != nil {
		return errors.Join(err, s.out.close())
	}
	return nil
}

// perform runs a worker until every line has its result, or until it is
// interrupted, and says how it went.
func (p *program) perform(ctx context.Context, s *session, stage *stage) error {
	had, all := s.ledger.done.lines, cli.Count(s.ledger.total(), "line")
	if s.ledger.todo() == 0 {
		p.Say("nothing to do: %s has a result for each of %s", s.out.name, all)
	} else {
		if had > 0 {
			p.Say("%s has %d of %s already", s.out.name, had, all)
		}
		if err := p.workOff(ctx, s, stage); err != nil {
			return err
		}
		p.sayRun(s, s.ledger.done.lines-had)
	}
	p.sayOutput(s)
	stage.after()
	bad := s.ledger.done.outcomes
	if bad.total() > 0 && !s.why.retryFailed {
		p.Hint("the same command with --retry-failed does again what did not succeed (%s)", bad)
	}
	return bad.verdict()
}

func (p *program) workOff(ctx context.Context, s *session, stage *stage) error {
	a, err := app.New(ctx, stage.cfg, app.Options{
		Queues: []string{s.queue.Name}, Worker: true, Rehearsal: s.why.rehearsal,
		Version: app.Version(), Logger: p.Logger(slog.LevelWarn), Observer: s.live,
	})
	if err != nil {
		return orEmbedded(err)
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	s.conn = a.Conn()
	s.progress = p.NewProgress("lines", s.ledger.total())
	s.show(ctx)
	err = s.run(ctx)
	if cli.Interrupted(ctx) {
		err = nil // what is left to do says it all
		s.progress.Event("stopping: calls in flight finish first; interrupt again to end them too")
	}
	err = errors.Join(err, p.windDown(s, a))
	s.progress.Close()
	if cli.Interrupted(ctx) && s.ledger.todo() > 0 {
		p.sayInterrupted(s, stage)
		return cli.Exit(cli.ExitInterrupted)
	}
	return err
}

// windDown stops the worker and takes what still finished to the output.
func (p *program) windDown(s *session, a *app.App) error {
	stopped := make(chan error, 1)
	go func() { stopped <- a.StopWork(p.Hurry()) }()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	// The command's own context may have ended already.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case err := <-stopped:
			last, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return errors.Join(err, s.take(last), a.Stop(p.Hurry()))
		case <-tick.C:
			if err := s.take(ctx); err == nil {
				s.show(ctx)
			}
		}
	}
}

func (p *program) sayInterrupted(s *session, stage *stage) {
	t := s.ledger.done
	p.Say("interrupted: %s has %d of %s", s.out.name, t.lines, cli.Count(s.ledger.total(), "line"))
	if stage.cfg.Redis.Source != config.FromDefault && s.id != "" && !stage.embedded {
		p.Say("the batch stays in Redis as %s; other workers go on with it (`enqueue cancel %s` ends it)", s.id, s.id)
	}
	p.Hint("the same command again does the remaining %s", cli.Count(s.ledger.todo(), "line"))
}

// sayRun says what this process did.
func (p *program) sayRun(s *session, lines int64) {
	seen := s.live.sum()
	text := fmt.Sprintf("this run: %s in %s, %s", cli.Count(lines, "line"), cli.Duration(time.Since(s.started)), cli.Count(seen.calls, "call"))
	if seen.probes > 0 {
		text += fmt.Sprintf(", %d of them to probe", seen.probes)
	}
	p.Say("%s", text)
	if seen.avoided > 0 {
		p.Say("  calls avoided: %s met an open breaker and were not sent", tries(seen.avoided))
	}
}

func tries(n int64) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}

// sayOutput says what the output has by now, of whichever runs.
func (p *program) sayOutput(s *session) {
	t := s.ledger.done
	p.Say("%s: %s", s.out.where(), cli.Count(t.lines, "line"))
	rows := [][2]string{
		{"succeeded", strings.Join(append([]string{fmt.Sprint(t.lines - t.outcomes.total())}, ofThem(t.degraded, t.cached)...), ", ")},
		{"failed", fmt.Sprint(t.failed)},
	}
	for _, row := range []struct {
		how batch.Outcome
		n   int64
	}{{batch.Expired, t.expired}, {batch.Cancelled, t.cancelled}} {
		if row.n > 0 {
			rows = append(rows, [2]string{string(row.how), fmt.Sprint(row.n)})
		}
	}
	rows = append(rows, [][2]string{{"calls", fmt.Sprint(t.calls)}, {"deferrals", fmt.Sprint(t.deferrals)}, {"cost", "$" + t.cost.String()}}...)
	for _, row := range rows {
		p.Say("  %-10s %s", row[0], row[1])
	}
}
