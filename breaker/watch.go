package breaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Prober sends the probe of one breaker.
type Prober interface {
	// Probe makes one small call to the ticket's model, for its own breaker or
	// its parent's, and says what came of it. It must return soon after ctx is
	// done; ctx ends some time before the probe's lease.
	Probe(ctx context.Context, t Ticket) Report
}

// Watcher probes the breakers of its providers without any task: it looks for
// those that are due and wanted, takes the lease, sends the probe and reports.
// One in every process of a fleet is right; the lease lets one of them win.
type Watcher struct {
	Store     Store
	Providers []string
	Prober    Prober
	Logger    *slog.Logger  // defaults to discarding
	Interval  time.Duration // between two looks; defaults to 1 s
}

// settleTime is how long a probe's report is tried while the store fails. The
// lease ends by itself afterwards.
const settleTime = 5 * time.Second

// watch is one Run of a Watcher.
type watch struct {
	Watcher
	probes sync.WaitGroup

	mu      sync.Mutex
	probing map[Key]bool // in this process

	failed map[string]bool // providers whose last look failed; only Run's goroutine
}

// Run watches until ctx is done, then waits for its probes: their contexts end
// with ctx. Probes of different breakers run side by side.
func (w Watcher) Run(ctx context.Context) {
	if w.Interval <= 0 {
		w.Interval = time.Second
	}
	if w.Logger == nil {
		w.Logger = slog.New(slog.DiscardHandler)
	}
	run := &watch{Watcher: w, probing: map[Key]bool{}, failed: map[string]bool{}}
	defer run.probes.Wait()
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		for _, p := range w.Providers {
			run.look(ctx, p)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look starts the probes that are due.
func (w *watch) look(ctx context.Context, provider string) {
	due, err := w.Store.Due(ctx, provider)
	if ctx.Err() != nil {
		return
	}
	w.tell(ctx, provider, err)
	for _, key := range due {
		if w.begin(key) {
			w.probes.Go(func() {
				defer w.end(key)
				w.probe(ctx, key)
			})
		}
	}
}

// tell logs when looking begins to fail and when it works again.
func (w *watch) tell(ctx context.Context, provider string, err error) {
	switch {
	case err != nil && !w.failed[provider]:
		w.Logger.LogAttrs(ctx, slog.LevelWarn, "cannot look for due breakers", slog.String("provider", provider), slog.Any("error", err))
	case err == nil && w.failed[provider]:
		w.Logger.LogAttrs(ctx, slog.LevelInfo, "looking for due breakers again", slog.String("provider", provider))
	}
	w.failed[provider] = err != nil
}

func (w *watch) begin(key Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.probing[key] {
		return false
	}
	w.probing[key] = true
	return true
}

func (w *watch) end(key Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.probing, key)
}

// probe takes the lease and, if it wins, sends the probe and reports.
func (w *watch) probe(ctx context.Context, key Key) {
	granted := time.Now() // before the store's: our view of the lease ends first
	t, err := w.Store.AdmitProbe(ctx, key)
	var open *OpenError
	switch {
	case errors.Is(err, ErrNotDue), errors.As(err, &open), ctx.Err() != nil:
		return // another process was faster
	case err != nil:
		w.Logger.LogAttrs(ctx, slog.LevelWarn, "cannot take a probe's lease", slog.String("model", key.Model), slog.Any("error", err))
		return
	}
	var report *Report // nil: the prober panicked or left by Goexit
	defer func() {
		if p := recover(); p != nil {
			w.Logger.LogAttrs(ctx, slog.LevelError, "prober panicked",
				slog.String("model", key.Model), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
		if ctx.Err() != nil && report != nil && report.Outcome == Failure && !report.Hard {
			report = nil // we ended the probe, the provider did not fail it
		}
		w.settle(ctx, t, report, granted.Add(t.Lease))
	}()
	deadline := granted.Add(t.Lease - min(10*time.Second, t.Lease/4))
	probeCtx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	r := w.Prober.Probe(probeCtx, t)
	report = &r
}

// settle reports or, without a report, releases; it tries again while the store
// fails, also when Run is told to end.
func (w *watch) settle(ctx context.Context, t Ticket, report *Report, leaseEnd time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	ctx, cancelLease := context.WithDeadline(ctx, leaseEnd)
	defer cancelLease()
	for {
		var err error
		if report != nil {
			err = w.Store.Report(ctx, t, *report)
		} else {
			err = w.Store.Release(ctx, t)
		}
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			w.Logger.LogAttrs(ctx, slog.LevelWarn, "probe's result is lost", slog.String("model", t.Key.Model),
				slog.Any("error", fmt.Errorf("settle probe of %s: %w", t.Key.Model, err)))
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
