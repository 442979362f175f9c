package tasks

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nightshift/batch"
)

// renewEvery is how often leases of lines are renewed; they last 60 s, so five
// renewals may fail before another worker can take the line.
const renewEvery = 10 * time.Second

// leases renews the leases of all attempts of a process in one pipeline, and
// ends the attempts whose line is finished or taken.
type leases struct {
	lines Lines
	log   *slog.Logger

	mu   sync.Mutex
	held map[batch.Lease]context.CancelCauseFunc
}

func newLeases(lines Lines, log *slog.Logger) *leases {
	return &leases{lines: lines, log: log, held: map[batch.Lease]context.CancelCauseFunc{}}
}

func (l *leases) add(lease batch.Lease, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[lease] = cancel
}

func (l *leases) remove(lease batch.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, lease)
}

// run renews until the context ends.
func (l *leases) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.renew(ctx, every)
		}
	}
}

func (l *leases) renew(ctx context.Context, limit time.Duration) {
	l.mu.Lock()
	held := make([]batch.Lease, 0, len(l.held))
	for lease := range l.held {
		held = append(held, lease)
	}
	l.mu.Unlock()
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	lost, err := l.lines.Renew(ctx, held)
	if err != nil && ctx.Err() == nil {
		l.log.Warn("renew leases failed", "lines", len(held), "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range lost {
		if cancel := l.held[lease]; cancel != nil {
			l.log.Info("a line is over or another's; its attempt ends", "batch", lease.Ref.Batch, "line", lease.Ref.Line)
			cancel(batch.ErrFenced)
		}
	}
}
