package breaker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// This file has what a Fallback does so that its shared store hears of what
// happened while it was away.

// untold are results that the shared store has not heard, oldest first.
type untold struct {
	mu   sync.Mutex
	list []*result
}

// result is one of them.
type result struct {
	ticket Ticket // of the shared store, or, with local.decided, of the memory
	report Report
	at     int64 // ms of the memory's clock
}

// add keeps a result; of one model the last most, as many as a ring can hold.
func (u *untold) add(r *result, most int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	same := func(x *result) bool { return x.ticket.Key == r.ticket.Key }
	n := 0
	for _, x := range u.list {
		if same(x) {
			n++
		}
	}
	if n >= most {
		i := slices.IndexFunc(u.list, same)
		u.list = slices.Delete(u.list, i, i+1)
	}
	u.list = append(u.list, r)
}

// first returns the oldest; nil: there is none.
func (u *untold) first() *result {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) == 0 {
		return nil
	}
	return u.list[0]
}

// retake gives a result another ticket.
func (u *untold) retake(r *result, t Ticket) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r.ticket = t
}

// drop forgets what gone says.
func (u *untold) drop(gone func(*result) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = slices.DeleteFunc(u.list, gone)
}

// alone applies to the memory a result that the shared store does not know. What
// has answered a probe since is up: its older failures are not told any more.
func (f *Fallback) alone(key Key, op Op) {
	r := f.local.alone(key, &op)
	if r.Change.To == Closed {
		f.untold.drop(func(x *result) bool { return x.ticket.Key == key })
	}
	if r.ParentChange.To == Closed {
		f.untold.drop(func(x *result) bool { return x.ticket.Key.Parent() == key.Parent() })
	}
}

// keep has the shared store told of a result when it answers again, if that
// moves something there. A probe of the memory's own is evidence where it failed;
// its answer closed the memory, which is all that it can.
func (f *Fallback) keep(t Ticket, r Report) {
	evidence := r.Hard || r.Outcome == Failure || r.Outcome == Success && !t.Probe
	if !evidence && r.Output == Unjudged {
		return
	}
	if !evidence {
		r.Outcome = None
	}
	key := t.Key
	most := max(f.local.complete(key).Window, f.local.complete(key.Parent()).Window)
	f.untold.add(&result{ticket: t, report: r, at: f.now()}, most)
	f.side.Owe()
}

// catchUp tells the shared store what it missed, in order.
func (f *Fallback) catchUp(ctx context.Context) error {
	for r := f.untold.first(); r != nil; r = f.untold.first() {
		err := f.tell(ctx, r)
		var open *OpenError
		switch {
		case errors.As(err, &open): // it knows
			f.local.adopt(r.ticket.Key, open)
			f.untold.drop(func(x *result) bool { return x.ticket.Key == r.ticket.Key && x.ticket.local.decided })
		case err != nil:
			return err
		}
		f.untold.drop(func(x *result) bool { return x == r })
	}
	return nil
}

// tell reports one result that is still young: under its own ticket, or, where
// the memory admitted the call, under a fresh one, which is kept, so that a
// report whose reply is lost counts once.
func (f *Fallback) tell(ctx context.Context, r *result) error {
	age := millis(max(f.now()-r.at, 0))
	if age > f.young(r.ticket.Key) {
		return nil
	}
	if r.ticket.local.decided {
		t, err := f.shared.Admit(ctx, r.ticket.Key, NoProbe)
		if err != nil {
			return err
		}
		f.untold.retake(r, t)
	}
	report := r.report
	report.RetryAfter = max(report.RetryAfter-age, 0)
	return f.shared.Report(ctx, r.ticket, report)
}

// young is the age up to which a result is told: it counts from then on as if
// it were new, so a pace of calls cannot stretch this.
func (f *Fallback) young(key Key) time.Duration {
	if s := f.local.complete(key); s.Stale != 0 {
		return s.Stale
	}
	return autoStale
}
