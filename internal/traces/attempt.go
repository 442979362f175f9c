package traces

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"nightshift/ladder"
	"nightshift/provider"
	"nightshift/tasks"
)

// maxCalls bounds the notes of an attempt: more calls are counted alone.
const maxCalls = 64

// attempt is what is noted of an attempt that runs.
type attempt struct {
	t     *Tracer
	begun tasks.AttemptBegun
	ids   ids
	calls []ladder.CallEvent
	more  int // calls without a note
}

// Attempt implements tasks.Tracer.
func (t *Tracer) Attempt(a tasks.AttemptBegun) tasks.AttemptTrace {
	return &attempt{t: t, begun: a, ids: newIDs(halfOf(a.Ref.Batch, a.Ref.Line))}
}

// Called implements tasks.AttemptTrace.
func (a *attempt) Called(e ladder.CallEvent) {
	if len(a.calls) == maxCalls {
		a.more++
		return
	}
	a.calls = append(a.calls, e)
}

// Ended implements tasks.AttemptTrace: it makes the spans.
func (a *attempt) Ended(e tasks.AttemptEnded) string {
	ctx, root := a.root(e)
	defer root.End(trace.WithTimestamp(e.At))
	if !root.IsRecording() {
		return traceparent(root.SpanContext())
	}
	a.links(root)
	root.SetAttributes(a.attributes(e)...)
	for i, c := range a.calls {
		a.call(ctx, c, e, i == len(a.calls)-1)
	}
	events(root, e)
	if failed(e) {
		root.SetStatus(codes.Error, e.Ladder.Code)
		root.SetAttributes(semconv.ErrorTypeKey.String(e.Ladder.Code))
	}
	return traceparent(root.SpanContext())
}

// root begins the span of the attempt: it records where the sampler of the
// environment says so, and always where the attempt is one that people look for.
func (a *attempt) root(e tasks.AttemptEnded) (context.Context, trace.Span) {
	ctx := context.WithValue(context.Background(), idsKey{}, a.ids)
	name := "attempt " + a.begun.Queue
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(a.begun.At)}
	sampled, root := a.t.sampled.Start(ctx, name, options...)
	if root.SpanContext().IsSampled() || !failed(e) && !degraded(e) {
		return sampled, root
	}
	return a.t.kept.Start(ctx, name, options...)
}

func failed(e tasks.AttemptEnded) bool {
	return e.Ladder.End == ladder.Failed || e.Ladder.End == ladder.Final
}

func degraded(e tasks.AttemptEnded) bool {
	return e.Ladder.End == ladder.Answered && e.Ladder.Answer.Degraded
}

// links tell the line's story.
func (a *attempt) links(root trace.Span) {
	for _, l := range []struct{ to, is string }{{a.begun.Submitted, "submission"}, {a.begun.Previous, "previous_attempt"}} {
		if c := parse(l.to); c.IsValid() {
			root.AddLink(trace.Link{SpanContext: c, Attributes: []attribute.KeyValue{attribute.String("nightshift.link", l.is)}})
		}
	}
}

// ends are the ends of attempts in words.
var ends = map[ladder.End]string{
	ladder.Answered: "answered", ladder.Deferred: "deferred", ladder.Failed: "failed", ladder.Final: "final", ladder.Interrupted: "interrupted",
}

func (a *attempt) attributes(e tasks.AttemptEnded) []attribute.KeyValue {
	var cost provider.USD
	for _, c := range a.calls {
		cost += c.Call.Cost
	}
	ref := a.begun.Ref
	all := []attribute.KeyValue{
		attribute.String("nightshift.batch", ref.Batch), attribute.Int64("nightshift.line", ref.Line), attribute.Int("nightshift.generation", ref.Generation),
		attribute.String("nightshift.queue", a.begun.Queue), attribute.String("nightshift.producer", a.begun.Producer),
		attribute.String("nightshift.end", ends[e.Ladder.End]), attribute.Float64("nightshift.cost_usd", cost.Float()),
		attribute.Int("nightshift.calls", len(a.calls)+a.more),
		attribute.Int("nightshift.deferrals", e.Ladder.Progress.Deferrals), attribute.Int("nightshift.failures", e.Ladder.Progress.Failures),
	}
	if e.Outcome != "" {
		all = append(all, attribute.String("nightshift.outcome", string(e.Outcome)))
	}
	if e.Code != "" {
		all = append(all, attribute.String("nightshift.code", e.Code))
	}
	if e.Ladder.End == ladder.Answered {
		w := e.Ladder.Answer
		all = append(all, attribute.String("nightshift.model", w.Model), attribute.Int("nightshift.rung", w.Rung),
			attribute.Bool("nightshift.degraded", w.Degraded), attribute.Bool("nightshift.cached", w.Cached))
	}
	return all
}

// events are what was in the attempt's way, and what the line waits for.
func events(root trace.Span, e tasks.AttemptEnded) {
	for _, s := range e.Ladder.Progress.Skipped {
		root.AddEvent("nightshift.skipped", trace.WithTimestamp(s.At), trace.WithAttributes(
			attribute.String("nightshift.model", s.Model), attribute.String("nightshift.detail", s.Detail)))
	}
	for _, w := range e.Ladder.Waits {
		root.AddEvent("nightshift.refused", trace.WithTimestamp(e.At), trace.WithAttributes(wait(w.Model, w.Reason, w.Until)...))
	}
	if w := e.Wait; w.Reason != "" {
		root.AddEvent("nightshift.deferral", trace.WithTimestamp(e.At), trace.WithAttributes(wait(w.Model, w.Reason, w.Until)...))
	}
}

func wait(model, reason string, until time.Time) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String("nightshift.reason", reason)}
	if model != "" {
		all = append(all, attribute.String("nightshift.model", model))
	}
	if !until.IsZero() {
		all = append(all, attribute.String("nightshift.until", until.UTC().Format(time.RFC3339)))
	}
	return all
}

// operations are the operations of the endpoints, as the conventions name them.
var operations = map[string]attribute.KeyValue{
	provider.ChatCompletions: semconv.GenAIOperationNameChat, provider.Responses: semconv.GenAIOperationNameChat,
	provider.Completions: semconv.GenAIOperationNameTextCompletion, provider.Embeddings: semconv.GenAIOperationNameEmbeddings,
}

// call makes the span of one call. The last one of an attempt that was answered
// is the one that answered.
func (a *attempt) call(ctx context.Context, c ladder.CallEvent, e tasks.AttemptEnded, last bool) {
	operation, known := operations[a.begun.Endpoint]
	if !known {
		operation = semconv.GenAIOperationNameChat
	}
	m := a.t.models[c.Key.Model]
	_, span := a.t.kept.Start(ctx, operation.Value.AsString()+" "+m.Name,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(c.Call.StartedAt))
	defer span.End(trace.WithTimestamp(c.Call.StartedAt.Add(c.Latency)))
	span.SetAttributes(
		operation, semconv.GenAIProviderNameKey.String(m.Provider), semconv.GenAIRequestModel(m.Name),
		semconv.ServerAddress(m.Host), semconv.ServerPort(m.Port),
		attribute.String("nightshift.batch", a.begun.Ref.Batch), attribute.Int64("nightshift.line", a.begun.Ref.Line),
		attribute.String("nightshift.queue", a.begun.Queue), attribute.String("nightshift.model", c.Key.Model),
		attribute.Int("nightshift.rung", c.Rung), attribute.String("nightshift.kind", string(c.Call.Kind)),
		attribute.String("nightshift.purpose", string(c.Purpose)), attribute.Float64("nightshift.cost_usd", c.Call.Cost.Float()),
	)
	span.SetAttributes(optional(c)...)
	switch {
	case c.Call.Kind != provider.OK:
		span.SetAttributes(semconv.ErrorTypeKey.String(string(c.Call.Kind)))
		span.SetStatus(codes.Error, words(c))
	case last && e.Ladder.End == ladder.Answered && e.Ladder.Answer.Model == c.Key.Model:
		span.SetAttributes(answered(e.Ladder.Answer.Body)...)
	}
}

// words are a failed call in a few: its detail is for people who may see lines.
func words(c ladder.CallEvent) string {
	if c.StatusCode == 0 {
		return string(c.Call.Kind)
	}
	return fmt.Sprintf("%s: status %d", c.Call.Kind, c.StatusCode)
}

// optional are the attributes of a call that are not always known.
func optional(c ladder.CallEvent) (all []attribute.KeyValue) {
	if u := c.Call.Usage; u != (provider.Usage{}) {
		all = append(all, semconv.GenAIUsageInputTokens(int(u.InputTokens)), semconv.GenAIUsageOutputTokens(int(u.OutputTokens)))
		if u.CachedInputTokens > 0 {
			all = append(all, semconv.GenAIUsageCacheReadInputTokens(int(u.CachedInputTokens)))
		}
	}
	if c.StatusCode > 0 {
		all = append(all, semconv.HTTPResponseStatusCode(c.StatusCode))
	}
	if c.FirstToken > 0 {
		all = append(all, attribute.Float64("nightshift.time_to_first_token_s", c.FirstToken.Seconds()))
	}
	if c.RetryAfter > 0 {
		all = append(all, attribute.Float64("nightshift.retry_after_s", c.RetryAfter.Seconds()))
	}
	if c.Scope != "" {
		all = append(all, attribute.String("nightshift.probes", string(c.Scope)))
	}
	if id := name(c.Call.RequestID); id != "" {
		all = append(all, attribute.String("nightshift.request_id", id))
	}
	return all
}

// answered is what the conventions want to know of an answer: nothing of what it says.
func answered(body json.RawMessage) (all []attribute.KeyValue) {
	var b struct {
		ID      string `json:"id"`
		Model   string `json:"model"`
		Status  string `json:"status"` // of responses
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
	}
	if json.Unmarshal(body, &b) != nil {
		return nil
	}
	if id := name(b.ID); id != "" {
		all = append(all, semconv.GenAIResponseID(id))
	}
	if model := name(b.Model); model != "" {
		all = append(all, semconv.GenAIResponseModel(model))
	}
	var reasons []string
	for _, c := range b.Choices {
		if reason := name(c.FinishReason); reason != "" && len(reasons) < maxCalls {
			reasons = append(reasons, reason)
		}
	}
	if len(b.Choices) == 0 && name(b.Status) != "" {
		reasons = append(reasons, b.Status)
	}
	if len(reasons) > 0 {
		all = append(all, semconv.GenAIResponseFinishReasons(reasons...))
	}
	return all
}

// name is what a provider wrote, where it can be an ID or a word; else "".
func name(s string) string {
	const longest = 128
	if len(s) > longest {
		return ""
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case r == '-', r == '_', r == '.', r == ':', r == '/', r == '@', r == '+':
		default:
			return ""
		}
	}
	return s
}
