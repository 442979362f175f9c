package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/ladder"
	"nightshift/limit"
	"nightshift/provider"
)

// live is told what happens in this process, and shows what is worth seeing:
// one line for each breaker that changes and each model that is parked. It
// implements app.Observer.
type live struct {
	mu      sync.Mutex
	changes []breaker.Transition // not shown yet
	limited map[breaker.Key]bool // met a 429, not shown yet
	parked  map[string]time.Time // by model: until when, as was shown
	seen    seen
}

// seen is what this process did.
type seen struct {
	calls, probes int64 // calls, and how many of them were probes
	avoided       int64 // tries that met an open breaker
}

func newLive() *live {
	return &live{limited: map[breaker.Key]bool{}, parked: map[string]time.Time{}}
}

// Transition implements app.Observer.
func (l *live) Transition(t breaker.Transition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, t)
}

// Called implements app.Observer.
func (l *live) Called(e ladder.CallEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.calls++
	if e.Purpose == ladder.ForProbe {
		l.seen.probes++
	}
	if e.Call.Kind == provider.RateLimited {
		l.limited[e.Key] = true
	}
}

// Avoided implements app.Observer.
func (l *live) Avoided(breaker.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.avoided++
}

// Deferred implements app.Observer.
func (l *live) Deferred(string, string) {}

// LinesEnded implements app.Observer.
func (l *live) LinesEnded(string, batch.Outcome, int) {}

// sum returns what this process did so far.
func (l *live) sum() seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// take returns what is to be shown.
func (l *live) take() (changes []breaker.Transition, limited []breaker.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changes, l.changes = l.changes, nil
	for k := range l.limited {
		limited = append(limited, k)
	}
	clear(l.limited)
	return changes, limited
}

// show shows what happened since the last time.
func (l *live) show(ctx context.Context, p *program, conn *app.Conn, progress *cli.Progress) {
	changes, limited := l.take()
	for _, t := range changes {
		if t.To == breaker.HalfOpen {
			continue // what the probe finds is the news
		}
		progress.Event("%s %s", p.Stamp(t.At), describeChange(t, untilOf(ctx, conn, t.Key), p))
	}
	for _, k := range limited {
		left := parkedFor(ctx, conn, k)
		until := time.Now().Add(left)
		if left <= 0 || until.Sub(l.parked[k.Model]) < time.Second {
			continue // it is over, or was shown
		}
		l.parked[k.Model] = until
		progress.Event("%s %s asks for patience (429): no worker calls it until %s", p.Stamp(time.Now()), k.Model, p.Clock(until, time.Now()))
	}
}

// parkedFor is how long a model is parked; 0: it is not, or that is unknown.
func parkedFor(ctx context.Context, conn *app.Conn, k breaker.Key) time.Duration {
	all, err := conn.Pacer.List(ctx, []limit.Model{{Provider: k.Provider, Model: k.Model}})
	if err != nil || len(all) == 0 {
		return 0
	}
	return all[0].Parked
}

// untilOf is when an open breaker lets a probe through; zero: it is not open, or unknown.
func untilOf(ctx context.Context, conn *app.Conn, k breaker.Key) time.Time {
	all, err := conn.Breakers.List(ctx, []breaker.Key{k})
	if err != nil || len(all) == 0 || all[0].State != breaker.Open {
		return time.Time{}
	}
	return all[0].Until
}

// status is a classified error with the provider's status.
var status = regexp.MustCompile(`^(\w+): status (\d+): .*`)

// briefly is a breaker's reason in a few words, e.g. "unavailable (503)".
func briefly(reason string) string { return status.ReplaceAllString(reason, "$1 ($2)") }

func describeChange(t breaker.Transition, until time.Time, p *program) string {
	var b strings.Builder
	fmt.Fprintf(&b, "breaker of %s ", t.Key)
	switch t.To {
	case breaker.Open:
		if t.From == breaker.HalfOpen {
			b.WriteString("stays open")
		} else {
			b.WriteString("opened")
		}
		if t.Reason != "" {
			b.WriteString(": " + briefly(t.Reason))
		}
		if !until.IsZero() {
			b.WriteString("; next probe at " + p.Clock(until, time.Now()))
		}
	case breaker.Closed:
		b.WriteString("closed: lines call it again")
	}
	return b.String()
}
