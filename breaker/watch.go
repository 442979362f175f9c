package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
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
// One in every process of a fleet is right; the leases say who probes. It begins
// as many probes of a round as it gets leases for.
type Watcher struct {
	Store     Store
	Providers []string
	// Models are those that Prober can send; nil: all. A process whose
	// configuration lacks a model leaves its probes to others.
	Models   []Key
	Prober   Prober
	Logger   *slog.Logger  // defaults to discarding
	Interval time.Duration // between two looks; defaults to 1 s
}

// settleTime is how long a probe's report is tried while the store fails. The
// lease ends by itself afterwards.
const settleTime = 5 * time.Second

// watch is one Run of a Watcher.
type watch struct {
	Watcher
	probes sync.WaitGroup
	lent   chan string // providers of which a lease was got: another may be free

	mu     sync.Mutex
	asking map[Key]bool        // for a lease, now
	ends   map[Key][]time.Time // of the leases whose probes this process sends

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
	run := &watch{
		Watcher: w, lent: make(chan string, len(w.Providers)),
		asking: map[Key]bool{}, ends: map[Key][]time.Time{}, failed: map[string]bool{},
	}
	defer run.probes.Wait()
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		run.lookAll(ctx)
		if !run.wait(ctx, tick.C) {
			return
		}
	}
}

func (w *watch) lookAll(ctx context.Context) {
	for _, p := range w.Providers {
		w.look(ctx, p)
	}
}

// wait waits for the next look at all, and looks again at once where a lease was
// got: the round may have another, of this model or of the next in turn. It says
// whether to go on.
func (w *watch) wait(ctx context.Context, tick <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case provider := <-w.lent:
			w.look(ctx, provider)
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
		if w.sends(key) && w.begin(key) {
			w.probes.Go(func() { w.probe(ctx, key) })
		}
	}
}

func (w *watch) sends(key Key) bool { return w.Models == nil || slices.Contains(w.Models, key) }

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

// begin says whether to ask for a lease: nobody does, and no prober of an earlier
// one has outstayed it, which the next might do as well.
func (w *watch) begin(key Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	overdue := func(end time.Time) bool { return !now.Before(end) }
	if w.asking[key] || slices.ContainsFunc(w.ends[key], overdue) {
		return false
	}
	w.asking[key] = true
	return true
}

// took notes that asking is over, and the end of the lease that it got; zero: none.
func (w *watch) took(key Key, end time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.asking, key)
	if !end.IsZero() {
		w.ends[key] = append(w.ends[key], end)
	}
}

// over notes that the probe of a lease has returned.
func (w *watch) over(key Key, end time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.ends[key], end)
	if w.ends[key] = slices.Delete(w.ends[key], i, i+1); len(w.ends[key]) == 0 {
		delete(w.ends, key)
	}
}

// probe takes the lease and, if it wins, sends the probe and reports.
func (w *watch) probe(ctx context.Context, key Key) {
	granted := time.Now() // before the store's: our view of the lease ends first
	t, err := w.Store.AdmitProbe(ctx, key)
	if err != nil {
		w.took(key, time.Time{})
		if !isAnswer(err) && ctx.Err() == nil {
			w.Logger.LogAttrs(ctx, slog.LevelWarn, "cannot take a probe's lease", slog.String("model", key.Model), slog.Any("error", err))
		}
		return // else another process was faster
	}
	end := granted.Add(t.Lease)
	w.took(key, end)
	defer w.over(key, end)
	select {
	case w.lent <- key.Provider:
	default: // the next look is near
	}
	w.send(ctx, t, end)
}

// send sends the probe and reports.
func (w *watch) send(ctx context.Context, t Ticket, end time.Time) {
	var report *Report // nil: the prober panicked or left by Goexit
	defer func() {
		if p := recover(); p != nil {
			w.Logger.LogAttrs(ctx, slog.LevelError, "prober panicked",
				slog.String("model", t.Key.Model), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
		if ctx.Err() != nil && report != nil && report.Outcome == Failure && !report.Hard {
			report = nil // we ended the probe, the provider did not fail it
		}
		w.settle(ctx, t, report, end)
	}()
	probeCtx, cancel := context.WithDeadline(ctx, end.Add(-min(10*time.Second, t.Lease/4)))
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
