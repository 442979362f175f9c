package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
	"nightshift/tasks"
)

// scrape serves a registry with everything in it and returns a response.
func scrape(t *testing.T, from FleetSources, method, path string, log *slog.Logger) *httptest.ResponseRecorder {
	t.Helper()
	reg := NewRegistry()
	m := NewMetrics(reg, MetricsOptions{Version: "1.2.3", ConfigHash: "abc", Keys: []breaker.Key{gpt}, Queues: []string{"overnight"}})
	m.Call(gpt, ladder.ForLine, provider.Call{Kind: provider.OK, LatencyMS: 20, Usage: provider.Usage{InputTokens: 1, OutputTokens: 1}})
	m.Probe(breaker.ScopeModel, gpt, provider.OK)
	m.Deferral("overnight", ladder.ReasonBreaker)
	m.Line("overnight", batch.Succeeded)
	NewFleet(reg, from)
	rec := httptest.NewRecorder()
	MetricsHandler(reg, log).ServeHTTP(rec, httptest.NewRequest(method, path, nil))
	return rec
}

func TestMetricsServer(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	page := scrape(t, fleetOf(), http.MethodGet, "/metrics", log)
	if page.Code != http.StatusOK {
		t.Fatalf("status %d: %s", page.Code, page.Body)
	}
	for _, want := range []string{
		"nightshift_breaker_state{", "nightshift_build_info{", "go_goroutines ", "process_resident_memory_bytes ", "promhttp_metric_handler_errors_total{",
	} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if got := scrape(t, fleetOf(), http.MethodPost, "/metrics", log); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", got.Code)
	}
	if got := scrape(t, fleetOf(), http.MethodGet, "/", log); got.Code != http.StatusNotFound {
		t.Errorf("/: status %d", got.Code)
	}
}

// A scrape survives a Redis outage: the counters of this process still come.
func TestMetricsServerWithoutRedis(t *testing.T) {
	from := fleetOf()
	from.Breakers = func(context.Context) ([]breaker.Status, error) { return nil, errors.New("connection refused") }
	var logged bytes.Buffer
	page := scrape(t, from, http.MethodGet, "/metrics", slog.New(slog.NewTextHandler(&logged, nil)))
	body := page.Body.String()
	if page.Code != http.StatusOK || !strings.Contains(body, "nightshift_lines_total{") || strings.Contains(body, "nightshift_breaker_state{") {
		t.Errorf("status %d: %s", page.Code, body)
	}
	if !strings.Contains(logged.String(), "connection refused") {
		t.Errorf("the log does not say why: %s", &logged)
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	page := scrape(t, fleetOf(), http.MethodGet, "/metrics", slog.New(slog.DiscardHandler))
	problems, err := promlint.New(page.Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "nightshift_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// What is exported is what MetricList, and so docs/metrics.md, says: name, type,
// labels and help, and nothing beside it.
func TestMetricsAreListed(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, MetricsOptions{Keys: []breaker.Key{gpt}, Queues: []string{"overnight"}})
	m.Call(gpt, ladder.ForLine, provider.Call{Kind: provider.OK, Usage: provider.Usage{OutputTokens: 1}})
	m.FirstToken(gpt, time.Second)
	m.Probe(breaker.ScopeModel, gpt, provider.OK)
	m.Answers("overnight", tasks.By{Model: gpt.Model}, 1)
	m.redisHook(stateConnection)
	NewFleet(reg, fleetOf())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var exported, listed []string
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		exported = append(exported, fmt.Sprintln(f.GetName(), strings.ToLower(f.GetType().String()), labels, f.GetHelp()))
	}
	for _, m := range MetricList() {
		listed = append(listed, fmt.Sprintln(m.Name, m.Type, slices.Sorted(slices.Values(m.Labels)), m.Help))
	}
	slices.Sort(listed)
	slices.Sort(exported)
	if diff := cmp.Diff(listed, exported); diff != "" {
		t.Errorf("listed (-) and exported (+):\n%s", diff)
	}
}

// The buckets hold every limit that the defaults can cut a call off at.
func TestCallBuckets(t *testing.T) {
	for _, limit := range []float64{10, 15, 20, 30, 600} {
		if !slices.Contains(callBuckets, limit) {
			t.Errorf("no bucket ends at %v s", limit)
		}
	}
	if !slices.IsSorted(callBuckets) || callBuckets[0] != 0.1 {
		t.Errorf("buckets %v", callBuckets)
	}
}
