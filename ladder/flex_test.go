package ladder

import (
	"context"
	"testing"
	"time"

	"nightshift/config"
	"nightshift/provider"
)

// flexLadder is a model at a cheap tier without guarantees, then as it is.
func flexLadder(patience time.Duration) config.Ladder {
	c := nightly(1, "a", "a")
	c.Patience = patience
	c.Rungs[0].Set = map[string]any{"service_tier": "flex"}
	c.Rungs[0].Price = &config.Price{Input: .5, Output: 1}
	return c
}

// noCapacity has a model's flex tier be full.
func noCapacity(b *bundle) {
	b.callers["p/a"].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		if r.Set["service_tier"] != "flex" {
			return answers(ctx, n, r)
		}
		return provider.Answer{}, &provider.Error{Kind: provider.RateLimited, StatusCode: 429, Tier: true, RetryAfter: time.Minute}
	}
}

func TestFlexTierAnswersAtItsOwnPrice(t *testing.T) {
	b := setup(t, "a")
	out := b.run(b.ladder(flexLadder(0)), line())
	wantEnd(t, out, Answered, "")
	same(t, "degraded", out.Answer.Degraded, false)
	same(t, "cost", out.Progress.Cost(), provider.Dollars((100*.5+10*1)/1e6))
}

// A full flex tier parks that tier for the fleet, and the model's other rung
// goes on.
func TestFlexCapacityIsTheTiersAlone(t *testing.T) {
	b := setup(t, "a")
	noCapacity(b)
	l := b.ladder(flexLadder(0))
	out := b.run(l, line())
	wantEnd(t, out, Answered, "")
	same(t, "rung", out.Answer.Rung, 1)
	same(t, "degraded", out.Answer.Degraded, true)
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.RateLimited, provider.OK})
	equal(t, "parks", parked(b), []string{"p/a#flex"})
	same(t, "cost", out.Progress.Cost(), provider.Dollars((100*1+10*2)/1e6))
	calls := b.callers["p/a"].requests
	if len(calls[1].Set) > 0 || calls[0].IdempotencyKey == calls[1].IdempotencyKey {
		t.Errorf("calls %+v", calls)
	}

	// Another line does not even ask.
	out = b.run(l, line())
	wantEnd(t, out, Answered, "")
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.OK})
	equal(t, "skips", whys(out), []string{"p/a: rate-limited until 2026-03-01T22:01:01Z"})
}

func TestFlexIsWaitedForWithPatience(t *testing.T) {
	b := setup(t, "a")
	noCapacity(b)
	out := b.run(b.ladder(flexLadder(5*time.Minute)), line())
	wantEnd(t, out, Deferred, "")
	equal(t, "waits", out.Waits, []Wait{{"p/a", ReasonLimited, b.Now().Add(time.Minute)}})
}

// A rate limit of the model concerns all its rungs.
func TestARateLimitOfTheModelParksEveryTier(t *testing.T) {
	b := setup(t, "a")
	b.script("a", tooMany(time.Minute))
	out := b.run(b.ladder(flexLadder(0)), line())
	wantEnd(t, out, Deferred, "")
	equal(t, "parks", parked(b), []string{"p/a"})
	same(t, "calls", b.calls("a"), 1)
}
