package app

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry with the metrics of the Go runtime and of the
// process.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// maxScrapes bounds the scrapes under way: each reads Redis on the keeper.
const maxScrapes = 4

// MetricsHandler serves /metrics from reg. A metric that cannot be read is left
// out, logged, and counted in promhttp_metric_handler_errors_total.
func MetricsHandler(reg *prometheus.Registry, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry:            reg,
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            slog.NewLogLogger(log.With("what", "metrics").Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
	}))
	return mux
}
