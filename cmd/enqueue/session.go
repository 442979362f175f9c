package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"syscall"
	"time"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
)

const (
	// followEvery is how often new results are taken to the output.
	followEvery = 200 * time.Millisecond
	// followPatience is how long Redis may be away while results are awaited.
	followPatience = time.Minute
)

// session is one run: it submits what the output lacks and takes the results
// to it, until it lacks nothing.
type session struct {
	p        *program
	conn     *app.Conn
	in       *input
	sum      batch.Summary
	ledger   *ledger
	out      *output
	queue    config.Queue
	why      purpose
	producer string
	live     *live
	progress *cli.Progress
	started  time.Time

	id     string   // of the batch that is followed
	offset int64    // of its results that were taken
	known  bool     // it was there before this run
	step   cli.Step // what the progress says of it
	broken bool     // the output takes no more
}

// base names the batches of this input and output, so that the same command
// finds them again in a Redis that outlives it.
func (s *session) base() string {
	abs, err := filepath.Abs(s.out.name)
	if err != nil {
		abs = s.out.name
	}
	sum := sha256.Sum256([]byte(s.sum.Digest + "\n" + s.queue.Name + "\n" + abs))
	return "run-" + hex.EncodeToString(sum[:6])
}

// run goes on until every line has its result. The batches of earlier runs of
// the same command are followed first, the newest before the others, since it
// was made of what those had failed at; what they do not bring is submitted.
func (s *session) run(ctx context.Context) error {
	known, err := s.earlier(ctx)
	if err != nil {
		return err
	}
	for n := known; n > 0 && s.ledger.todo() > 0; n-- {
		if err := s.resume(ctx, s.batch(n)); err != nil {
			return err
		}
	}
	if s.ledger.todo() == 0 {
		return nil
	}
	id := s.batch(known + 1)
	s.id, s.offset, s.known = id, 0, false
	if err := s.submit(ctx, id); err != nil {
		return err
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	if left := s.ledger.todo(); left > 0 {
		return fmt.Errorf("batch %s is done, but %s have no result", id, cli.Count(left, "line"))
	}
	return nil
}

func (s *session) batch(n int) string { return fmt.Sprintf("%s-%d", s.base(), n) }

// earlier counts the batches of earlier runs.
func (s *session) earlier(ctx context.Context) (int, error) {
	for n := 1; ; n++ {
		_, err := s.conn.Batches.Status(ctx, s.batch(n))
		if errors.Is(err, batch.ErrNotFound) {
			return n - 1, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// resume follows a batch of an earlier run. One whose submission was cut off is
// completed first, unless it was begun for other lines than are lacking now:
// then nobody will run it.
func (s *session) resume(ctx context.Context, id string) error {
	st, err := s.conn.Batches.Status(ctx, id)
	if err != nil {
		return err
	}
	s.id, s.offset, s.known = id, 0, true
	if st.State == batch.Enqueuing {
		if err := s.submit(ctx, id); errors.Is(err, batch.ErrExists) {
			return nil
		} else if err != nil {
			return err
		}
	}
	s.progress.Event("going on with batch %s, which Redis has from before", id)
	return s.follow(ctx)
}

// submit makes a batch of the lines that have no result.
func (s *session) submit(ctx context.Context, id string) error {
	return s.in.each(ctx, func(src *batch.Reader) error {
		src.Keep = s.ledger.lacks
		content, err := batch.Pack(ctx, src)
		if err != nil {
			return err
		}
		defer content.Close()
		d := describe(s.queue, s.producer, content.Summary, time.Now())
		d.ID, d.Again, d.Rehearsal = id, true, s.why.rehearsal
		if err = s.conn.CheckRoomFor(ctx, id, content); err == nil {
			err = s.conn.Submit(ctx, d, content, batch.Submission{}, s.p.Logger(slog.LevelWarn))
		}
		if noRoom(err) {
			return cli.Refuse("raise maxmemory of Redis, or delete batches that are done (enqueue delete); the same command goes on then",
				"%w; workers see nothing of the batch", err)
		}
		return err
	})
}

// follow takes results to the output until the batch is done. Redis may be away
// for a while: the worker waits for it too.
func (s *session) follow(ctx context.Context) error {
	lost := time.Time{}
	for {
		done, err := s.advance(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && done:
			return nil
		case err == nil:
			lost = time.Time{}
		case !s.passes(err, &lost):
			return err
		}
		if err := pause(ctx, followEvery); err != nil {
			return err
		}
	}
}

// passes says whether an error may pass by itself: anything but one of the
// output, unless its disk is full, for a while.
func (s *session) passes(err error, lost *time.Time) bool {
	var output *outputError
	full := errors.Is(err, syscall.ENOSPC)
	if errors.As(err, &output) && !full || errors.Is(err, batch.ErrNotFound) {
		s.broken = output != nil
		return false
	}
	if lost.IsZero() {
		*lost = time.Now()
		if full {
			s.progress.Event("the disk is full, waiting for room: %v", err)
		} else {
			s.progress.Event("redis does not answer, waiting for it: %v", err)
		}
	}
	if time.Since(*lost) < followPatience {
		return true
	}
	s.broken = full
	return false
}

// outputError is an error of writing results, which no waiting mends.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// advance takes the results that are new and shows where the batch stands.
func (s *session) advance(ctx context.Context) (done bool, err error) {
	// The state first: whatever finished before "done" is among the results then.
	st, err := s.conn.Status(ctx, s.id)
	if err != nil {
		return false, err
	}
	if err := s.take(ctx); err != nil {
		return false, err
	}
	s.step = s.p.wait(st)
	s.show(ctx)
	return st.State == batch.Done, nil
}

func (s *session) show(ctx context.Context) {
	s.live.show(ctx, s.p, s.conn, s.progress)
	// The batch may be a part of the file only: the counts are the file's.
	s.step.Done, s.step.Total = s.ledger.done.lines, s.ledger.total()
	s.progress.Update(withOutcomes(s.step, s.ledger.done.outcomes))
}

// take appends the results that are new.
func (s *session) take(ctx context.Context) error {
	if s.id == "" || s.broken {
		return nil
	}
	next, err := s.conn.Batches.Results(ctx, s.id, s.offset, func(r batch.Record) error {
		if err := s.deliver(r.JSON); err != nil {
			return &outputError{err}
		}
		return nil
	})
	s.offset = next
	return err
}

func (s *session) deliver(line []byte) error {
	r, err := parseResult(line)
	if err != nil {
		return fmt.Errorf("read result: %w", err)
	}
	if !s.ledger.wants(r) || s.old(r) {
		return nil
	}
	if err := s.out.append(line); err != nil {
		return err
	}
	s.ledger.settle(r)
	return nil
}

// old says whether it is a failed result of before this run that is to be
// replaced by another try.
func (s *session) old(r resultLine) bool {
	return s.why.retryFailed && s.known && !r.succeeded() && r.Nightshift.FinishedAt.Before(s.started)
}
