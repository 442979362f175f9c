package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/dashboard"
)

func TestTonight(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	got := b.get(t, "/")
	if got.status != http.StatusOK {
		t.Fatalf("status %d", got.status)
	}
	page := text(got.body)
	wantAll(
		t, page,
		"openai/gpt-4o open unavailable: status 503: the provider failed 96 lines wait · next probe in 42 s",
		"anthropic/claude-sonnet-4-5 half open timeout: silent for 20 s a probe is under way, its lease ends in 9 s",
		"ada guard open 1,000 of 1,000 calls an hour 3 lines wait · has room in 7 min",
		"Lines to go 4,494 2 batches, 1 waiting",
		"Rate 91/min",
		"Done at 00:10:00 1 late",
		"Cost tonight $41.28 $41.00 in the last hour",
		"Waste $0.0312",
		"Degraded 14 % 1,210 of 8,441 answers",
		"Workers 2 43 of 100 slots taken",
		"translations overnight · ada running 7 % · 369 of 400 left 6.2/min 00:10:00 in 1 h late 23:40:00 in 30 min $0.0123",
		"67 % · 4,125 of 12,500 left · 140 failed 84/min 23:59:00 in 49 min on time 06:10:00 in 7 h $41.27 $0.0312 wasted",
		"waits for openai/gpt-4o: its breaker is open (96 lines) , until 23:10:42 in 42 s",
		"Ended in the last 12 hours",
		"titles-2026-10-04 overnight · nightly-report done 100 % of 200",
	)
	wantAll(t, got.body, `<rect class="degraded" x="560.00" y="0" width="96.80" height="10"/>`, `title="2026-10-05 23:10:42 UTC"`, `/charts/lines?v=`)
	if late, onTime := strings.Index(page, "translations"), strings.Index(page, "summaries-2026"); late > onTime {
		t.Error("the batch that will be late does not come first")
	}
	if strings.Contains(page, "configurations") || strings.Contains(page, "said nothing") {
		t.Errorf("a healthy fleet is an alarm: %s", page)
	}
}

// What is wrong with the fleet stands on top too.
func TestTonightOfASickFleet(t *testing.T) {
	b := setup(t, withNight)
	f := &b.fleet.status
	f.KeeperID = ""
	f.Workers[1].Lost, f.Workers[1].Silent = true, 90*time.Second
	f.Queues = append(f.Queues, dashboard.Queue{Name: "slow", Backlog: 7, Open: true}, dashboard.Queue{Name: "calm", Workers: 1, Paused: true, PausedBy: "ann", Open: true})
	f.Workers[0].ConfigHash = "other"
	wantAll(
		t, text(b.get(t, "/").body),
		"Nobody is the keeper no keeper", "queue slow not served no worker serves it 7 lines wait", "queue calm paused paused by ann",
		"1 worker lost", "2 configurations differ",
	)
	f.Workers = nil
	wantAll(t, text(b.get(t, "/").body), "No worker runs nobody works start one with: worker run")
	b.fleet.err = errors.New("down")
	if page := text(b.get(t, "/").body); strings.Contains(page, "No worker runs") {
		t.Error("what cannot be read is called missing")
	}
}

func TestTonightOfNothing(t *testing.T) {
	b := setup(t, nil)
	wantAll(t, text(b.get(t, "/").body), "There is no breaker, no guard is open.", "No batch yet: enqueue one with enqueue batch FILE .", "Lines to go 0 0 batches")
	_, b.breakers.list = aNight(now)
	b.breakers.list = b.breakers.list[3:]
	b.batches.list = []batch.Status{{ID: "old", State: batch.Done, FinishedAt: new(now.Add(-20 * time.Hour))}}
	page := text(b.get(t, "/").body)
	wantAll(t, page, "All 1 breaker is closed, no guard is open.", "Nothing runs and nothing waits.")
	if strings.Contains(page, "Ended in the last") {
		t.Error("a batch of yesterday is tonight's")
	}
}

func TestPagesSayRehearsal(t *testing.T) {
	const notice = "This is a rehearsal"
	if page := setup(t, nil).get(t, "/").body; strings.Contains(page, notice) {
		t.Error("a real run is called a rehearsal")
	}
	b := setup(t, func(o *dashboard.Options) { o.Rehearsal = true })
	wantAll(t, b.get(t, "/").body, notice)
}

// When a part cannot be read the others are shown, and nothing claims to be empty.
func TestPagesWhenRedisDoesNotAnswer(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	b.batches.list, b.batches.err = nil, errors.New("dial tcp: secret detail")
	got := b.get(t, "/")
	if got.status != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", got.status)
	}
	page := text(got.body)
	wantAll(t, page, "The batches cannot be read right now.", "openai/gpt-4o open")
	for _, wrong := range []string{"No batch yet", "secret detail"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page says %q", wrong)
		}
	}
	for path, want := range map[string]string{
		"/batches": "The batches cannot be read", "/batches/x": "The batch cannot be read", "/batches/x/lines/1": "The line cannot be read",
	} {
		if got := b.get(t, path); got.status != http.StatusServiceUnavailable || !strings.Contains(text(got.body), want) || strings.Contains(got.body, "No batch yet") {
			t.Errorf("%s: status %d: %s", path, got.status, text(got.body))
		}
	}
	b.breakers.err, b.guards.err, b.fleet.err, b.paces.err, b.figures.err, b.minutes.err = b.batches.err, b.batches.err, b.batches.err, b.batches.err, b.batches.err, b.batches.err
	for path, want := range map[string]string{
		"/":         "The batches, the breakers, the figures of the night, the guards, the workers cannot be read",
		"/breakers": "The batches, the breakers, the figures of the models, the paces cannot be read",
		"/guard":    "The guards cannot be read", "/fleet": "The workers cannot be read", "/ladders": "The batches, the breakers",
	} {
		got := b.get(t, path)
		if page := text(got.body); got.status != http.StatusServiceUnavailable || !strings.Contains(page, want) || strings.Contains(page, "secret detail") {
			t.Errorf("%s: status %d: %s", path, got.status, page)
		}
	}
}

func TestPagesEscapeNames(t *testing.T) {
	b := setup(t, nil)
	b.batches.list = []batch.Status{{ID: `<script>alert(1)</script>`, State: batch.Running, Total: 1, Outstanding: 1}}
	for _, path := range []string{"/", "/batches"} {
		page := b.get(t, path).body
		if strings.Contains(page, "<script>alert") {
			t.Fatal("a batch's ID became a script")
		}
		wantAll(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;")
	}
}

// Tonight stays short; the list of batches has all, in pages.
func TestManyBatches(t *testing.T) {
	b := setup(t, nil)
	for i := range 450 {
		b.batches.list = append(b.batches.list, batch.Status{ID: fmt.Sprintf("done-%03d", i), State: batch.Done, FinishedAt: &now})
	}
	for i := range 60 {
		b.batches.list = append(b.batches.list, batch.Status{ID: fmt.Sprintf("run-%02d", i), State: batch.Running})
	}
	page := b.get(t, "/").body
	wantAll(t, text(page), "10 more")
	if n := strings.Count(page, "data-batch="); n != 55 {
		t.Errorf("Tonight has %d batches, want 50 unfinished and 5 ended", n)
	}
	page = b.get(t, "/batches").body
	wantAll(t, text(page), "all 510 running 60 done 450", "1 to 200 of 510 Next")
	if first, done := strings.Index(page, "run-00"), strings.Index(page, "done-000"); first < 0 || first > done {
		t.Errorf("the unfinished batch is at %d, the newest finished one at %d", first, done)
	}
	wantAll(t, text(b.get(t, "/batches?page=3").body), "401 to 510 of 510 Previous", "done-449")
	wantAll(t, text(b.get(t, "/batches?page=99").body), "401 to 510")
	page = text(b.get(t, "/batches?state=running").body)
	if strings.Contains(page, "done-") || strings.Count(page, "run-") != 60 {
		t.Errorf("of the running ones it shows %s", page)
	}
	wantAll(t, text(b.get(t, "/batches?state=scheduled").body), "No batch is scheduled.")
	wantAll(t, text(b.get(t, "/batches?state=nonsense&page=-1").body), "1 to 200 of 510")
}

func TestStaticFiles(t *testing.T) {
	b := setup(t, nil)
	for path, kind := range map[string]string{
		"/static/style.css": "text/css; charset=utf-8",
		"/static/live.js":   "text/javascript; charset=utf-8",
		"/static/icon.svg":  "image/svg+xml",
	} {
		if got := b.get(t, path); got.status != http.StatusOK || got.header.Get("Content-Type") != kind {
			t.Errorf("%s: status %d, type %q", path, got.status, got.header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/static/", "/static/..%2ftemplates%2flayout.html", "/static/none", "/templates/layout.html", "/other", "/charts/none"} {
		if got := b.get(t, path); got.status != http.StatusNotFound && got.status != http.StatusBadRequest {
			t.Errorf("%s: status %d", path, got.status)
		}
	}
}
