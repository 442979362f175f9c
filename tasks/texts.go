package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"nightshift/batch"
	"nightshift/ladder"
)

// LastResort gives the texts of a queue's ladder at the deadline;
// *ladder.LastResort is one.
type LastResort interface {
	Answer(ladder.Request) (ladder.Answer, bool)
	// Opens returns when the texts are due, by the margin and the deadline.
	Opens(margin, deadline time.Time) time.Time
}

const (
	// textLimit bounds how long one round writes texts, so that the keeper's
	// other work and its lease do not wait.
	textLimit = 500 * time.Millisecond
	// textAgain is how often it looks again for lines that were held before.
	textAgain = time.Second
)

// textRun is how far the texts of one batch are.
type textRun struct {
	next   int       // the chunk to go on with
	passed bool      // all chunks were looked at
	looked time.Time // at the released lines, since then
}

// writeTexts answers the lines of batches whose deadline is near with the texts
// that their ladder has for that. It leaves the lines that workers hold: those
// give up by themselves, at the same time.
func (k *Keeper) writeTexts(ctx context.Context, backlogs []batch.Backlog) error {
	near := k.nearDeadline(backlogs)
	for id := range k.texts {
		if !slices.ContainsFunc(near, func(b batch.Backlog) bool { return b.ID == id }) {
			delete(k.texts, id)
		}
	}
	until := k.now().Add(textLimit)
	var errs []error
	for _, b := range near {
		errs = append(errs, k.textsOf(ctx, b, until))
	}
	return errors.Join(errs...)
}

// nearDeadline returns the batches whose texts are due, the earliest first.
func (k *Keeper) nearDeadline(backlogs []batch.Backlog) []batch.Backlog {
	var with, near []batch.Backlog
	for _, b := range backlogs {
		if k.lastResorts[b.Queue] != nil && !b.Cancelled && b.Now.Before(b.Deadline) {
			with = append(with, b)
		}
	}
	margins := margins(with) // which sorts them
	for i, b := range with {
		if at := k.lastResorts[b.Queue].Opens(margins[i], b.Deadline); !b.Now.Before(at) {
			near = append(near, b)
		}
	}
	return near
}

// margins returns when the texts of each batch are due so that all are written
// in time by one keeper: a batch is done before the one that is due next begins.
// It sorts the batches by their deadlines.
func margins(backlogs []batch.Backlog) []time.Time {
	slices.SortStableFunc(backlogs, func(a, b batch.Backlog) int {
		return cmp.Or(a.Deadline.Compare(b.Deadline), cmp.Compare(a.ID, b.ID))
	})
	at := make([]time.Time, len(backlogs))
	for i := len(backlogs) - 1; i >= 0; i-- {
		b := backlogs[i]
		lines, life := b.Waiting+b.Out, b.Life()
		at[i] = ladder.MarginAt(b.Deadline, batch.Margin(lines, life))
		if i < len(at)-1 {
			if before := at[i+1].Add(-batch.Writing(lines)); before.Before(at[i]) {
				at[i] = before
			}
		}
		if half := b.Deadline.Add(-life / 2); at[i].Before(half) {
			at[i] = half
		}
	}
	return at
}

// textsOf writes texts of one batch: all its chunks once, in pieces, and then
// what was held by a worker that is gone.
func (k *Keeper) textsOf(ctx context.Context, b batch.Backlog, until time.Time) error {
	run := k.texts[b.ID]
	if run == nil {
		run = &textRun{}
		k.texts[b.ID] = run
	}
	preset := k.preset(b)
	for !run.passed && k.now().Before(until) {
		next, n, err := k.backlog.Texts(ctx, b.ID, k.epoch.Load(), run.next, preset)
		k.gave(b, n)
		if err != nil {
			return fmt.Errorf("write texts: %w", err)
		}
		run.next, run.passed = next, next == 0
	}
	if !run.passed || !due(&run.looked, k.now(), textAgain) {
		return nil
	}
	n, err := k.backlog.TextsOut(ctx, b.ID, k.epoch.Load(), preset)
	k.gave(b, n)
	return err
}

func (k *Keeper) gave(b batch.Backlog, n int) {
	if n > 0 {
		k.obs.LinesEnded(b.Queue, batch.Succeeded, n)
		k.obs.Answered(b.Queue, By{Model: ladder.TextModel, Degraded: true}, n)
	}
}

// preset makes the results of a batch's lines.
func (k *Keeper) preset(b batch.Backlog) batch.Preset {
	last := k.lastResorts[b.Queue]
	return func(d batch.Description, ref batch.Ref, l batch.Line, p batch.Progress) (batch.Result, bool) {
		begun := batch.Begun{Line: l, Description: d, Progress: p}
		r := lineRequest(ref, begun)
		a, ok := last.Answer(r)
		if !ok {
			return batch.Result{}, false
		}
		out := ladder.Outcome{End: ladder.Answered, Progress: r.Progress, Answer: a}
		return result(begun, out, k.now()), true
	}
}
