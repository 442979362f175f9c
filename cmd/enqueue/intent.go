package main

import (
	"context"
	"time"

	"nightshift/batch"
	"nightshift/config"
)

// intent is what the flags say of a batch that is to be made of a file.
type intent struct {
	queue, producer string
	terms           terms
	ignoreModel     bool
	skipInvalid     bool
}

// weighedFile is a file of requests that was checked, as the batch that it would be.
type weighedFile struct {
	in   *input // the caller closes it
	d    batch.Description
	work batch.Work
}

// weigh checks a file and weighs what it asks for. producer is the intent's,
// checked; by is who grants an allowance.
func (p *program) weigh(ctx context.Context, cfg *config.Config, i intent, producer, by, file string) (*weighedFile, error) {
	return p.check(ctx, cfg, i, producer, by, file, func(in *input, s *scale) (batch.Summary, error) { return in.weigh(ctx, s) })
}

// pack is weigh, and keeps the lines for a submission. The caller closes them.
func (p *program) pack(ctx context.Context, cfg *config.Config, i intent, producer, by, file string) (w *weighedFile, content *batch.Packed, err error) {
	w, err = p.check(ctx, cfg, i, producer, by, file, func(in *input, s *scale) (batch.Summary, error) {
		if content, err = in.pack(ctx, s); err != nil {
			return batch.Summary{}, err
		}
		return content.Summary, nil
	})
	return w, content, err
}

func (p *program) check(ctx context.Context, cfg *config.Config, i intent, producer, by, file string, read func(*input, *scale) (batch.Summary, error)) (*weighedFile, error) {
	q, err := queueNamed(cfg, i.queue)
	if err != nil {
		return nil, err
	}
	now := time.Now().Truncate(time.Millisecond)
	if err := i.terms.check(now, cfg.Location()); err != nil {
		return nil, err
	}
	in, err := openInput(ctx, file, p.In)
	if err != nil {
		return nil, err
	}
	in.models, in.skipInvalid = newModels(cfg, q, i.ignoreModel), i.skipInvalid
	s := newScale(cfg, q)
	sum, err := read(in, s)
	if err != nil {
		in.close()
		return nil, in.models.badInput(err)
	}
	d := describe(q, producer, sum, now)
	i.terms.apply(&d, by)
	return &weighedFile{in, d, s.work}, nil
}
