package dashboard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/dashboard"
	"nightshift/internal/redistest"
)

// queued starts a dashboard on a real Redis with n tasks in the queue overnight.
func queued(t *testing.T, n int, change func(*dashboard.Options)) (*bundle, *asynq.Inspector) {
	t.Helper()
	redis := asynq.RedisClientOpt{Addr: redistest.Start(t).Addr}
	b := setup(t, func(o *dashboard.Options) {
		o.Redis = redis
		if change != nil {
			change(o)
		}
	})
	b.batches.lines = map[batch.Ref]batch.Line{}
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), inspector.Close()); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		ref := batch.Ref{Batch: "summaries", Line: int64(i + 1)}
		b.batches.lines[ref] = batch.Line{
			Number: ref.Line, CustomID: fmt.Sprintf("row-%d", ref.Line), Endpoint: "/v1/chat/completions",
			Body: json.RawMessage(`{"messages":[{"role":"user","content":"Tell me\nof the night"}]}`),
		}
		id := fmt.Sprintf("%s:%08d.%d", ref.Batch, ref.Line, ref.Generation)
		task := asynq.NewTask("line", payload(t, ref))
		if _, err := client.Enqueue(task, asynq.Queue("overnight"), asynq.TaskID(id), asynq.MaxRetry(1000)); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
	}
	return b, inspector
}

// pending returns the payloads that the console shows for pending tasks.
func pending(t *testing.T, b *bundle, query string) []string {
	t.Helper()
	got := b.get(t, "/queues/api/queues/overnight/pending_tasks"+query)
	if got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	var list struct {
		Tasks []struct{ Payload string }
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		t.Fatal(err)
	}
	var payloads []string
	for _, task := range list.Tasks {
		payloads = append(payloads, task.Payload)
	}
	return payloads
}

func TestQueuesShowTheReference(t *testing.T) {
	b, _ := queued(t, 1, nil)
	got := pending(t, b, "")
	if len(got) != 1 || got[0] != `{"batch":"summaries","line":1,"generation":0}` {
		t.Errorf("payloads %q", got)
	}
	if b.batches.asked != 0 {
		t.Errorf("%d requests were looked up though content may not be shown", b.batches.asked)
	}
}

func TestQueuesShowTheRequest(t *testing.T) {
	b, _ := queued(t, 1, func(o *dashboard.Options) { o.ShowContent = true })
	want := `{"batch":"summaries","line":1,"generation":0,"custom_id":"row-1","endpoint":"/v1/chat/completions",` +
		`"request":{"messages":[{"role":"user","content":"Tell me\nof the night"}]}}`
	if got := pending(t, b, ""); len(got) != 1 || got[0] != want {
		t.Errorf("payloads %q\nwant %s", got, want)
	}
	one := b.get(t, "/queues/api/queues/overnight/tasks/summaries:00000001.0")
	wantAll(t, one.body, "row-1")
}

// asynqmon alone answers with as many tasks as the query asks for.
func TestQueuesBoundThePage(t *testing.T) {
	b, _ := queued(t, 210, nil)
	for query, want := range map[string]int{
		"": 20, "?size=10": 10, "?size=200": 200, "?size=201": 200, "?size=1000000": 200, "?size=-1": 200, "?size=0": 200,
		"?size=99999999999999999999": 200, "?size=5&size=100000": 5, "?page=2&size=5000": 10, "?SIZE=5000": 20,
	} {
		if got := len(pending(t, b, query)); got != want {
			t.Errorf("%q: %d tasks, want %d", query, got, want)
		}
	}
}

func TestQueuesAreReadOnly(t *testing.T) {
	b, inspector := queued(t, 1, nil)
	for _, r := range []struct{ method, path string }{
		{"POST", "/queues/api/queues/overnight:pause"},
		{"DELETE", "/queues/api/queues/overnight"},
		{"POST", "/queues/api/queues/overnight/pending_tasks:archive_all"},
		{"DELETE", "/queues/api/queues/overnight/pending_tasks:delete_all"},
	} {
		if got := b.change(t, r.method, r.path, b.queuesToken(t)); got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: status %d", r.method, r.path, got.status)
		}
	}
	info, err := inspector.GetQueueInfo("overnight")
	if err != nil {
		t.Fatal(err)
	}
	if info.Paused || info.Pending != 1 {
		t.Errorf("the queue was changed: paused %t, pending %d", info.Paused, info.Pending)
	}
}

// queuesToken returns the CSRF token that asynqmon's page is given.
func (b *bundle) queuesToken(t *testing.T) string {
	t.Helper()
	for _, c := range (&http.Response{Header: b.get(t, "/queues/").header}).Cookies() {
		if c.Name == "XSRF-TOKEN" {
			return c.Value
		}
	}
	t.Fatal("the page is given no token")
	return ""
}

func TestQueuesPageNamesNoOtherHost(t *testing.T) {
	b := setup(t, nil)
	outside := regexp.MustCompile(`(href|src)="?(https?:)?//`)
	for _, path := range []string{"/queues/", "/queues/queues/overnight", "/queues/queues/a.b/tasks/x:00000001.0", "/queues/settings"} {
		got := b.get(t, path)
		if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: status %d, type %q", path, got.status, got.header.Get("Content-Type"))
		}
		if m := outside.FindString(got.body); m != "" {
			t.Errorf("%s: the page names another host: %q", path, m)
		}
		wantAll(t, got.body, `window.FLAG_ROOT_PATH="\/queues"`, `window.FLAG_READ_ONLY="true"`)
	}
	if got := b.get(t, "/queues/api/metrics"); got.status != http.StatusNotFound {
		t.Errorf("the console asks a Prometheus server: status %d: %s", got.status, got.body)
	}
	if got := b.get(t, "/queues/favicon.ico"); got.status != http.StatusOK || strings.Contains(got.body, "<html") {
		t.Errorf("favicon: status %d", got.status)
	}
}

// A Redis that hangs or fails costs one lookup a pause, not one a row.
func TestQueuesStopLookingUpAfterAFailure(t *testing.T) {
	clock := now
	b, _ := queued(t, 20, func(o *dashboard.Options) {
		o.ShowContent = true
		o.Now = func() time.Time { return clock }
	})
	b.batches.err = errors.New("i/o timeout")
	for _, p := range pending(t, b, "") {
		wantAll(t, p, `"batch":"summaries"`, `"note":"the request cannot be read right now"`)
	}
	if b.batches.asked != 1 {
		t.Errorf("%d lookups, want 1", b.batches.asked)
	}
	b.batches.err = nil
	clock = clock.Add(5 * time.Second)
	for _, p := range pending(t, b, "") {
		wantAll(t, p, `"custom_id":"row-`)
	}
}
