package ladder

import (
	"context"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// night is many lines over one ladder, breakers in memory and a probe as soon as
// one is due, all in virtual time.
type night struct {
	*bundle
	ladder *Ladder
	store  *breaker.Memory
	prober *Prober
	lines  []*waiting
}

// waiting is a line between two attempts.
type waiting struct {
	r     Request
	wakes time.Time
	by    string    // who answered
	at    time.Time // when it ended
}

// newNight has n lines with a deadline, and both models down for a while.
func newNight(t *testing.T, n int, deadline, outage time.Duration) *night {
	b := &night{bundle: setup(t, "a", "b")}
	callers := map[string]Caller{}
	for key, c := range b.callers {
		c.takes = 50 * time.Millisecond
		c.reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
			if b.Now().Before(epoch.Add(outage)) {
				return provider.Answer{}, down()
			}
			return answers(ctx, n, r)
		}
		callers[key] = c
	}
	b.store = breaker.NewMemory(func(breaker.Key) breaker.Settings {
		return breaker.Settings{Window: 20, Failures: 11, Cooldown: 30 * time.Second, MaxCooldown: 5 * time.Minute}
	}, b.Now)
	c := config.Ladder{Name: "n", Patience: 5 * time.Minute, Rungs: []config.Rung{
		{Model: "p/a", Tries: 2}, {Model: "p/b", Tries: 2}, sorry,
	}}
	var err error
	b.ladder, err = New(Options{
		Ladder: c, Models: b.models, Callers: callers, Gate: b.gate(b.store),
		Sleeper: b, Now: b.Now, Rand: func() float64 { return 0.5 },
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.prober, err = NewProber(ProberOptions{Models: b.models, Callers: callers, Gate: b.gate(b.breakers), Now: b.Now}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r := line()
		r.Line, r.Deadline, r.Margin = int64(i+1), epoch.Add(deadline), 15*time.Second
		b.lines = append(b.lines, &waiting{r: r, wakes: epoch})
	}
	return b
}

// run lets every line come back when it said, until all have ended.
func (b *night) run() {
	b.t.Helper()
	for {
		var next *waiting
		for _, w := range b.lines {
			if w.at.IsZero() && (next == nil || w.wakes.Before(next.wakes)) {
				next = w
			}
		}
		if next == nil {
			return
		}
		for b.Now().Before(next.wakes) {
			b.pass(min(time.Second, next.wakes.Sub(b.Now())))
			b.probe()
		}
		b.step(next)
	}
}

// step runs one attempt of a line and puts it back as package tasks does.
func (b *night) step(w *waiting) {
	b.t.Helper()
	out := b.ladder.whole(context.Background(), w.r, b.journal)
	now, limit := b.Now(), w.r.Deadline
	if !out.LastResort.IsZero() {
		limit = out.LastResort
	}
	w.r.Progress = out.Progress
	switch out.End {
	case Answered:
		w.by, w.at = out.Answer.Model, now
	case Failed:
		w.r.Progress.Failures++
		w.wakes = Backoff(w.r.Progress.Failures, now, out.NotBefore, 0.5)
		if w.wakes.After(limit) {
			w.wakes = limit
		}
	case Deferred:
		w.wakes = DeferUntil(Deferring{
			Waits: out.Waits, Now: now, Deadline: limit, MaxCooldown: 5 * time.Minute,
			Spread: Spread(len(b.lines), 5), Random: float64(w.r.Line%10) / 10,
		})
	default:
		b.t.Fatalf("line %d ended in %d: %s", w.r.Line, out.End, out.Message)
	}
	if w.at.IsZero() && !w.wakes.After(now) {
		b.t.Fatalf("line %d comes back at %s, it is %s", w.r.Line, w.wakes, now)
	}
}

// probe does what a worker's watcher does.
func (b *night) probe() {
	b.t.Helper()
	for key := range b.models {
		t, err := b.store.AdmitProbe(context.Background(), breaker.Key{Provider: "p", Model: key})
		if err != nil {
			continue // not due
		}
		if err := b.store.Report(context.Background(), t, b.prober.Probe(context.Background(), t)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// In an outage of ten minutes, lines that have an hour wait for their models;
// lines that have five minutes get the text, and none of it comes late.
func TestTextAtTheDeadline(t *testing.T) {
	b := newNight(t, 40, time.Hour, 10*time.Minute)
	b.run()
	for _, w := range b.lines {
		if w.by == TextModel || !w.at.Before(w.r.Deadline) || w.at.Before(epoch.Add(10*time.Minute)) {
			t.Errorf("an hour: line %d was answered by %s at %s", w.r.Line, w.by, w.at.Sub(epoch))
		}
	}
	calls := b.calls("a") + b.calls("b")
	if calls > 2*40*2+40 { // passes before the breakers open, probes, answers
		t.Errorf("%d calls", calls)
	}

	b = newNight(t, 40, 5*time.Minute, 10*time.Minute)
	b.run()
	margin := MarginAt(epoch.Add(5*time.Minute), 15*time.Second)
	for _, w := range b.lines {
		if w.by != TextModel || w.at.Before(margin) || !w.at.Before(w.r.Deadline) {
			t.Errorf("five minutes: line %d was answered by %s at %s", w.r.Line, w.by, w.at.Sub(epoch))
		}
	}
}
