package app

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/config"
)

// spans is a collector: a real server that decodes what is exported.
type spans struct {
	t   testing.TB
	mu  sync.Mutex
	all []*otlp.Span
	raw bytes.Buffer
}

func newSpans(t *testing.T) *spans {
	s := &spans{t: t}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return s
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collector.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(body)
	for _, rs := range request.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			s.all = append(s.all, ss.Spans...)
		}
	}
}

// named are the spans of a name, in the order in which they began.
func (s *spans) named(name string) (all []*otlp.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		if span.Name == name {
			all = append(all, span)
		}
	}
	slices.SortFunc(all, func(a, b *otlp.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return all
}

func value(all []*common.KeyValue, key string) string {
	for _, a := range all {
		if a.Key == key {
			return strings.Trim(strings.SplitN(a.Value.String(), ":", 2)[1], `"`)
		}
	}
	return ""
}

func nameOf(s *otlp.Span) string {
	return hex.EncodeToString(s.TraceId) + " " + hex.EncodeToString(s.SpanId)
}

// linked is what a span links to.
func linked(s *otlp.Span, what string) string {
	for _, l := range s.Links {
		if value(l.Attributes, "nightshift.link") == what {
			return hex.EncodeToString(l.TraceId) + " " + hex.EncodeToString(l.SpanId)
		}
	}
	return ""
}

// tracedSubmit submits one line as `enqueue batch` does.
func (f *fleet) tracedSubmit(id string) {
	f.t.Helper()
	d := batch.Description{ID: id, Producer: "p", Queue: "q", CreatedAt: time.Now(), Total: 1, Again: true}
	if err := f.conn.Submit(context.Background(), d, f.pack(id, 1), batch.Submission{}, slog.New(slog.DiscardHandler)); err != nil {
		f.t.Fatal(err)
	}
}

// worker runs one in this process.
func (f *fleet) worker() (stop func()) {
	f.t.Helper()
	cfg, err := config.Load(f.file)
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := New(context.Background(), cfg, Options{Worker: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		f.t.Helper()
		if err := a.Stop(context.Background()); err != nil {
			f.t.Error(err)
		}
	}
}

// runTasks has tasks that sleep run at once, as a person does on asynq's console.
func (f *fleet) runTasks() {
	f.t.Helper()
	rdb := f.redis.Client(f.t)
	defer rdb.Close()
	sleeping, err := rdb.ZRange(context.Background(), "asynq:{q}:retry", 0, -1).Result()
	for _, task := range sleeping {
		err = errors.Join(err, rdb.ZAddXX(context.Background(), "asynq:{q}:retry", redis.Z{Score: 1, Member: task}).Err())
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// A line is deferred three times, by workers that follow one another, and then
// answered. Its traces tell one story by their links.
func TestTracesOfALineThatWasDeferred(t *testing.T) {
	s := newSpans(t)
	one := breaker.Key{Provider: "a", Model: "a/one"}
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: 1, retries: 0, cooldown: "1s", maxCooldown: "1s"})
	f.force(one, breaker.ForceOpen)
	f.tracedSubmit("b")
	stop := f.worker()
	f.until(60*time.Second, "the line was deferred", func() bool { return f.status("b").Deferrals >= 1 })
	stop()
	stop = f.worker()
	for n := int64(2); n <= 3; n++ {
		f.until(60*time.Second, fmt.Sprintf("the line was deferred %d times", n), func() bool {
			f.runTasks()
			return f.status("b").Deferrals >= n
		})
	}
	f.force(one, breaker.ForceClose)
	st := f.done("b", 60*time.Second)
	stop() // exports the rest

	submissions, attempts := s.named("submit q"), s.named("attempt q")
	if len(submissions) != 1 || int64(len(attempts)) != st.Deferrals+1 || st.Deferrals < 3 {
		t.Fatalf("%d submissions and %d attempts; %+v", len(submissions), len(attempts), st)
	}
	previous := ""
	for n, a := range attempts {
		if linked(a, "submission") != nameOf(submissions[0]) || linked(a, "previous_attempt") != previous {
			t.Errorf("attempt %d links to %v", n+1, a.Links)
		}
		end, reason := "deferred", "breaker_open"
		if n == len(attempts)-1 {
			end, reason = "answered", ""
		}
		got := ""
		for _, e := range a.Events {
			if e.Name == "nightshift.deferral" {
				got = value(e.Attributes, "nightshift.reason")
			}
		}
		if value(a.Attributes, "nightshift.end") != end || got != reason || value(a.Attributes, "nightshift.batch") != "b" || value(a.Attributes, "nightshift.line") != "1" {
			t.Errorf("attempt %d: %v, deferred for %q", n+1, a.Attributes, got)
		}
		previous = nameOf(a)
	}
	calls := s.named("chat one")
	if len(calls) != 1 || !bytes.Equal(calls[0].TraceId, attempts[len(attempts)-1].TraceId) || value(calls[0].Attributes, "gen_ai.response.finish_reasons") == "" {
		t.Errorf("calls %v", calls)
	}
}

// At a ratio of nothing what failed and what is degraded is kept all the same.
func TestTracesOfWhatFailedAreKept(t *testing.T) {
	s := newSpans(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	f := newFleet(t, fleetOptions{rungs: "{model: a/one, tries: 1}", concurrency: 1, retries: 1, cooldown: "1s", maxCooldown: "1s"})
	stop := f.worker()
	f.tracedSubmit("fine")
	f.done("fine", 60*time.Second)
	f.up.set(true)
	f.tracedSubmit("fails")
	st := f.done("fails", 60*time.Second)
	stop()
	attempts := s.named("attempt q")
	if st.Failed != 1 || len(attempts) != 2 || len(s.named("submit q")) != 0 {
		t.Fatalf("%d attempts: %v; %+v", len(attempts), attempts, st)
	}
	for n, a := range attempts {
		why := []string{"unavailable", "retries_exhausted"}[n]
		if value(a.Attributes, "nightshift.batch") != "fails" || value(a.Attributes, "error.type") != why || n == 1 && linked(a, "previous_attempt") != nameOf(attempts[0]) {
			t.Errorf("attempt %d: %v", n+1, a)
		}
	}
	if n := len(s.named("chat one")); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// Without an endpoint nothing is exported, and nothing of traces is kept.
func TestNoTracesUnlessAskedFor(t *testing.T) {
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: 1, retries: 0, cooldown: "1s", maxCooldown: "1s"})
	f.force(breaker.Key{Provider: "a", Model: "a/one"}, breaker.ForceOpen)
	f.tracedSubmit("b")
	stop := f.worker()
	f.until(60*time.Second, "the line was deferred", func() bool { return f.status("b").Deferrals >= 1 })
	stop()
	rdb := f.redis.Client(t)
	progress, err := rdb.HGetAll(t.Context(), "nightshift:{b:b}:prog").Result()
	meta, err2 := rdb.HGet(t.Context(), "nightshift:{b:b}:meta", "d").Result()
	if err != nil || err2 != nil || len(progress) == 0 || strings.Contains(strings.ToLower(fmt.Sprint(progress, meta)), "trace") {
		t.Errorf("progress %v, description %s; %v, %v", progress, meta, err, err2)
	}
}
