package ladder

import (
	"context"
	"testing"
	"time"

	"nightshift/config"
	"nightshift/provider"
)

// climbing is a ladder of three in an outage: a model, another after a while,
// and a text at the deadline.
func climbing(b *bundle, rungs ...config.Rung) *Ladder {
	b.t.Helper()
	c := nightly(1)
	c.Rungs = rungs
	return b.ladder(c)
}

func modelRung(name string, after time.Duration) config.Rung {
	return config.Rung{Model: "p/" + name, Tries: 1, After: after}
}

var sorry = config.Rung{Text: "Sorry.", AtDeadline: true}

func TestAfterCountsFromTheFirstRefusalOfABreaker(t *testing.T) {
	b := setup(t, "a", "b")
	b.open("a", time.Minute)
	l := climbing(b, modelRung("a", 0), modelRung("b", 10*time.Minute))
	r := line()
	out := b.run(l, r)
	wantEnd(t, out, Deferred, "")
	equal(t, "waits", out.Waits, []Wait{
		{"p/a", ReasonBreaker, epoch.Add(time.Minute)},
		{"p/b", ReasonRung, epoch.Add(10 * time.Minute)},
	})
	for _, step := range []time.Duration{9 * time.Minute, time.Minute - time.Nanosecond} {
		b.pass(step)
		r.Progress = out.Progress
		out = b.run(l, r)
		wantEnd(t, out, Deferred, "")
		same(t, "first refused", out.Progress.FirstRefused, epoch)
	}
	b.pass(time.Nanosecond)
	r.Progress = out.Progress
	out = b.run(l, r)
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, "p/b")
}

// A rate limit is no refusal that `after` counts from, and neither is a failure.
func TestAfterDoesNotCountRateLimitsOrFailures(t *testing.T) {
	b := setup(t, "a", "b")
	b.pace.until["p/a"] = epoch.Add(time.Hour)
	l := climbing(b, modelRung("a", 0), modelRung("b", time.Second))
	r := line()
	out := b.run(l, r)
	wantEnd(t, out, Deferred, "")
	equal(t, "waits", out.Waits, []Wait{{"p/a", ReasonLimited, epoch.Add(time.Hour)}})

	delete(b.pace.until, "p/a")
	b.script("a", down())
	for range 3 {
		b.pass(time.Hour)
		r.Progress = out.Progress
		out = b.run(l, r)
		wantEnd(t, out, Failed, "unavailable")
		same(t, "first refused", out.Progress.FirstRefused, time.Time{})
	}
	same(t, "calls of b", b.calls("b"), 0)
}

// A line that no rung above can answer does not wait for their refusal.
func TestAfterDoesNotHoldUpALineWithoutAnotherRung(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", &provider.Error{Kind: provider.ContentFiltered, StatusCode: 400})
	c := nightly(1)
	c.OnFilter, c.Rungs = "next", []config.Rung{modelRung("a", 0), modelRung("b", time.Hour)}
	out := b.run(b.ladder(c), line())
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, "p/b")
}

func TestALineThatNamesARungDoesNotWaitForIt(t *testing.T) {
	for _, named := range []config.Rung{
		{Model: "p/b", Tries: 1, After: time.Hour},
		{Model: "p/b", Tries: 1, AtDeadline: true},
	} {
		b := setup(t, "a", "b")
		r := line()
		r.Rung, r.Deadline = 1, epoch.Add(time.Hour)
		out := b.run(climbing(b, modelRung("a", 0), named), r)
		wantEnd(t, out, Answered, "")
		same(t, "by", out.Answer.Model, "p/b")
		same(t, "calls of a", b.calls("a"), 0)
	}
}

func TestAtDeadlineOpensAtTheMargin(t *testing.T) {
	b := setup(t, "a")
	b.open("a", time.Minute)
	l := climbing(b, modelRung("a", 0), sorry)
	r := line()
	r.Deadline, r.Margin = epoch.Add(5*time.Minute+500*time.Millisecond), 10*time.Second
	margin := epoch.Add(4*time.Minute + 50*time.Second) // a whole second
	out := b.run(l, r)
	wantEnd(t, out, Deferred, "")
	equal(t, "waits", out.Waits[1:], []Wait{{"", ReasonRung, margin}})
	same(t, "last resort", out.LastResort, margin)
	b.pass(margin.Sub(b.Now()) - 1)
	wantEnd(t, b.run(l, r), Deferred, "")
	b.pass(1)
	delete(b.breakers.open, "p/a")
	out = b.run(l, r)
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, TextModel)
	same(t, "calls after the margin", b.calls("a"), 0)
	same(t, "last resort", out.LastResort, time.Time{})
}

func TestWithoutADeadlineThereIsNoLastResort(t *testing.T) {
	b := setup(t, "a")
	b.open("a", time.Minute)
	out := b.run(climbing(b, modelRung("a", 0), sorry), line())
	wantEnd(t, out, Deferred, "")
	equal(t, "waits", out.Waits, []Wait{{"p/a", ReasonBreaker, epoch.Add(time.Minute)}})
}

// A call under way ends at the margin, says nothing about its model, and the
// line gets its text at once.
func TestCallsEndAtTheMarginWhileALastResortRemains(t *testing.T) {
	b := setup(t, "a")
	b.callers["p/a"].takes = time.Minute
	m := b.models["p/a"]
	m.FirstToken = 2 * time.Minute
	b.models["p/a"] = m
	r := line()
	r.Deadline, r.Margin = epoch.Add(30*time.Second), 10*time.Second
	out := b.run(climbing(b, modelRung("a", 0), sorry), r)
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, TextModel)
	same(t, "at", b.Now(), epoch.Add(20*time.Second))
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.Canceled})
	same(t, "failures of its breaker", len(b.breakers.outcomes("a")), 1)

	b.pass(-20 * time.Second)
	out = b.run(climbing(b, modelRung("a", 0)), r)
	wantEnd(t, out, Deferred, "")
	same(t, "without a last resort it ends at the deadline", b.Now(), r.Deadline)
}

// A model at the deadline has half of the margin, and the text the rest.
func TestAModelAtTheDeadlineLeavesTimeForTheText(t *testing.T) {
	b := setup(t, "a", "b")
	b.open("a", time.Hour)
	b.callers["p/b"].takes = time.Minute
	r := line()
	r.Deadline, r.Margin = epoch.Add(30*time.Second), 20*time.Second
	last := config.Rung{Model: "p/b", Tries: 2, AtDeadline: true}
	l := climbing(b, modelRung("a", 0), last, sorry)
	wantEnd(t, b.run(l, r), Deferred, "")
	b.pass(10 * time.Second)
	out := b.run(l, r)
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, TextModel)
	same(t, "at", b.Now(), epoch.Add(20*time.Second))
	same(t, "calls of b", b.calls("b"), 1)

	b.pass(-10 * time.Second)
	b.callers["p/b"].takes = 15 * time.Second
	out = b.run(climbing(b, modelRung("a", 0), last), r)
	wantEnd(t, out, Answered, "")
	same(t, "without a text it has all the time", out.Answer.Model, "p/b")
}

// What is spent does not cost a line its text: it waits for that, and calls
// nobody meanwhile.
func TestSpentLinesWaitForTheLastResort(t *testing.T) {
	for name, spent := range map[string]func(*Request, *config.Ladder){
		"calls":   func(_ *Request, c *config.Ladder) { c.MaxCalls = 1 },
		"retries": func(r *Request, _ *config.Ladder) { r.Progress.Failures = r.Retries + 1 },
	} {
		b := setup(t, "a")
		b.script("a", down())
		c := nightly(1)
		c.Rungs = []config.Rung{modelRung("a", 0), sorry}
		r := line()
		r.Deadline, r.Margin = epoch.Add(time.Hour), time.Minute
		spent(&r, &c)
		r.Progress.Calls = []provider.Call{{Model: "p/a", Kind: provider.Unavailable}}
		out := b.run(b.ladder(c), r)
		wantEnd(t, out, Deferred, "")
		equal(t, name, out.Waits, []Wait{{"", ReasonRung, epoch.Add(59 * time.Minute)}})
		same(t, "calls", b.calls("a"), 0)
		b.pass(59 * time.Minute)
		wantEnd(t, b.run(b.ladder(c), r), Answered, "")
	}
}

func TestAStopDuringACallAtTheMarginIsNoText(t *testing.T) {
	b := setup(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) {
		b.pass(time.Minute)
		cancel()
		return provider.Answer{}, context.Canceled
	}
	r := line()
	r.Deadline, r.Margin = epoch.Add(90*time.Second), time.Minute
	out := climbing(b, modelRung("a", 0), sorry).whole(ctx, r, b.journal)
	wantEnd(t, out, Interrupted, "")
}

func withTries(r config.Rung, n int) config.Rung {
	r.Tries = n
	return r
}

// A call that would need far more time than is left is paid for and cut: it is
// not made, and the line waits for its deadline.
func TestNoCallIsBoughtThatCannotBeInTime(t *testing.T) {
	b := setup(t, "a")
	b.callers["p/a"].takes = 10 * time.Second
	l := b.ladder(nightly(1, "a"))
	wantEnd(t, b.run(l, line()), Answered, "")
	r := line()
	r.Deadline = b.Now().Add(4 * time.Second)
	out := b.run(l, r)
	wantEnd(t, out, Deferred, "")
	same(t, "calls", b.calls("a"), 1)
	equal(t, "waits", out.Waits, []Wait{{"p/a", ReasonDeadline, r.Deadline}})
	r.Deadline = b.Now().Add(6 * time.Second)
	b.run(l, r)
	same(t, "calls with enough time", b.calls("a"), 2)

	// Lines that never have more time would never see that it is faster by now.
	b.pass(2 * forget)
	r.Deadline = b.Now().Add(4 * time.Second)
	b.run(l, r)
	same(t, "calls after a while", b.calls("a"), 3)
}

// A model at the deadline is what the other calls were ended for. With nothing
// after it, it is called however long it usually takes; with a text, that comes.
func TestTheLastModelIsNotPassedOverForItsUsualTime(t *testing.T) {
	for name, tt := range map[string]struct {
		after []config.Rung
		by    string
		calls int
	}{
		"nothing after it": {nil, "p/b", 2},
		"a text after it":  {[]config.Rung{sorry}, TextModel, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "a", "b")
			b.open("a", time.Hour)
			b.callers["p/b"].takes = 25 * time.Second
			last := config.Rung{Model: "p/b", Tries: 1, AtDeadline: true}
			l := climbing(b, append([]config.Rung{modelRung("a", 0), last}, tt.after...)...)
			r := line()
			r.Deadline, r.Margin = epoch.Add(time.Minute), time.Minute
			wantEnd(t, b.run(l, r), Answered, "")
			b.callers["p/b"].takes = 5 * time.Second
			r.Deadline, r.Margin = b.Now().Add(10*time.Second), 10*time.Second
			out := b.run(l, r)
			wantEnd(t, out, Answered, "")
			same(t, "by", out.Answer.Model, tt.by)
			same(t, "calls of b", b.calls("b"), tt.calls)
		})
	}
}
