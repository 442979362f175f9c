package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

type batchFlags struct {
	intent
	id, notify  string
	again, wait bool
}

// ignoreModelHelp is the help of --ignore-model.
const ignoreModelHelp = "start every line at the first rung, whatever model its body names"

func (p *program) batchCommand() *cobra.Command {
	var f batchFlags
	c := &cobra.Command{
		Use: "batch FILE", Short: "submit a file of requests and print the batch's ID", Args: cli.Args,
		Long: "Submits a file of requests, one JSON object a line (.jsonl, .jsonl.gz, or - for standard input), and prints the batch's ID on standard output. " +
			"The whole file is checked first: every line that is wrong is named with the first problem in it (exit code 1) and nothing is enqueued, unless --skip-invalid records such lines as failed. " +
			"A line whose body names a model starts at the rung of the queue's ladder that has it; a model that the ladder has not is such a problem. " +
			"The same content again within 24 hours is refused (exit code 4) unless --again means it, or --id names the batch: then what is missing is added.\n\n" +
			"What the batch is thought to take is printed first (see estimate) and stays on record. A batch that the hourly guard of its producer would let through after its deadline, with the producer's other lines counted, is refused with the figures (exit code 4), unless --allowance grants it calls of its own.",
		RunE: func(c *cobra.Command, args []string) error {
			defer lean()()
			return p.submitFile(c.Context(), f, args[0])
		},
	}
	c.Flags().StringVar(&f.queue, "queue", "", "submit to this `QUEUE`; default: the first of the configuration")
	c.Flags().StringVar(&f.id, "id", "", "the batch's `ID`; with the ID of a batch of the same content, what is missing is added")
	c.Flags().StringVar(&f.producer, "producer", "", "`NAME` of who submits; default: NIGHTSHIFT_PRODUCER, else the user's name")
	f.terms.scheduleFlags(c)
	c.Flags().IntVar(&f.terms.priority, "priority", 0, priorityHelp)
	c.Flags().StringVar(&f.terms.budget, "budget", "", "the most that the batch may cost, in `USD`; lines that it does not pay for fail")
	c.Flags().Int64Var(&f.terms.allowance, "allowance", 0, allowanceHelp+"; on record with who granted it")
	c.Flags().StringVar(&f.notify, "notify", "", notifyHelp)
	c.Flags().BoolVar(&f.again, "again", false, "submit the same content once more")
	c.Flags().BoolVar(&f.wait, "wait", false, "show the progress until the batch is done; exit codes as those of watch")
	c.Flags().BoolVar(&f.skipInvalid, "skip-invalid", false, "record lines that are no request, or repeat an ID, as failed, and go on with the others")
	c.Flags().BoolVar(&f.ignoreModel, "ignore-model", false, ignoreModelHelp)
	return c
}

func (p *program) submitFile(ctx context.Context, f batchFlags, file string) error {
	if f.id != "" {
		if err := batch.CheckID(f.id); err != nil {
			return cli.Usage("or leave --id out: then one is made", "--id: %w", err)
		}
	}
	producer, err := producerOf(f.producer)
	if err != nil {
		return err
	}
	cfg, err := p.LoadShared(config.WithoutKeys())
	if err != nil {
		return err
	}
	if err := checkNotify(cfg, f.notify); err != nil {
		return err
	}
	w, content, err := p.pack(ctx, cfg, f.intent, producer, cli.Operator(), file)
	if err != nil {
		return err
	}
	defer w.in.close()
	defer content.Close()
	conn, err := p.dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	d := w.d
	d.ID, d.Again, d.Notify = f.id, f.again, f.notify
	if d.ID == "" {
		d.ID = newID(d.CreatedAt)
	}
	if err = conn.CheckRoomFor(ctx, d.ID, content); err == nil {
		err = p.admit(ctx, conn, &d, w.work)
	}
	if err == nil {
		err = p.submit(ctx, conn, content, d)
	}
	if err != nil {
		return p.notSubmitted(ctx, err, d.ID, file)
	}
	if n := content.Failed; n > 0 {
		p.Warn("passed over %s of %s, recorded as failed (`enqueue results %s --errors FILE` says why)", cli.Count(n, "line"), file, d.ID)
	}
	fmt.Fprintln(p.Out, d.ID)
	if f.wait {
		return p.await(ctx, conn, d.ID)
	}
	return nil
}

// admit says whether a batch may be submitted. One that is there already keeps
// the terms that it was submitted on: it is only completed.
func (p *program) admit(ctx context.Context, conn *app.Conn, d *batch.Description, w batch.Work) error {
	st, err := conn.Batches.Status(ctx, d.ID)
	if err == nil {
		if st.State == batch.Enqueuing {
			d.CreatedAt, d.Allowance, d.AllowedBy, d.Budget = st.CreatedAt, st.Allowance, st.AllowedBy, 0
			if st.BudgetUSD != nil {
				d.Budget = *st.BudgetUSD
			}
		}
		return nil
	}
	if !errors.Is(err, batch.ErrNotFound) {
		return err
	}
	if err := conn.Batches.CheckContent(ctx, *d); err != nil {
		return err
	}
	return p.settleTerms(ctx, conn, d, w)
}

// describe makes the description of a batch that is submitted now.
func describe(q config.Queue, producer string, sum batch.Summary, now time.Time) batch.Description {
	d := batch.Description{Producer: producer, Queue: q.Name, CreatedAt: now, Total: sum.Lines, Digest: sum.Digest}
	if q.Deadline > 0 {
		d.Deadline = now.Add(q.Deadline)
	}
	return d
}

func (p *program) submit(ctx context.Context, conn *app.Conn, content *batch.Packed, d batch.Description) error {
	progress := p.NewProgress("submitting "+d.ID, d.Total)
	defer progress.Close()
	return conn.Submit(ctx, d, content, batch.Submission{
		Opened:   func() error { return grant(ctx, conn, d) },
		Progress: func(n int64) { progress.Update(cli.Step{Done: n, Total: d.Total}) },
	}, p.Logger(slog.LevelWarn))
}

// notSubmitted words the error of a submission.
func (p *program) notSubmitted(ctx context.Context, err error, id, file string) error {
	var same *batch.DuplicateError
	var other *batch.ExistsError
	switch {
	case errors.As(err, &same):
		return cli.Refuse(fmt.Sprintf("--again submits it once more; `enqueue watch %s` follows the other", same.ID),
			"the same content was submitted at %s, as batch %s", p.Time(same.At), same.ID)
	case errors.As(err, &other):
		return cli.Refuse("name another ID, or leave --id out", "%w", other)
	case noRoom(err):
		return cli.Refuse(fmt.Sprintf("raise maxmemory of Redis, or delete batches that are done (enqueue delete); then enqueue batch --id %s %s adds what is missing", id, file),
			"%w; workers see nothing of the batch", err)
	case errors.Is(err, batch.ErrExists):
		return cli.Refuse("name another ID, or leave --id out", "%w", err)
	case errors.Is(err, batch.ErrCancelled):
		return cli.Refuse("name another ID, or leave --id out", "batch %s was cancelled", id)
	}
	if ctx.Err() != nil && file != "-" {
		p.Hint("enqueue batch --id %s %s goes on where it stood", id, file)
	}
	return err
}

// noRoom says that Redis has no memory for a batch, or had none for a part of it.
func noRoom(err error) bool {
	var e *app.NoRoomError
	return errors.As(err, &e) || errors.Is(err, app.ErrFull)
}

func queueNamed(cfg *config.Config, name string) (config.Queue, error) {
	if name == "" {
		return cfg.DefaultQueue(), nil
	}
	q, ok := cfg.Queue(name)
	if !ok {
		return q, cli.Usage("the queues are: "+strings.Join(cfg.QueueNames(), ", "), "--queue: there is no queue %q", name)
	}
	return q, nil
}

// newID returns a new batch ID, e.g. 20261129-2301-x7k2m9: sorted by time, and
// unlike any other of the same minute.
func newID(now time.Time) string {
	return now.UTC().Format("20060102-1504") + "-" + strings.ToLower(rand.Text()[:6])
}
