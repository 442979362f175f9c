package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"nightshift/batch"
)

// Submission begins the span of a batch's submission and notes it in the
// description; the function ends it. A nil tracer does nothing.
func (t *Tracer) Submission(ctx context.Context, d *batch.Description) func(error) {
	if t == nil {
		return func(error) {}
	}
	_, span := t.sampled.Start(ctx, "submit "+d.Queue, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindProducer))
	d.Trace = traceparent(span.SpanContext())
	span.SetAttributes(
		attribute.String("nightshift.batch", d.ID), attribute.String("nightshift.queue", d.Queue),
		attribute.String("nightshift.producer", d.Producer), attribute.Int64("nightshift.lines", d.Total),
	)
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "the submission failed") // its error may hold what was submitted
		}
		span.End()
	}
}
