package ladder

import (
	"context"
	"errors"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
	"nightshift/provider"
)

func tooMany(after time.Duration) *provider.Error {
	return &provider.Error{Kind: provider.RateLimited, StatusCode: 429, Message: "slow down", RetryAfter: after}
}

func TestShortParkIsWaitedForInTheAttempt(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", tooMany(12*time.Second), nil)
	out := b.attempt(1, "a", "b")
	wantEnd(t, out, Answered, "")
	same(t, "degraded", out.Answer.Degraded, false)
	equal(t, "slept", b.slept, []time.Duration{12 * time.Second})
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.RateLimited, provider.OK})
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.Limited, breaker.Success})
	same(t, "first limited", out.Progress.FirstLimited, epoch.Add(time.Second))
}

func TestCase22_A429WithoutHeadersIsNoBusyLoop(t *testing.T) {
	b := setup(t, "a")
	b.script("a", tooMany(0))
	out := b.attempt(2, "a")
	wantEnd(t, out, Deferred, "")
	// 1 s, doubling; what is longer than the attempt may hold its slot defers.
	equal(t, "slept", b.slept, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9})
	equal(t, "waits", out.Waits, []Wait{{"p/a", ReasonLimited, b.Now().Add(32 * time.Second)}})
	same(t, "calls", b.calls("a"), 6)
}

func TestCase22_AStoreThatCannotParkIsNoBusyLoop(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", tooMany(time.Millisecond))
	l := b.ladder(nightly(2, "a", "b"))
	l.gate = forgetful{l.gate}
	out := b.run(l, line())
	wantEnd(t, out, Deferred, "")
	same(t, "calls", b.calls("a"), inlineWaits+1)
	for _, d := range b.slept {
		same(t, "slept", d, minPark)
	}
}

type forgetful struct{ Gate }

func (f forgetful) Leave(ctx context.Context, p Pass, x Exit) (time.Duration, error) {
	x.Result.Kind = limit.Unclear
	_, err := f.Gate.Leave(ctx, p, x)
	return 0, errors.Join(err, errors.New("gone"))
}

func TestCase23_RetryAfter30KeepsEveryoneAwayAndSpendsNothing(t *testing.T) {
	b := setup(t, "a")
	b.script("a", tooMany(30*time.Second), nil)
	c := nightly(2, "a")
	l := b.ladder(c)
	out := b.run(l, line())
	wantEnd(t, out, Deferred, "")
	equal(t, "slept", b.slept, nil)
	back := b.Now().Add(30 * time.Second)
	equal(t, "waits", out.Waits, []Wait{{"p/a", ReasonLimited, back}})

	// Another line, of another worker, meets the park until it has passed.
	for b.Now().Before(back) {
		other := line()
		other.Line++
		c.Patience = 0
		wantEnd(t, b.run(b.ladder(c), other), Deferred, "")
		same(t, "calls", b.calls("a"), 1)
		b.pass(5 * time.Second)
	}
	r := line()
	r.Progress = out.Progress
	wantEnd(t, b.run(l, r), Answered, "")
}

func TestLongParkWithinPatienceKeepsTheQuality(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", tooMany(2*time.Minute), nil)
	l := b.ladder(nightly(2, "a", "b"))
	out := b.run(l, line())
	wantEnd(t, out, Deferred, "")
	same(t, "calls of b", b.calls("b"), 0)

	b.pass(2 * time.Minute)
	r := line()
	r.Progress = out.Progress
	out = b.run(l, r)
	wantEnd(t, out, Answered, "")
	same(t, "degraded", out.Answer.Degraded, false)
}

func TestPatienceCountsFromTheFirstRefusal(t *testing.T) {
	for _, tc := range []struct {
		first time.Duration // since the first refusal
		by    string
	}{{0, "p/a"}, {4 * time.Minute, "p/a"}, {4*time.Minute + 51*time.Second, "p/b"}, {time.Hour, "p/b"}} {
		b := setup(t, "a", "b")
		b.pace.until["p/a"] = epoch.Add(10 * time.Second)
		r := line()
		r.Progress.FirstLimited = epoch.Add(-tc.first)
		out := b.run(b.ladder(nightly(2, "a", "b")), r)
		wantEnd(t, out, Answered, "")
		same(t, "answered by", out.Answer.Model, tc.by)
	}
}

func TestParkBeyondPatienceDefersOnTheLastRung(t *testing.T) {
	b := setup(t, "a")
	b.pace.until["p/a"] = epoch.Add(time.Hour)
	out := b.attempt(2, "a")
	wantEnd(t, out, Deferred, "")
	equal(t, "waits", out.Waits, []Wait{{"p/a", ReasonLimited, epoch.Add(time.Hour)}})
	same(t, "first limited", out.Progress.FirstLimited, epoch)
}

func TestAFailureIsNotSpentOnAPark(t *testing.T) {
	b := setup(t, "a", "b", "c")
	b.script("a", down())
	b.pace.until["p/b"] = epoch.Add(time.Minute)
	out := b.attempt(1, "a", "b", "c")
	wantEnd(t, out, Answered, "")
	same(t, "answered by", out.Answer.Model, "p/c")
}

func TestAParkPastTheDeadlineIsNotWaitedFor(t *testing.T) {
	b := setup(t, "a", "b")
	b.pace.until["p/a"] = epoch.Add(20 * time.Second)
	r := line()
	r.Deadline = epoch.Add(15 * time.Second)
	out := b.run(b.ladder(nightly(1, "a", "b")), r)
	wantEnd(t, out, Answered, "")
	same(t, "answered by", out.Answer.Model, "p/b")
}

func TestRateLimitsSpendNoTries(t *testing.T) {
	b := setup(t, "a")
	b.script("a", tooMany(time.Second), tooMany(time.Second), down(), nil)
	out := b.attempt(2, "a")
	wantEnd(t, out, Answered, "")
	same(t, "calls", b.calls("a"), 4)
}

func TestTextBelowOpenBreakersAnswersAtOnce(t *testing.T) {
	b := setup(t, "a")
	b.open("a", time.Minute)
	c := nightly(2, "a")
	c.Rungs = append(c.Rungs, config.Rung{Text: "About {{.metadata.title}}: later."})
	out := b.run(b.ladder(c), line())
	wantEnd(t, out, Answered, "")
	same(t, "waits", len(out.Waits), 0)
}

func TestAParkOutlivesTheAttempt(t *testing.T) {
	b := setup(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) {
		cancel()
		return provider.Answer{}, tooMany(time.Minute)
	}
	out := b.ladder(nightly(2, "a")).whole(ctx, line(), b.journal)
	wantEnd(t, out, Interrupted, "")
	equal(t, "the provider's word stands", kinds(out.Progress), []provider.Kind{provider.RateLimited})
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.Limited})
	equal(t, "parks", parked(b), []string{"p/a"})
}

func TestEveryRungIsWaitedForAnew(t *testing.T) {
	b := setup(t, "a", "b")
	short := tooMany(time.Second)
	b.script("a", short, short, short, down())
	b.script("b", short, short, short, short, nil)
	out := b.attempt(1, "a", "b")
	wantEnd(t, out, Answered, "")
	same(t, "waits", len(b.slept), 7)
}
