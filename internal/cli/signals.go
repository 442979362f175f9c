package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

var (
	errInterrupted = errors.New("interrupted")
	errTerminated  = errors.New("terminated")
	errHurry       = errors.New("interrupted again")
)

// signals turns the first SIGINT or SIGTERM into the end of a context and the
// second into the end of another; the third kills as usual.
type signals struct {
	hurry context.Context
}

// watchSignals returns a context that ends with the first SIGINT or SIGTERM.
// stop must be called; it waits for the watcher.
func (e *Env) watchSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	hurry, rush := context.WithCancelCause(parent)
	e.signals = &signals{hurry: hurry}
	got := make(chan os.Signal, 2)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		watch(got, quit, e.Err.smudge, cancel, rush)
	}()
	return ctx, func() {
		signal.Stop(got)
		close(quit)
		<-done
		cancel(nil)
		rush(nil)
	}
}

func watch(got chan os.Signal, quit chan struct{}, seen func(), cancel, rush context.CancelCauseFunc) {
	for first := true; ; first = false {
		select {
		case <-quit:
			return
		case s := <-got:
			seen()
			if !first {
				rush(errHurry)
				signal.Stop(got)
				return
			}
			if s == syscall.SIGTERM {
				cancel(errTerminated)
			} else {
				cancel(errInterrupted)
			}
		}
	}
}

// Hurry returns a context that ends with the second signal: whoever tidies up
// after the first gives up then.
func (e *Env) Hurry() context.Context { return e.signals.hurry }

// Interrupted says that SIGINT or SIGTERM ended the command's context.
func Interrupted(ctx context.Context) bool {
	c := context.Cause(ctx)
	return errors.Is(c, errInterrupted) || errors.Is(c, errTerminated)
}

// Terminated says that it was SIGTERM, which is how a supervisor ends a service.
func Terminated(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTerminated) }
