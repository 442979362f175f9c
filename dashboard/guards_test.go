package dashboard_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/limit"
)

// someGuards are those of aNight's producers; ada's is open.
func someGuards(now time.Time) []limit.GuardStatus {
	const dollar = 1_000_000_000
	return []limit.GuardStatus{
		{Producer: limit.AllProducers, Calls: 9000},
		{Producer: "ada", Open: true, Calls: 1000, USD: dollar / 2, Limits: limit.GuardLimits{Calls: 1000, USD: 20 * dollar}, Until: now.Add(7 * time.Minute), Waiting: 3},
		{Producer: "nightly-report", Calls: 7990, USD: 41 * dollar, Limits: limit.GuardLimits{Calls: 50_000}},
		{Producer: "system", Calls: 10},
	}
}

func TestPageShowsGuards(t *testing.T) {
	b := setup(t, nil)
	b.batches.list, b.breakers.list = aNight(now)
	b.batches.list[1].Idle = true // ada's, of which nothing is released
	b.guards.list = someGuards(now)
	page := text(b.get(t, "/").body)
	wantAll(t, page,
		"2 unfinished batches, 2 of them waiting · 2 breakers not closed · 1 guard open",
		"waits for the hourly guard, until 2026-10-05 23:17:00 UTC in 7 min",
		"Producer Guard Calls Cost Lets in",
		"ada open 1,000 of 1,000 $0.5000 of $20.00 2026-10-05 23:17:00 UTC in 7 min , 3 lines have their places",
		"nightly-report closed 7,990 of 50,000 $41.00 any time",
		"system closed 10 $0 any time",
	)
	if strings.Contains(page, "all producers") {
		t.Error("a guard that bounds nothing is shown")
	}
	b.guards.list[0].Limits.Calls, b.guards.list[0].Open, b.guards.list[0].Until = 9000, true, now.Add(time.Minute)
	wantAll(t, text(b.get(t, "/").body), "2 guards open", "Lets in all producers open 9,000 of 9,000 $0 2026-10-05 23:11:00 UTC in 1 min ada open")
}

func TestPageWithoutGuards(t *testing.T) {
	b := setup(t, nil)
	wantAll(t, text(b.get(t, "/").body), "No producer made a call in the last hour.")
	b.guards.err = errors.New("down")
	b.batches.list = []batch.Status{{ID: "b", State: batch.Running, Total: 1, Outstanding: 1, Idle: true}}
	got := b.get(t, "/")
	if got.status != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", got.status)
	}
	wantAll(t, text(got.body), "The guards cannot be read right now.", "b running")
}
