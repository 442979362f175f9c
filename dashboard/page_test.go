package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/dashboard"
)

// text returns the page as its reader sees it: no tags, single spaces.
func text(html string) string {
	var out strings.Builder
	inTag := false
	for _, r := range html {
		switch {
		case r == '<':
			inTag = true
			out.WriteByte(' ')
		case r == '>':
			inTag = false
		case !inTag:
			out.WriteRune(r)
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

func wantAll(t *testing.T, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q:\n%s", part, page)
		}
	}
}

func TestPageShowsBatches(t *testing.T) {
	b := setup(t, nil)
	b.batches.list, b.breakers.list = aNight(now)
	got := b.get(t, "/")
	if got.status != http.StatusOK {
		t.Fatalf("status %d", got.status)
	}
	wantAll(t, text(got.body),
		"2 unfinished batches, 1 of them waiting · 2 breakers not closed",
		"summaries-2026-10-05 waiting queue overnight · producer nightly-report 67 %",
		"7,000 succeeded 1,210 degraded 140 failed 25 expired 4,125 outstanding of 12,500",
		"waits for openai/gpt-4o , breaker open, until 2026-10-05 23:10:42 UTC in 42 s",
		"Cost $41.27 Calls 9,044 Deferrals 318 Cached 640 Rate 84 a minute Of it wasted $0.0312",
		"ETA 2026-10-05 23:59:00 UTC in 49 min on time",
		"Deadline 2026-10-06 06:10:00 UTC in 7 h",
		"Answered by openai/gpt-4o 7,000 · local/llama3.1:8b 1,200 · nightshift/text 10 Created",
		"ETA 2026-10-06 00:10:00 UTC in 1 h late",
		"Finished 2026-10-04 22:10:00 UTC 1 d 1 h ago",
	)
	wantAll(t, got.body, `<rect class="degraded" x="560" y="0" width="96.8" height="10"/>`)
}

func TestPageShowsBreakers(t *testing.T) {
	b := setup(t, nil)
	b.batches.list, b.breakers.list = aNight(now)
	b.breakers.list = append(b.breakers.list, breaker.Status{
		Key: breaker.Key{Provider: "openai", Region: "eastus"}, Scope: breaker.ScopeParent, State: breaker.Closed,
	})
	page := text(b.get(t, "/").body)
	wantAll(t, page,
		"openai/gpt-4o open model of openai · region eastus unavailable: status 503 next probe 2026-10-05 23:10:42 UTC in 42 s",
		"Failures 11 of the last 14 Window 20 calls Next cooldown 2 min",
		"half open → open 2026-10-05 23:09:42 UTC 18 s ago probe failed: status 503",
		"half open model of anthropic timeout: silent for 20 s a probe is under way, its lease ends 2026-10-05 23:10:09 UTC in 9 s",
		"local/llama3.1:8b closed",
		"openai@eastus closed provider",
	)
	if strings.Contains(page, "the fourth is left out") {
		t.Error("the page shows more than the last three transitions")
	}
}

func TestPageOfNothing(t *testing.T) {
	page := text(setup(t, nil).get(t, "/").body)
	wantAll(t, page, "No unfinished batch", "No batch yet: enqueue one with enqueue batch FILE .", "No breaker: the configuration names no model.")
}

func TestPageSaysRehearsal(t *testing.T) {
	const notice = "This is a rehearsal"
	if page := setup(t, nil).get(t, "/").body; strings.Contains(page, notice) {
		t.Error("a real run is called a rehearsal")
	}
	b := setup(t, func(o *dashboard.Options) { o.Rehearsal = true })
	wantAll(t, b.get(t, "/").body, notice)
}

// When a part cannot be read the other is shown, and nothing claims to be empty.
func TestPageWhenRedisDoesNotAnswer(t *testing.T) {
	b := setup(t, nil)
	_, b.breakers.list = aNight(now)
	b.batches.err = errors.New("dial tcp: secret detail")
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
	b.batches.err, b.breakers.err = nil, errors.New("down")
	wantAll(t, text(b.get(t, "/").body), "No batch yet", "The breakers cannot be read right now.")
}

func TestPageEscapesNames(t *testing.T) {
	b := setup(t, nil)
	b.batches.list = []batch.Status{{ID: `<script>alert(1)</script>`, State: batch.Running, Total: 1, Outstanding: 1}}
	page := b.get(t, "/").body
	if strings.Contains(page, "<script>alert") {
		t.Fatal("a batch's ID became a script")
	}
	wantAll(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;")
}

// The page stays short, and what still runs is never what is left out.
func TestPageLeavesOldBatchesOut(t *testing.T) {
	b := setup(t, nil)
	for i := range 150 {
		b.batches.list = append(b.batches.list, batch.Status{ID: fmt.Sprintf("done-%03d", i), State: batch.Done})
	}
	b.batches.list = append(b.batches.list, batch.Status{ID: "old-but-running", State: batch.Running})
	page := b.get(t, "/").body
	wantAll(t, text(page), "1 unfinished batch", "51 older not shown: enqueue status lists all.")
	running, done := strings.Index(page, "old-but-running"), strings.Index(page, "done-000")
	if running < 0 || done < 0 || running > done {
		t.Errorf("the unfinished batch is at %d, the newest finished one at %d", running, done)
	}
	if strings.Contains(page, "done-099") {
		t.Error("more than 100 batches are shown")
	}
}

func TestStaticFiles(t *testing.T) {
	b := setup(t, nil)
	for path, kind := range map[string]string{
		"/static/style.css":  "text/css; charset=utf-8",
		"/static/refresh.js": "text/javascript; charset=utf-8",
		"/static/icon.svg":   "image/svg+xml",
	} {
		if got := b.get(t, path); got.status != http.StatusOK || got.header.Get("Content-Type") != kind {
			t.Errorf("%s: status %d, type %q", path, got.status, got.header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/static/", "/static/..%2ftemplates%2fpage.html", "/static/none", "/templates/page.html", "/other"} {
		if got := b.get(t, path); got.status != http.StatusNotFound && got.status != http.StatusBadRequest {
			t.Errorf("%s: status %d", path, got.status)
		}
	}
}

// Where nobody has answered yet, and nothing came from the cache, the page says
// nothing of either.
func TestPageOfABatchWithoutAnswers(t *testing.T) {
	b := setup(t, nil)
	b.batches.list = []batch.Status{{ID: "fresh", State: batch.Running, Total: 2, Outstanding: 2, AnsweredBy: map[string]int64{}}}
	page := text(b.get(t, "/").body)
	for _, wrong := range []string{"Answered by", "Cached"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page says %q", wrong)
		}
	}
}
