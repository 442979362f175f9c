package dashboard_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"nightshift/batch"
	"nightshift/dashboard"
)

func TestBatch(t *testing.T) {
	b := setup(t, nil)
	b.fill()
	got := b.get(t, "/batches/summaries-2026-10-05").body
	wantAll(
		t, text(got),
		"Run 165 lines again… Cancel…", "waiting 67 % 4,125 of 12,500 lines left on time",
		"7,000 succeeded 1,210 degraded 140 failed 25 expired 4,125 outstanding",
		"waits for openai/gpt-4o: its breaker is open (96 lines) , until 23:10:42 in 42 s",
		"Queue overnight Producer nightly-report", "Calls 9,044 Cost $41.27 Wasted $0.0312 Degraded 14 % of the answers From the cache 640",
		"Who answered openai/gpt-4o 7,000 local/llama3.1:8b 1,200 nightshift/text 10",
		"318 deferrals breaker open 290 guard 28",
		"retries_exhausted 101 line 8369 Run again", "invalid_request 39 line 8201 Run again", "batch_expired 25 – Run again",
		"8371 succeeded – 23:09:58", "8365 retried 1 time succeeded",
	)
	if strings.Contains(got, `data-code="timeout"`) {
		t.Error("a code of which all lines were taken back is shown")
	}
	wantAll(t, got, `href="/batches/summaries-2026-10-05/retry?code=retries_exhausted"`)
	page := text(b.get(t, "/batches/titles-2026-10-04").body)
	wantAll(t, page, "done 100 % all 200 lines have ended", "Finished 19:10:00", "Nobody yet.", "None was.")
	if strings.Contains(page, "Cancel…") || strings.Contains(page, "again…") {
		t.Error("a batch that is done can be cancelled, or one without failures retried")
	}
	if got := b.get(t, "/batches/none"); got.status != http.StatusNotFound || !strings.Contains(got.body, "There is no batch none.") {
		t.Errorf("no batch: status %d", got.status)
	}
}

// Cancelled lines are not run again: a batch that was cancelled takes nothing back.
func TestBatchThatWasCancelled(t *testing.T) {
	b := setup(t, nil)
	b.batches.list = []batch.Status{{
		ID: "c", State: batch.Done, Total: 3, Failed: 1, Cancelled: 2, EndedAs: map[string]int64{"batch_cancelled": 2, "timeout": 1}, FinishedAt: &now,
	}}
	page := text(b.get(t, "/batches/c").body)
	wantAll(t, page, "batch_cancelled 2", "timeout 1")
	if strings.Contains(page, "Run again") {
		t.Errorf("a cancelled batch can be retried: %s", page)
	}
}

// Lines that were passed over at the submission have no request to send: they are not
// offered, beside those that a model refused, and never alone.
func TestBatchWithLinesThatWereNoRequests(t *testing.T) {
	b := setup(t, nil)
	st := batch.Status{
		ID: "c", State: batch.Done, Total: 9, Failed: 5, Succeeded: 4, PassedOver: 3, EndedAs: map[string]int64{"invalid_request": 5}, FinishedAt: &now,
	}
	b.batches.list = []batch.Status{st}
	wantAll(t, text(b.get(t, "/batches/c").body), "invalid_request 5", "Run 2 lines again")
	wantAll(t, text(b.get(t, "/batches/c/retry?code=invalid_request").body), "Run 2 lines of c again?")
	st.PassedOver = 5
	b.batches.list = []batch.Status{st}
	if page := text(b.get(t, "/batches/c").body); strings.Contains(page, "again") {
		t.Errorf("lines that were no requests can be retried: %s", page)
	}
	wantAll(t, text(b.get(t, "/batches/c/retry?code=invalid_request").body), "No line of the batch is to be run again.")
}

func TestTheFormLeadsToALine(t *testing.T) {
	b := setup(t, nil)
	b.fill()
	got := b.get(t, "/batches/summaries-2026-10-05?line=7")
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/batches/summaries-2026-10-05/lines/7" {
		t.Errorf("status %d to %q", got.status, got.header.Get("Location"))
	}
	for path, want := range map[string]string{
		"/batches/summaries-2026-10-05?line=x":    "A line has a number, from 1.",
		"/batches/summaries-2026-10-05/lines/0":   "A line has a number, from 1.",
		"/batches/summaries-2026-10-05/lines/700": "This batch has no line 700: its 9 lines are numbered 1 to 9.",
		"/batches/other/lines/7":                  "There is no batch other.",
	} {
		if got := b.get(t, path); got.status != http.StatusNotFound || !strings.Contains(text(got.body), want) {
			t.Errorf("%s: status %d: %s", path, got.status, text(got.body))
		}
	}
}

func TestLine(t *testing.T) {
	b := setup(t, nil)
	b.fill()
	b.content()
	page := text(b.get(t, "/batches/summaries-2026-10-05/lines/7").body)
	wantAll(
		t, page,
		"Line 7 row-7", "Line 6 Line 8", "finished succeeded answered by anthropic/claude-sonnet-4-5 degraded at 23:09:00 1 min ago",
		"Calls 2 Deferrals 1 Failed attempts 0 Cost $0.0021 Tokens 412 in, 93 out",
		"23:01:00 9 min ago openai/gpt-4o unavailable 812 ms $0 unavailable: status 503: the provider failed req_1",
		"openai/gpt-4o passed over – – its breaker is open –",
		"anthropic/claude-sonnet-4-5 ok 3.2 s $0.0021 – req_2",
		"Not shown: dashboard.show_content is off.",
	)
	if strings.Contains(page, "canary") || b.batches.asked > 0 {
		t.Errorf("content is read though it is not to be shown: %s", page)
	}
}

// content gives line 7 a request and an answer.
func (b *bundle) content() {
	b.batches.lines = map[batch.Ref]batch.Line{
		{Batch: "summaries-2026-10-05", Line: 7}: {Number: 7, Endpoint: "/v1/chat/completions", Body: json.RawMessage(`{"prompt":"canary <b>prompt</b>"}`)},
	}
	b.batches.record = batch.Record{Line: 7, Outcome: batch.Succeeded, JSON: []byte(`{"response":{"status_code":200,"body":{"text":"canary answer"}}}`)}
}

func TestLineWithContent(t *testing.T) {
	b := setup(t, func(o *dashboard.Options) { o.ShowContent = true })
	b.fill()
	b.content()
	wantAll(
		t, b.get(t, "/batches/summaries-2026-10-05/lines/7").body,
		"{\n  &#34;prompt&#34;: &#34;canary &lt;b&gt;prompt&lt;/b&gt;&#34;\n}", "&#34;text&#34;: &#34;canary answer&#34;", "/v1/chat/completions",
	)
}

// A line is told of wherever it is.
func TestLineOnItsWay(t *testing.T) {
	b := setup(t, nil)
	for want, change := range map[string]func(*batch.Story){
		"backlog not released yet: 12 lines of the batch up to it":           func(s *batch.Story) { s.Stage, s.Place = batch.StageBacklog, new(int64(12)) },
		"running a worker holds it; its lease ends now unless it is renewed": func(s *batch.Story) { s.Stage, s.LeaseUntil = batch.StageRunning, &now },
		"waiting waits for the hourly guard , until 23:10:00 now": func(s *batch.Story) {
			s.Stage, s.WaitingFor = batch.StageWaiting, &batch.WaitingFor{Reason: "guard", Until: now}
		},
		"released in the queue; its worker said nothing more since 23:10:00 now": func(s *batch.Story) { s.Stage, s.LeaseUntil = batch.StageReleased, &now },
		"finished failed at 23:10:00 now task_lost five attempts": func(s *batch.Story) {
			s.Stage, s.Outcome, s.FinishedAt, s.Error = batch.StageFinished, batch.Failed, &now, &batch.ResultError{Code: "task_lost", Message: "five attempts"}
		},
		"finished failed at 23:10:00 now The provider refused the request with status 400.": func(s *batch.Story) {
			s.Stage, s.Outcome, s.FinishedAt, s.StatusCode = batch.StageFinished, batch.Failed, &now, 400
		},
	} {
		b.batches.story = batch.Story{Batch: "b", Line: 1}
		change(&b.batches.story)
		wantAll(t, text(b.get(t, "/batches/b/lines/1").body), want, "Nothing yet.")
	}
}
