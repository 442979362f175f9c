package dashboard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/dashboard"
)

// now is the time of every page in these tests, unless one says otherwise.
var now = time.Date(2026, 10, 5, 23, 10, 0, 0, time.UTC)

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
	paces    *fakePaces
	figures  *fakeFigures
	fleet    *fakeFleet
	minutes  *fakeMinutes
	changes  *fakeChanges
	end      func() // of the streams
}

// parts are what a dashboard is made of, from memory.
func parts() (*bundle, dashboard.Options) {
	b := &bundle{
		batches: &fakeBatches{}, breakers: &fakeBreakers{}, guards: &fakeGuards{}, paces: &fakePaces{}, figures: &fakeFigures{},
		fleet: &fakeFleet{status: aFleet(now)}, minutes: &fakeMinutes{}, changes: &fakeChanges{},
	}
	return b, dashboard.Options{
		Batches: b.batches, Breakers: b.breakers, Guards: b.guards, Paces: b.paces, Averages: b.figures, Fleet: b.fleet,
		Minutes: b.minutes, Changes: b.changes, Settings: func(breaker.Key) breaker.Settings { return breaker.Settings{} },
		Redis: asynq.RedisClientOpt{Addr: "127.0.0.1:1"}, DecodeTask: decodeTask,
		Location: time.UTC, Now: func() time.Time { return now },
	}
}

// setup starts a dashboard; change may alter its options first.
func setup(t *testing.T, change func(*dashboard.Options)) *bundle {
	t.Helper()
	b, opts := parts()
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
	b.url, b.end = server.URL, d.EndStreams
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
