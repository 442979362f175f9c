package ladder

import (
	"fmt"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// whys are the reasons of an outcome's skips, in order.
func whys(out Outcome) []string {
	var all []string
	for _, s := range out.Progress.Skipped {
		all = append(all, s.Model+": "+s.Detail)
	}
	return all
}

func TestSkippedRungsSayWhy(t *testing.T) {
	b := setup(t, "open", "parent", "parked", "later", "ruled", "filtered")
	b.breakers.open["p/open"] = &breaker.OpenError{Scope: breaker.ScopeModel, Until: epoch.Add(time.Minute), Reason: "unavailable: status 503"}
	b.breakers.open["p/parent"] = &breaker.OpenError{Scope: breaker.ScopeParent}
	b.pace.until["p/parked"] = epoch.Add(time.Hour)
	c := nightly(1, "open", "parent", "parked", "later", "ruled", "filtered")
	c.Rungs[3].After = 2 * time.Minute
	c.Rungs = append(
		c.Rungs,
		config.Rung{Rules: []config.Rule{{Match: "^never", Text: "?"}}},
		config.Rung{Text: "early", AtDeadline: true},
		config.Rung{Text: "Sorry."},
	)
	r := line()
	r.Deadline, r.Margin = epoch.Add(2*time.Hour), time.Minute
	r.Progress.RuledOut = []int{4, 5}
	r.Progress.Calls = []provider.Call{
		{Model: "p/big", Kind: provider.ContextExceeded},
		{Model: "p/filtered", Kind: provider.ContentFiltered},
	}
	r.Progress.Skipped = []Skip{{Model: "of an earlier attempt"}}
	out := b.run(b.ladder(c), r)
	wantEnd(t, out, Answered, "")
	equal(t, "reasons", whys(out), []string{
		"p/open: its breaker is open until 2026-03-01T22:01:00Z: unavailable: status 503",
		"p/parent: the breaker of its provider is open",
		"p/parked: rate-limited until 2026-03-01T23:00:00Z",
		"p/later: not before 2026-03-01T22:02:00Z",
		"p/ruled: ruled out earlier: context_exceeded, by p/big",
		"p/filtered: ruled out earlier: content_filtered",
		"nightshift/text: no rule matches the line",
		"nightshift/text: not before 2026-03-01T23:59:00Z",
	})
	same(t, "at", out.Progress.Skipped[0].At, epoch)
	same(t, "calls", len(out.Progress.Calls), 2)
	same(t, "events", len(b.events), 0)
	same(t, "cost", out.Progress.Cost(), 0)
}

// A skip is no call: of none of the limits, and of no idempotency key.
func TestSkipsCountForNothing(t *testing.T) {
	b := setup(t, "a", "b")
	b.open("a", time.Minute)
	c := nightly(1, "a", "b")
	c.MaxCalls = 1
	fresh := b.run(b.ladder(c), line())
	wantEnd(t, fresh, Answered, "")
	r := line()
	for range 50 {
		r.Progress.Skipped = append(r.Progress.Skipped, Skip{Model: "p/b"})
	}
	wantEnd(t, b.run(b.ladder(c), r), Answered, "")
	calls := b.callers["p/b"].requests
	same(t, "key", calls[1].IdempotencyKey, calls[0].IdempotencyKey)
}

func TestSkipsAreBounded(t *testing.T) {
	b := setup(t)
	c := nightly(1)
	for i := range maxSkips + 10 {
		name := fmt.Sprint(i)
		b.add(name)
		b.open(name, time.Minute)
		c.Rungs = append(c.Rungs, config.Rung{Model: "p/" + name, Tries: 1})
	}
	out := b.run(b.ladder(c), line())
	same(t, "skips", len(out.Progress.Skipped), maxSkips)
}
