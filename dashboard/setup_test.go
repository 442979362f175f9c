package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/dashboard"
	"nightshift/limit"
	"nightshift/provider"
)

// now is the time of every page in these tests, unless one says otherwise.
var now = time.Date(2026, 10, 5, 23, 10, 0, 0, time.UTC)

// fakeBatches answers from memory.
type fakeBatches struct {
	mu    sync.Mutex
	list  []batch.Status
	lines map[batch.Ref]batch.Line
	err   error
	asked int // requests looked up
}

func (f *fakeBatches) List(context.Context) ([]batch.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list, f.err
}

func (f *fakeBatches) Request(_ context.Context, ref batch.Ref) (batch.Line, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.err != nil {
		return batch.Line{}, f.err
	}
	line, ok := f.lines[ref]
	if !ok {
		return batch.Line{}, batch.ErrNotFound
	}
	return line, nil
}

// fakeBreakers answers from memory.
type fakeBreakers struct {
	list []breaker.Status
	err  error
}

func (f *fakeBreakers) List(context.Context, []breaker.Key) ([]breaker.Status, error) {
	return f.list, f.err
}

// fakeGuards answers from memory.
type fakeGuards struct {
	list []limit.GuardStatus
	err  error
}

func (f *fakeGuards) List(context.Context) ([]limit.GuardStatus, error) { return f.list, f.err }

// decodeTask reads the payloads of these tests, a reference as JSON.
func decodeTask(payload []byte) (batch.Ref, error) {
	var ref batch.Ref
	if err := json.Unmarshal(payload, &ref); err != nil {
		return batch.Ref{}, fmt.Errorf("decode task: %w", err)
	}
	return ref, nil
}

func payload(t *testing.T, ref batch.Ref) []byte {
	t.Helper()
	b, err := json.MarshalIndent(ref, "", "\n") // as unprintable as it gets
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bundle is a dashboard behind a real HTTP server.
type bundle struct {
	url      string
	batches  *fakeBatches
	breakers *fakeBreakers
	guards   *fakeGuards
}

// setup starts a dashboard; change may alter its options first.
func setup(t *testing.T, change func(*dashboard.Options)) *bundle {
	t.Helper()
	b := &bundle{batches: &fakeBatches{}, breakers: &fakeBreakers{}, guards: &fakeGuards{}}
	opts := dashboard.Options{
		Batches:    b.batches,
		Breakers:   b.breakers,
		Guards:     b.guards,
		Redis:      asynq.RedisClientOpt{Addr: "127.0.0.1:1"},
		DecodeTask: decodeTask,
		Location:   time.UTC,
		Now:        func() time.Time { return now },
	}
	if change != nil {
		change(&opts)
	}
	d, err := dashboard.New(opts)
	if err != nil {
		t.Fatalf("new dashboard: %v", err)
	}
	server := httptest.NewServer(d)
	t.Cleanup(func() {
		server.Close()
		if err := d.Close(); err != nil {
			t.Errorf("close dashboard: %v", err)
		}
	})
	b.url = server.URL
	return b
}

// answer is a response read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends one request; host "" leaves the server's own.
func (b *bundle) do(t *testing.T, method, path, host string) answer {
	t.Helper()
	return b.send(t, method, path, func(r *http.Request) {
		if host != "" {
			r.Host = host
		}
	})
}

// change sends a request with a CSRF token, as asynqmon's page does.
func (b *bundle) change(t *testing.T, method, path, token string) answer {
	t.Helper()
	return b.send(t, method, path, func(r *http.Request) { r.Header.Set("X-XSRF-TOKEN", token) })
}

// send sends one request, as changed.
func (b *bundle) send(t *testing.T, method, path string, change func(*http.Request)) answer {
	t.Helper()
	r, err := http.NewRequest(method, b.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	change(r)
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (b *bundle) get(t *testing.T, path string) answer {
	t.Helper()
	return b.do(t, http.MethodGet, path, "")
}

func ptr[T any](v T) *T { return &v }

// aNight is a batch in each interesting state, and breakers likewise.
func aNight(now time.Time) ([]batch.Status, []breaker.Status) {
	premium := breaker.Key{Provider: "openai", Model: "openai/gpt-4o", Region: "eastus"}
	local := breaker.Key{Provider: "local", Model: "local/llama3.1:8b"}
	batches := []batch.Status{{
		ID: "summaries-2026-10-05", State: batch.Waiting, Queue: "overnight", Producer: "nightly-report",
		Total: 12500, Succeeded: 8210, Failed: 140, Expired: 25, Outstanding: 4125, Degraded: 1210, Cached: 640, Calls: 9044, Deferrals: 318,
		CostUSD: provider.Dollars(41.27), WastedUSD: provider.Dollars(0.0312), RatePerMinute: 84.4,
		ETA: ptr(now.Add(49 * time.Minute)), OnTime: ptr(true), Deadline: ptr(now.Add(7 * time.Hour)), CreatedAt: now.Add(-2 * time.Hour),
		AnsweredBy: map[string]int64{premium.Model: 7000, local.Model: 1200, "nightshift/text": 10},
		WaitingFor: []batch.WaitingFor{{Model: premium.Model, Reason: "breaker_open", Until: now.Add(42 * time.Second)}},
	}, {
		ID: "translations", State: batch.Running, Queue: "overnight", Producer: "ada",
		Total: 400, Succeeded: 31, Outstanding: 369, Calls: 31, CostUSD: provider.Dollars(0.0123), RatePerMinute: 6.2,
		ETA: ptr(now.Add(time.Hour)), OnTime: ptr(false), Deadline: ptr(now.Add(30 * time.Minute)), CreatedAt: now.Add(-5 * time.Minute),
	}, {
		ID: "titles-2026-10-04", State: batch.Done, Queue: "overnight", Producer: "nightly-report",
		Total: 200, Succeeded: 200, Calls: 200, CreatedAt: now.Add(-26 * time.Hour), FinishedAt: ptr(now.Add(-25 * time.Hour)),
	}}
	breakers := []breaker.Status{{
		Key: premium, Scope: breaker.ScopeModel, State: breaker.Open, Reason: "unavailable: status 503", Until: now.Add(42 * time.Second),
		Cooldown: 2 * time.Minute, Failures: 11, Results: 14, Window: 20,
		Transitions: []breaker.Transition{
			{From: breaker.HalfOpen, To: breaker.Open, Reason: "probe failed: status 503", At: now.Add(-18 * time.Second)},
			{From: breaker.Open, To: breaker.HalfOpen, Reason: "probe", At: now.Add(-20 * time.Second)},
			{From: breaker.Closed, To: breaker.Open, Reason: "unavailable: status 503", At: now.Add(-50 * time.Second)},
			{From: breaker.HalfOpen, To: breaker.Closed, Reason: "the fourth is left out", At: now.Add(-time.Hour)},
		},
	}, {
		Key: breaker.Key{Provider: "anthropic", Model: "anthropic/claude-sonnet-4-5"}, Scope: breaker.ScopeModel, State: breaker.HalfOpen,
		Reason: "timeout: silent for 20 s", Until: now.Add(9 * time.Second), Cooldown: time.Minute, Failures: 11, Results: 20, Window: 20,
	}, {
		Key: local, Scope: breaker.ScopeModel, State: breaker.Closed, Cooldown: 30 * time.Second, Results: 20, Window: 20,
	}}
	return batches, breakers
}
