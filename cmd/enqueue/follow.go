package main

import (
	"context"
	"errors"
	"fmt"

	"nightshift/batch"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

// follower writes the results of a batch as its lines finish.
type follower struct {
	p       *program
	conn    *app.Conn
	id      string
	ordered bool
	sinks   []*sink
	next    int64        // the first place among the ends of lines that was not read
	order   *batch.Order // nil: not known yet, or not asked for
}

// followResults writes results until the batch is done.
func (p *program) followResults(ctx context.Context, conn *app.Conn, s batch.Status, flags resultFlags) (err error) {
	f := &follower{p: p, conn: conn, id: s.ID, ordered: flags.ordered}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, name := range flags.names() {
		out, err := openOutput(name, p.Out)
		if err != nil {
			return err
		}
		f.sinks = append(f.sinks, &sink{output: out})
	}
	if err := f.resume(ctx); err != nil {
		return err
	}
	s, err = f.run(ctx, s)
	if err != nil && cli.Interrupted(ctx) {
		p.Say("stopped following; the batch goes on, and the same command goes on where it stood")
		return cli.Exit(cli.ExitInterrupted)
	}
	if err != nil {
		return err
	}
	return p.allDone(s)
}

// run writes results until the batch is done, and returns its last status.
func (f *follower) run(ctx context.Context, s batch.Status) (batch.Status, error) {
	for {
		done := s.State == batch.Done
		if err := f.p.steady(ctx, f.conn, func() error { return f.take(ctx, s.State) }); err != nil {
			return s, err
		}
		// In the order of lines, one that is retried at this moment is waited for.
		if done && (f.order == nil || !f.order.Left()) {
			return s, nil
		}
		if err := pause(ctx, watchEvery); err != nil {
			return s, err
		}
		var err error
		if s, err = f.p.statusOf(ctx, f.conn, f.id); err != nil {
			return s, err
		}
	}
}

// take writes what is new, through to the disk.
func (f *follower) take(ctx context.Context, state batch.State) error {
	var err error
	switch {
	case !f.ordered:
		f.next, err = f.conn.Batches.Results(ctx, f.id, f.next, f.write)
	case f.order == nil && state == batch.Enqueuing:
		return nil // which lines there are is not known
	case f.order == nil:
		if f.order, err = f.conn.Batches.Lines(ctx, f.id, f.next-1); err != nil {
			return err
		}
		fallthrough
	default:
		err = f.order.Read(ctx, false, f.write)
	}
	for _, s := range f.sinks {
		err = errors.Join(err, s.sync())
	}
	return err
}

func (f *follower) write(r batch.Record) error {
	at := r.Place
	if f.ordered {
		at = r.Line
	}
	if err := f.sinks[place(r, len(f.sinks))].put(at, r.JSON); err != nil {
		return &outputError{err}
	}
	return nil
}

func (f *follower) close() error {
	var errs []error
	for _, s := range f.sinks {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// resume finds out where the files end. What the one has and the other lacks,
// because it was not through to the disk, is written to the other alone.
func (f *follower) resume(ctx context.Context) error {
	for i, s := range f.sinks {
		tail, err := s.tail(f.p)
		if err != nil {
			return err
		}
		if tail.lines > 0 {
			if err := f.recognise(ctx, s, tail); err != nil {
				return err
			}
		}
		if i == 0 || s.from < f.next {
			f.next = s.from
		}
	}
	return nil
}

// recognise sets where a file with results of the batch goes on, or refuses it.
func (f *follower) recognise(ctx context.Context, s *sink, t tail) error {
	ours, err := f.ours(ctx, t.last)
	if err != nil {
		return err
	}
	if !ours {
		return foreignTo(f.id, s.name)
	}
	if f.ordered {
		return f.recogniseOrder(ctx, s, t)
	}
	at, err := f.conn.Batches.PlaceOf(ctx, f.id, t.last.Nightshift.Line, t.last.Nightshift.Generation, t.lines-1)
	if err != nil {
		return err
	}
	if at < 0 {
		return foreignTo(f.id, s.name)
	}
	s.from = at + 1
	return nil
}

// ours says whether a result is one of the batch. Of a line that was retried since,
// which has another record or none, the request must be the same.
func (f *follower) ours(ctx context.Context, r resultLine) (bool, error) {
	line, generation := r.Nightshift.Line, r.Nightshift.Generation
	rec, err := f.conn.Batches.Record(ctx, f.id, line)
	if err == nil && rec.Generation <= generation {
		return rec.Generation == generation && resultID(rec.JSON) == r.ID, nil
	}
	if err == nil || errors.Is(err, batch.ErrNotFound) {
		var l batch.Line
		l, err = f.conn.Batches.Request(ctx, batch.Ref{Batch: f.id, Line: line})
		if err == nil {
			return l.CustomID == r.CustomID && l.Digest == r.Nightshift.Request, nil
		}
	}
	if errors.Is(err, batch.ErrNotFound) {
		return false, nil
	}
	return false, err
}

// recogniseOrder looks whether a file has the first lines of a batch, but for
// those that another file has.
func (f *follower) recogniseOrder(ctx context.Context, s *sink, t tail) error {
	o, err := f.conn.Batches.Lines(ctx, f.id, t.last.Nightshift.Line)
	if err != nil {
		return err
	}
	if n := o.Before(); t.lines != n && len(f.sinks) == 1 || t.lines > n {
		return foreignTo(f.id, s.name)
	}
	s.from = t.last.Nightshift.Line + 1
	return nil
}

func foreignTo(id, file string) error {
	return cli.Fail("name another file, or remove it; one that was written with --ordered is continued with --ordered",
		fmt.Errorf("%s does not hold the first results of %s; it is left as it is", file, id))
}
