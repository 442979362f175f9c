package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"nightshift/dashboard"
)

func TestGuard(t *testing.T) {
	b := setup(t, nil)
	wantAll(t, text(b.get(t, "/guard").body), "No producer made a call in the last hour.")
	b.fill()
	got := b.get(t, "/guard").body
	page := text(got)
	wantAll(
		t, page,
		"1 guard is open : nothing of these producers is released until there is room.",
		"ada open 1,000 of 1,000 $0.5000 of $20.00 23:17:00 in 7 min 3 lines have their places Release ada",
		"nightly-report closed 7,990 of 50,000 $41.00 no limit any time",
		"system closed 10 no limit $0 no limit any time",
	)
	wantAll(t, got, `class="meter bad"`, `<rect x="0" y="0" width="159.8" height="10"/>`)
	if strings.Contains(page, "all producers") {
		t.Error("a guard that bounds nothing is shown")
	}
	all := &b.guards.list[0]
	all.Limits.Calls, all.Open, all.Until = 9000, true, now.Add(time.Minute)
	b.guards.list[1].Open, b.guards.list[1].Released, b.guards.list[1].ReleasedBy = false, now.Add(-time.Minute), "ann"
	wantAll(
		t, text(b.get(t, "/guard").body),
		"1 guard is open", "all producers open 9,000 of 9,000 $41.00 no limit 23:11:00 in 1 min", "ada closed", "released 1 min ago by ann",
	)
	wantAll(t, text(b.get(t, "/").body), "all producers guard open 9,000 of 9,000 calls an hour")
}

func TestFleet(t *testing.T) {
	b := setup(t, nil)
	page := text(b.get(t, "/fleet").body)
	wantAll(
		t, page,
		"Workers 2 live", "night-1-4711-a1b2c3 night-1, process 4711 live keeper overnight 31 of 50 v1.4.0 3f9c1a22 20:10:00 3 h ago",
		"The keeper is night-1-4711-a1b2c3", "overnight ladder nightly open 43 of 100 160 96 4,334 2",
	)
	for _, wrong := range []string{"differ", "lost", "No worker"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page of a healthy fleet says %q", wrong)
		}
	}
	f := &b.fleet.status
	f.KeeperID = ""
	f.Workers[1].ConfigHash, f.Workers[1].Version = "77aa", "v1.5.0"
	f.Workers = append(f.Workers, dashboard.Worker{ID: "gone", ConfigHash: "66", Lost: true, Silent: 5 * time.Minute, StartedAt: now})
	f.Queues = append(f.Queues, dashboard.Queue{Name: "day", Open: false, Until: now.Add(time.Hour), Backlog: 3, Out: 1, Paused: false})
	f.Queues[0].Paused, f.Queues[0].PausedBy = true, "ann"
	wantAll(
		t, text(b.get(t, "/fleet").body),
		"Nobody is the keeper at this moment", "Configurations differ: 3f9c1a22 1 worker and this dashboard; 77aa 1 worker. Restart those with the old one.",
		"Versions differ: v1.4.0, v1.5.0.", "No worker serves queue day , which has 4 lines.", "2 live, 1 lost in the last hour", "gone", "silent for 5 min",
		"77aa not this dashboard's", "paused by ann", "closed opens in 1 h",
	)
	f.Workers = nil
	wantAll(t, text(b.get(t, "/fleet").body), "No worker runs: start one with worker run .", "None.")
}
