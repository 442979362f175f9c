package traces

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The variables of OpenTelemetry's specification that are read here. Its SDK reads
// the others: OTEL_TRACES_SAMPLER and _ARG, OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_*, OTEL_SPAN_*, and all of OTEL_EXPORTER_OTLP_*.
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

func env(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// Enabled says whether the environment asks for traces: it names an exporter or
// an endpoint.
func Enabled() bool {
	switch {
	case strings.EqualFold(env(envDisabled), "true"), strings.EqualFold(env(envExporter), "none"):
		return false
	}
	return env(envExporter) != "" || env(envEndpoint) != "" || env(envTracesEndpoint) != ""
}

// exporter is the one that the environment asks for.
func exporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if name := env(envExporter); name != "" && !strings.EqualFold(name, "otlp") {
		return nil, fmt.Errorf("%s: %q is not supported; it can be otlp or none", envExporter, name)
	}
	name, protocol := envTracesProtocol, env(envTracesProtocol)
	if protocol == "" {
		name, protocol = envProtocol, env(envProtocol)
	}
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	}
	return nil, fmt.Errorf("%s: %q is not supported; it can be http/protobuf or grpc", name, protocol)
}
