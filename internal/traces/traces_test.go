package traces

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
	"nightshift/tasks"
)

var (
	begin = time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	quiet = slog.New(slog.DiscardHandler)
)

func at(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

func tracer(t *testing.T) *Tracer {
	t.Helper()
	tr, err := New(t.Context(), Options{Version: "1.2", Logger: quiet, Models: map[string]Model{
		"openai/big": {Name: "big-1", Provider: "openai", Host: "api.openai.com", Port: 443},
		"local/m":    {Name: "m", Provider: "local", Host: "127.0.0.1", Port: 11434},
	}})
	if err != nil || tr == nil {
		t.Fatal(tr, err)
	}
	return tr
}

func (t *Tracer) end(tb testing.TB) {
	tb.Helper()
	if err := t.Shutdown(); err != nil {
		tb.Fatal(err)
	}
}

func line(n int64) tasks.AttemptBegun {
	return tasks.AttemptBegun{At: begin, Ref: batch.Ref{Batch: "b", Line: n}, Queue: "night", Producer: "p", Endpoint: provider.ChatCompletions}
}

func called(model string, kind provider.Kind, from, to int) ladder.CallEvent {
	return ladder.CallEvent{
		Purpose: ladder.ForLine, Key: breaker.Key{Model: model}, Latency: at(to).Sub(at(from)), StatusCode: 200,
		Call: provider.Call{Model: model, Kind: kind, StartedAt: at(from)},
	}
}

func answeredBy(model, body string) ladder.Outcome {
	return ladder.Outcome{End: ladder.Answered, Answer: ladder.Answer{Model: model, Response: ladder.Response{Body: json.RawMessage(body)}}}
}

const answer = `{"id":"chatcmpl-7","model":"big-1-0613","choices":[{"finish_reason":"stop","message":{"content":"SECRET"}},{"finish_reason":"length"}]}`

func TestAttempt_TheConventions(t *testing.T) {
	for name, collector := range map[string]func(*testing.T) *sink{"http": overHTTP, "grpc": overGRPC} {
		t.Run(name, func(t *testing.T) {
			s := collector(t)
			tr := tracer(t)
			a := tr.Attempt(line(7))
			failed := called("openai/big", provider.RateLimited, 1, 2)
			failed.StatusCode, failed.RetryAfter = 429, 3*time.Second
			a.Called(failed)
			fine := called("local/m", provider.OK, 5, 9)
			fine.FirstToken, fine.Rung = 500*time.Millisecond, 1
			fine.Call.Usage = provider.Usage{InputTokens: 100, CachedInputTokens: 40, OutputTokens: 7}
			fine.Call.Cost, fine.Call.RequestID = provider.Dollars(0.25), "req_1"
			a.Called(fine)
			out := answeredBy("local/m", answer)
			out.Answer.Rung, out.Answer.Degraded = 1, true
			out.Progress.Deferrals = 2
			out.Progress.Skipped = []ladder.Skip{{Model: "openai/other", At: at(3), Detail: "its breaker is open"}}
			a.Ended(tasks.AttemptEnded{At: at(10), Ladder: out, Outcome: batch.Succeeded})
			tr.end(t)

			if s.of["service.name"] != "nightshift" || s.of["service.version"] != "1.2" {
				t.Errorf("resource %v", s.of)
			}
			root := s.one("attempt night")
			if root.StartTimeUnixNano != uint64(at(0).UnixNano()) || root.EndTimeUnixNano != uint64(at(10).UnixNano()) || len(root.ParentSpanId) != 0 || root.Kind.String() != "SPAN_KIND_CONSUMER" {
				t.Errorf("root %v", root)
			}
			expect(t, "root", attributes(root.Attributes), map[string]string{
				"nightshift.batch": "b", "nightshift.line": "7", "nightshift.generation": "0", "nightshift.queue": "night", "nightshift.producer": "p",
				"nightshift.end": "answered", "nightshift.outcome": "succeeded", "nightshift.cost_usd": "0.25", "nightshift.calls": "2",
				"nightshift.deferrals": "2", "nightshift.failures": "0",
				"nightshift.model": "local/m", "nightshift.rung": "1", "nightshift.degraded": "true", "nightshift.cached": "false",
			})
			if len(root.Events) != 1 || root.Events[0].Name != "nightshift.skipped" || root.Events[0].TimeUnixNano != uint64(at(3).UnixNano()) {
				t.Errorf("events %v", root.Events)
			}
			common := map[string]string{"gen_ai.operation.name": "chat", "nightshift.batch": "b", "nightshift.line": "7", "nightshift.queue": "night", "nightshift.purpose": "line"}
			with := func(more map[string]string) map[string]string {
				maps.Copy(more, common)
				return more
			}
			first, second := s.one("chat big-1"), s.one("chat m")
			expect(t, "first call", attributes(first.Attributes), with(map[string]string{
				"gen_ai.provider.name": "openai", "gen_ai.request.model": "big-1", "server.address": "api.openai.com", "server.port": "443",
				"error.type": "rate_limited", "http.response.status_code": "429", "nightshift.kind": "rate_limited", "nightshift.retry_after_s": "3",
				"nightshift.model": "openai/big", "nightshift.rung": "0", "nightshift.cost_usd": "0",
			}))
			if first.Status.Message != "rate_limited: status 429" || first.Status.Code.String() != "STATUS_CODE_ERROR" {
				t.Errorf("status %v", first.Status)
			}
			expect(t, "second call", attributes(second.Attributes), with(map[string]string{
				"gen_ai.provider.name": "local", "gen_ai.request.model": "m", "server.address": "127.0.0.1", "server.port": "11434",
				"gen_ai.response.id": "chatcmpl-7", "gen_ai.response.model": "big-1-0613", "gen_ai.response.finish_reasons": "stop,length",
				"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "7", "gen_ai.usage.cache_read.input_tokens": "40",
				"http.response.status_code": "200", "nightshift.kind": "ok", "nightshift.model": "local/m", "nightshift.rung": "1",
				"nightshift.cost_usd": "0.25", "nightshift.time_to_first_token_s": "0.5", "nightshift.request_id": "req_1",
			}))
			for _, c := range [][2]any{{first.ParentSpanId, root.SpanId}, {second.ParentSpanId, root.SpanId}, {first.TraceId, root.TraceId}, {second.TraceId, root.TraceId}} {
				if !bytes.Equal(c[0].([]byte), c[1].([]byte)) {
					t.Errorf("%x is not %x", c[0], c[1])
				}
			}
			if second.StartTimeUnixNano != uint64(at(5).UnixNano()) || second.EndTimeUnixNano != uint64(at(9).UnixNano()) || second.Kind.String() != "SPAN_KIND_CLIENT" {
				t.Errorf("second call %v", second)
			}
		})
	}
}

func expect(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAttempt_Operations(t *testing.T) {
	s := overHTTP(t)
	tr := tracer(t)
	for endpoint := range operations {
		begun := line(1)
		begun.Endpoint = endpoint
		a := tr.Attempt(begun)
		a.Called(called("local/m", provider.OK, 0, 1))
		a.Ended(tasks.AttemptEnded{At: at(1), Ladder: answeredBy("local/m", `{"status":"completed","model":"a model","id":"an id"}`)})
	}
	tr.end(t)
	want := "attempt night,attempt night,attempt night,attempt night,chat m,chat m,embeddings m,text_completion m"
	if got := strings.Join(s.names(), ","); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	got := attributes(s.one("embeddings m").Attributes)
	if got["gen_ai.operation.name"] != "embeddings" || got["gen_ai.response.finish_reasons"] != "completed" {
		t.Errorf("%v", got)
	}
	if _, is := got["gen_ai.response.model"]; is { // it does not look like a name
		t.Errorf("%v", got)
	}
}

// A line's attempts and the submission of its batch, by their links.
func TestAttempt_LinksTellOneStory(t *testing.T) {
	s := overHTTP(t)
	tr := tracer(t)
	d := batch.Description{ID: "b", Queue: "night", Producer: "p", Total: 3}
	tr.Submission(context.Background(), &d)(nil)
	previous := ""
	for n := range 4 {
		begun := line(7)
		begun.At, begun.Submitted, begun.Previous = at(100*n), d.Trace, previous
		e := tasks.AttemptEnded{At: at(100*n + 1), Ladder: ladder.Outcome{End: ladder.Deferred, Waits: []ladder.Wait{{Model: "local/m", Reason: "breaker_open", Until: at(100*n + 90)}}}}
		e.Wait = batch.Wait{Model: "local/m", Reason: "breaker_open", Until: at(100*n + 99)}
		if n == 3 {
			e = tasks.AttemptEnded{At: at(302), Ladder: answeredBy("local/m", answer), Outcome: batch.Succeeded}
		}
		previous = tr.Attempt(begun).Ended(e)
	}
	tr.end(t)
	submitted := s.one("submit night")
	expect(t, "submission", attributes(submitted.Attributes), map[string]string{"nightshift.batch": "b", "nightshift.queue": "night", "nightshift.producer": "p", "nightshift.lines": "3"})
	if submitted.Kind.String() != "SPAN_KIND_PRODUCER" || traceparent(contextOf(submitted)) != d.Trace {
		t.Errorf("%v was noted as %s", submitted, d.Trace)
	}
	attempts := s.named("attempt night")
	if len(attempts) != 4 {
		t.Fatalf("%d attempts", len(attempts))
	}
	traces := map[string]bool{}
	for n, span := range attempts {
		traces[string(span.TraceId)] = true
		want := map[string]string{"submission": d.Trace}
		if n > 0 {
			want["previous_attempt"] = traceparent(contextOf(attempts[n-1]))
		}
		expect(t, fmt.Sprintf("links of attempt %d", n+1), links(span), want)
	}
	if len(traces) != 4 {
		t.Errorf("%d traces of 4 attempts", len(traces))
	}
	deferral := attempts[0].Events[1]
	if attempts[0].Events[0].Name != "nightshift.refused" || deferral.Name != "nightshift.deferral" {
		t.Errorf("events %v", attempts[0].Events)
	}
	expect(t, "deferral", attributes(deferral.Attributes), map[string]string{"nightshift.reason": "breaker_open", "nightshift.model": "local/m", "nightshift.until": "2026-03-01T22:01:39Z"})
}

// Whatever the sampler of the environment says, failures and degraded answers are kept.
func TestAttempt_Sampling(t *testing.T) {
	degraded := answeredBy("local/m", answer)
	degraded.Answer.Degraded = true
	outcomes := map[string]ladder.Outcome{
		"answered": answeredBy("local/m", answer), "deferred": {End: ladder.Deferred}, "interrupted": {End: ladder.Interrupted},
		"degraded": degraded, "failed": {End: ladder.Failed, Code: "unavailable"}, "final": {End: ladder.Final, Code: "invalid_request"},
	}
	for sampler, all := range map[string]bool{"always_off": false, "traceidratio=0": false, "parentbased_traceidratio=0": false, "always_on": true, "": true} {
		t.Run(sampler, func(t *testing.T) {
			s := overHTTP(t)
			name, arg, _ := strings.Cut(sampler, "=")
			t.Setenv("OTEL_TRACES_SAMPLER", name)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", arg)
			tr := tracer(t)
			parents := map[string]string{}
			for what, out := range outcomes {
				begun := line(1)
				begun.Queue = what
				a := tr.Attempt(begun)
				a.Called(called("local/m", provider.OK, 0, 1))
				parents[what] = a.Ended(tasks.AttemptEnded{At: at(1), Ladder: out})
			}
			tr.end(t)
			for what := range outcomes {
				want := all || what == "degraded" || what == "failed" || what == "final"
				if got := len(s.named("attempt "+what)) == 1; got != want {
					t.Errorf("%s: kept %v, want %v", what, got, want)
				}
				if parse(parents[what]).IsSampled() != want || !parse(parents[what]).IsValid() {
					t.Errorf("%s is noted as %s", what, parents[what])
				}
			}
			calls := 3
			if all {
				calls = 6
			}
			if got := len(s.named("chat m")); got != calls {
				t.Errorf("%d calls, want %d", got, calls)
			}
		})
	}
}

// A ratio keeps or drops all attempts of a line.
func TestAttempt_ARatioKeepsWholeLines(t *testing.T) {
	s := overHTTP(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
	tr := tracer(t)
	const lines, attempts = 400, 4
	for n := range int64(lines) {
		for range attempts {
			tr.Attempt(line(n)).Ended(tasks.AttemptEnded{At: at(1), Ladder: ladder.Outcome{End: ladder.Deferred}})
		}
	}
	tr.end(t)
	kept := map[string]int{}
	for _, span := range s.spans {
		kept[attributes(span.Attributes)["nightshift.line"]]++
	}
	if len(kept) < lines/8 || len(kept) > lines*3/8 {
		t.Errorf("%d of %d lines are kept", len(kept), lines)
	}
	for n, k := range kept {
		if k != attempts {
			t.Errorf("of line %s %d attempts are kept", n, k)
		}
	}
}

func TestAttempt_IsBounded(t *testing.T) {
	s := overHTTP(t)
	tr := tracer(t)
	a := tr.Attempt(line(1))
	for range 100 {
		a.Called(called("local/m", provider.Unavailable, 0, 1))
	}
	a.Ended(tasks.AttemptEnded{At: at(1), Ladder: ladder.Outcome{End: ladder.Failed, Code: "unavailable"}})
	tr.end(t)
	if n := len(s.named("chat m")); n != maxCalls || attributes(s.one("attempt night").Attributes)["nightshift.calls"] != "100" {
		t.Errorf("%d spans of 100 calls", n)
	}
}

func TestNothingOfALine(t *testing.T) {
	s := overHTTP(t)
	tr := tracer(t)
	a := tr.Attempt(line(1))
	c := called("local/m", provider.InvalidRequest, 0, 1)
	c.Call.Detail, c.Call.RequestID = "SECRET", "a SECRET"
	a.Called(c)
	a.Called(called("local/m", provider.OK, 1, 2))
	out := answeredBy("local/m", `{"id":"say SECRET","model":"the SECRET","choices":[{"finish_reason":"SECRET!","message":{"content":"SECRET"}}]}`)
	out.Message = "SECRET"
	a.Ended(tasks.AttemptEnded{At: at(1), Ladder: out})
	d := batch.Description{ID: "b", Queue: "q"}
	tr.Submission(t.Context(), &d)(errors.New("SECRET"))
	tr.end(t)
	if len(s.spans) != 4 {
		t.Fatal(s.names())
	}
	for _, span := range s.spans {
		if strings.Contains(span.String(), "SECRET") {
			t.Errorf("%v", span)
		}
	}
}

func TestEnabled(t *testing.T) {
	for env, want := range map[string]bool{
		"": false, "OTEL_SERVICE_NAME=x": false, "OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://x": false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x": true, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://x": true, "OTEL_TRACES_EXPORTER=otlp": true,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_SDK_DISABLED=true":  false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_SDK_DISABLED=false": true,
	} {
		t.Run(env, func(t *testing.T) {
			for pair := range strings.FieldsSeq(env) {
				k, v, _ := strings.Cut(pair, "=")
				t.Setenv(k, v)
			}
			if got := Enabled(); got != want {
				t.Errorf("enabled: %v", got)
			}
			if tr, err := New(t.Context(), Options{Logger: quiet}); (tr != nil) != want || err != nil {
				t.Errorf("%v, %v", tr, err)
			} else {
				_ = tr.Shutdown()
			}
		})
	}
}

func TestNew_RefusesWhatItCannotDo(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	for env, want := range map[string]string{
		"OTEL_TRACES_EXPORTER=zipkin":                     `export traces: OTEL_TRACES_EXPORTER: "zipkin" is not supported; it can be otlp or none`,
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/json":           `export traces: OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is not supported; it can be http/protobuf or grpc`,
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=carrier-bird": `export traces: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "carrier-bird" is not supported; it can be http/protobuf or grpc`,
	} {
		k, v, _ := strings.Cut(env, "=")
		t.Run(k, func(t *testing.T) {
			t.Setenv(k, v)
			if _, err := New(t.Context(), Options{Logger: quiet}); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// A collector that is away holds up nothing, and the log says so once.
func TestACollectorThatIsAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "200")
	var log bytes.Buffer
	tr, err := New(t.Context(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(5000) {
		tr.Attempt(line(n)).Ended(tasks.AttemptEnded{At: at(1), Ladder: ladder.Outcome{End: ladder.Deferred}})
	}
	_ = tr.Shutdown()
	if n := strings.Count(log.String(), "traces are not exported"); n != 1 {
		t.Errorf("said %d times: %s", n, log.String())
	}
}
