package traces

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a collector that keeps what it gets, over HTTP and gRPC.
type sink struct {
	collector.UnimplementedTraceServiceServer
	t     *testing.T
	mu    sync.Mutex
	spans []*otlp.Span
	of    map[string]string // attributes of the resource
}

// Export implements the service of gRPC.
func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		s.of = attributes(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			s.spans = append(s.spans, ss.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is OTLP over HTTP.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collector.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		s.t.Errorf("%s: %v", r.URL.Path, err)
	}
	_, _ = s.Export(r.Context(), request)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func overHTTP(t *testing.T) *sink {
	s := &sink{t: t}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return s
}

func overGRPC(t *testing.T) *sink {
	s := &sink{t: t}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	return s
}

// named returns the spans of a name.
func (s *sink) named(name string) (all []*otlp.Span) {
	for _, span := range s.spans {
		if span.Name == name {
			all = append(all, span)
		}
	}
	return all
}

// one returns the span of a name.
func (s *sink) one(name string) *otlp.Span {
	s.t.Helper()
	all := s.named(name)
	if len(all) != 1 {
		s.t.Fatalf("%d spans of %q among %v", len(all), name, s.names())
	}
	return all[0]
}

func (s *sink) names() (all []string) {
	for _, span := range s.spans {
		all = append(all, span.Name)
	}
	slices.Sort(all)
	return all
}

func attributes(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		out[a.Key] = text(a.Value)
	}
	return out
}

func text(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, x := range v.ArrayValue.Values {
			all = append(all, text(x))
		}
		return strings.Join(all, ",")
	}
	return "?"
}

func contextOf(s *otlp.Span) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(s.TraceId), SpanID: trace.SpanID(s.SpanId), TraceFlags: trace.FlagsSampled})
}

// links are the traceparents that a span links to, by what they are.
func links(s *otlp.Span) map[string]string {
	out := map[string]string{}
	for _, l := range s.Links {
		c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(l.TraceId), SpanID: trace.SpanID(l.SpanId), TraceFlags: trace.TraceFlags(l.Flags & 0xff)})
		out[attributes(l.Attributes)["nightshift.link"]] = traceparent(c)
	}
	return out
}
