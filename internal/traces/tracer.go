package traces

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// scope names the instrumentation.
const scope = "nightshift"

// Options are what a tracer knows.
type Options struct {
	Version string
	// Models says who answers, by the models' keys.
	Models map[string]Model
	Logger *slog.Logger
}

// Model is what spans say of a model.
type Model struct {
	Name     string // that is sent
	Provider string // gen_ai.provider.name
	Host     string
	Port     int
}

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	models map[string]Model
	// sampled asks the sampler of the environment, kept keeps all; both go the same way.
	sampled, kept trace.Tracer
	providers     []*sdktrace.TracerProvider
}

// New returns the tracer that the environment asks for; nil where it asks for none.
// An error names the variable.
func New(ctx context.Context, o Options) (*Tracer, error) {
	if !Enabled() {
		return nil, nil
	}
	exp, err := exporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	res, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("nightshift"), semconv.ServiceVersion(o.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	otel.SetErrorHandler(&complaints{log: o.Logger})
	batches := sdktrace.NewBatchSpanProcessor(exp)
	t := &Tracer{models: o.Models}
	for _, more := range [][]sdktrace.TracerProviderOption{nil, {sdktrace.WithSampler(sdktrace.AlwaysSample())}} {
		t.providers = append(t.providers, sdktrace.NewTracerProvider(append(more,
			sdktrace.WithSpanProcessor(batches), sdktrace.WithResource(res), sdktrace.WithIDGenerator(generator{}))...))
	}
	t.sampled, t.kept = t.providers[0].Tracer(scope), t.providers[1].Tracer(scope)
	return t, nil
}

// shutdownLimit bounds what the end of a process waits for a collector.
const shutdownLimit = 3 * time.Second

// Shutdown exports what is left, and ends the tracer.
func (t *Tracer) Shutdown() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	var errs []error
	for _, p := range t.providers {
		errs = append(errs, p.Shutdown(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("export the last traces: %w", err)
	}
	return nil
}

// complaints logs what the exporter cannot do, once a minute.
type complaints struct {
	log  *slog.Logger
	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.last) >= time.Minute {
		c.last = now
		c.log.Warn("traces are not exported", "error", err)
	}
}

// ids are those of a root span that is to be made.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

type idsKey struct{}

// generator gives a root the IDs that were chosen for it.
type generator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if chosen, is := ctx.Value(idsKey{}).(ids); is {
		return chosen.trace, chosen.span
	}
	fresh := newIDs(rand.Uint64())
	return fresh.trace, fresh.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (generator) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

// newIDs are random but for the half that ratios go by.
func newIDs(half uint64) (i ids) {
	binary.BigEndian.PutUint64(i.trace[:8], rand.Uint64()|1) // never all zero, which is no ID
	binary.BigEndian.PutUint64(i.trace[8:], half)
	i.span = newSpanID()
	return i
}

func newSpanID() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// halfOf is that of a line.
func halfOf(batch string, line int64) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d", batch, line))
	return binary.BigEndian.Uint64(sum[:])
}

// traceparent is W3C's form of a span's context.
func traceparent(c trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), c), carrier)
	return carrier["traceparent"]
}

// parse reads a traceparent; the result is not valid where it is none.
func parse(text string) trace.SpanContext {
	if text == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": text}))
}
