package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"nightshift/batch"
)

// stdinName is what standard input is called in errors.
const stdinName = "standard input"

// input is a file of requests that is read more than once: checked first, then
// submitted. What can be read only once is kept in a temporary file.
type input struct {
	name  string // as it stands in errors
	path  string
	spool bool // path is ours to remove

	models      *models // where its lines start
	skipInvalid bool
}

// openInput prepares FILE, or standard input for "-".
func openInput(ctx context.Context, file string, stdin io.Reader) (*input, error) {
	if file == "-" {
		return spool(ctx, stdinName, func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil })
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("open requests: %w", err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("open requests: %s is a directory", file)
	}
	if info.Mode().IsRegular() {
		return &input{name: file, path: file}, nil
	}
	return spool(ctx, file, func() (io.ReadCloser, error) { return os.Open(file) })
}

// spool keeps what can be read only once. A terminal, or a pipe that nobody
// writes to, keeps whoever opens or reads it waiting: that is done apart, so that
// an interrupt does not wait too, and left behind when ctx ends.
func spool(ctx context.Context, name string, open func() (io.ReadCloser, error)) (*input, error) {
	f, err := os.CreateTemp("", "nightshift-*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", name, err)
	}
	in := &input{name: name, path: f.Name(), spool: true}
	copied := make(chan error, 1)
	go func() { copied <- copyFrom(f, open) }()
	select {
	case err = <-copied:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		in.close()
		return nil, fmt.Errorf("keep %s: %w", name, err)
	}
	return in, nil
}

func copyFrom(w io.Writer, open func() (io.ReadCloser, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

func (in *input) close() {
	if in.spool {
		_ = os.Remove(in.path)
	}
}

// each reads the requests once, or until ctx ends.
func (in *input) each(ctx context.Context, read func(*batch.Reader) error) error {
	f, err := os.Open(in.path)
	if err != nil {
		return fmt.Errorf("open requests: %w", err)
	}
	defer f.Close()
	r, err := batch.OpenReader(f, in.name)
	if err != nil {
		return err
	}
	r.Stop = ctx.Err
	in.models.named.Store(0)
	in.models.unknown.Store(0)
	r.Rung, r.Serves = in.models.rung, in.models.serves
	return read(r)
}

// validate checks every line and returns what there is.
func (in *input) validate(ctx context.Context) (sum batch.Summary, err error) {
	err = in.each(ctx, func(src *batch.Reader) error {
		sum, err = batch.Validate(src)
		return err
	})
	return sum, err
}

// weigh is validate that also weighs the lines.
func (in *input) weigh(ctx context.Context, s *scale) (sum batch.Summary, err error) {
	err = in.each(ctx, func(src *batch.Reader) error {
		src.Weigh = s.add
		sum, err = batch.Validate(src)
		return err
	})
	return sum, err
}

// pack checks and weighs every line and keeps them for a submission. The caller
// closes what is kept.
func (in *input) pack(ctx context.Context, s *scale) (p *batch.Packed, err error) {
	err = in.each(ctx, func(src *batch.Reader) error {
		src.Weigh, src.Unweigh, src.SkipInvalid = s.add, s.remove, in.skipInvalid
		p, err = batch.Pack(ctx, src)
		return err
	})
	return p, err
}
