package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/limit"
)

// fleetReadLimit bounds what a scrape waits for Redis; Prometheus waits 10 s.
const fleetReadLimit = 5 * time.Second

// breakerStates are the states that a breaker can be in.
var breakerStates = []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen}

// TaskCounts are the asynq tasks of a queue by state.
type TaskCounts struct {
	Pending, Active, Scheduled, Retry, Archived int
}

// FleetSources are where the fleet's gauges come from. All are called during a
// scrape, with a context that ends it.
type FleetSources struct {
	// IsKeeper says whether this process holds the keeper's lease.
	IsKeeper func() bool
	// Breakers returns the breakers of the configuration.
	Breakers func(ctx context.Context) ([]breaker.Status, error)
	// Guards returns the guards of all producers; Producers are those that the
	// configuration names.
	Guards    func(ctx context.Context) ([]limit.GuardStatus, error)
	Producers []string
	// Queues are the names of the configuration.
	Queues []string
	// Tasks returns the tasks of one queue; one that does not exist yet has none.
	Tasks func(ctx context.Context, queue string) (TaskCounts, error)
	// Loads returns what the queues have before them.
	Loads func(ctx context.Context) (map[string]batch.Load, error)
}

// Fleet exports the gauges that are the same seen from every process. Only the
// keeper exports them, so that a sum over the fleet counts them once.
type Fleet struct {
	from     FleetSources
	state    *prometheus.Desc
	guard    *prometheus.Desc
	used     *prometheus.Desc
	tasks    *prometheus.Desc
	backlog  *prometheus.Desc
	runnable *prometheus.Desc
	slack    *prometheus.Desc
}

// NewFleet makes the collector and registers it; it panics when reg has it already.
func NewFleet(reg prometheus.Registerer, from FleetSources) *Fleet {
	f := &Fleet{
		from: from,
		state: prometheus.NewDesc("nightshift_breaker_state", "1 for the state that a breaker is in, else 0. From the keeper only.",
			[]string{"scope", "provider", "model", "region", "state"}, nil),
		guard: prometheus.NewDesc("nightshift_guard_state", "1 for the state that the hourly guard of a producer is in, else 0; other is open while any producer without a name in the configuration is. From the keeper only.",
			[]string{"producer", "state"}, nil),
		used: prometheus.NewDesc("nightshift_guard_used_ratio", "Share of its hourly limit, calls or USD, that a producer has used; 0 without a limit; other is the most of the other producers. From the keeper only.",
			[]string{"producer"}, nil),
		tasks: prometheus.NewDesc("nightshift_queue_tasks", "Tasks of a queue by asynq's state; deferred ones are in retry. From the keeper only.",
			[]string{"queue", "state"}, nil),
		backlog: prometheus.NewDesc("nightshift_queue_backlog_lines", "Lines of a queue that are not released yet. From the keeper only.",
			[]string{"queue"}, nil),
		runnable: prometheus.NewDesc("nightshift_queue_runnable_lines", "Lines of a queue that could run now: released or not, and not deferred. From the keeper only.",
			[]string{"queue"}, nil),
		slack: prometheus.NewDesc("nightshift_queue_deadline_slack_seconds", "From the forecast end of the tightest batch of a queue to its deadline; negative: late. Absent without a deadline. From the keeper only.",
			[]string{"queue"}, nil),
	}
	reg.MustRegister(f)
	return f
}

// Describe sends the descriptions.
func (f *Fleet) Describe(ch chan<- *prometheus.Desc) {
	ch <- f.state
	ch <- f.guard
	ch <- f.used
	ch <- f.tasks
	ch <- f.backlog
	ch <- f.runnable
	ch <- f.slack
}

// Collect sends the gauges where this process is the keeper, before and after
// it read them: the reads may outlast the lease. What cannot be read is an error
// of the scrape's and no gauge, rather than a 0 that would be believed.
func (f *Fleet) Collect(ch chan<- prometheus.Metric) {
	if !f.from.IsKeeper() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fleetReadLimit)
	defer cancel()
	var all []prometheus.Metric
	for _, read := range []func(context.Context) []prometheus.Metric{f.readBreakers, f.readGuards, f.readTasks, f.readLoads} {
		all = append(all, read(ctx)...)
	}
	if !f.from.IsKeeper() {
		return
	}
	for _, metric := range all {
		ch <- metric
	}
}

func (f *Fleet) readBreakers(ctx context.Context) (out []prometheus.Metric) {
	statuses, err := f.from.Breakers(ctx)
	if err != nil {
		return missing(f.state, "list breakers", err)
	}
	for _, s := range statuses {
		for _, state := range breakerStates {
			value := 0.0
			if s.State == state {
				value = 1
			}
			out = append(out, gauge(f.state, value, string(s.Scope), s.Key.Provider, modelOf(s.Scope, s.Key), s.Key.Region, string(state)))
		}
	}
	return out
}

func (f *Fleet) readTasks(ctx context.Context) (out []prometheus.Metric) {
	for _, queue := range f.from.Queues {
		n, err := f.from.Tasks(ctx, queue)
		if err != nil {
			return missing(f.tasks, "count tasks of queue "+queue, err)
		}
		out = append(out,
			gauge(f.tasks, float64(n.Pending), queue, "pending"),
			gauge(f.tasks, float64(n.Active), queue, "active"),
			gauge(f.tasks, float64(n.Scheduled), queue, "scheduled"),
			gauge(f.tasks, float64(n.Retry), queue, "retry"),
			gauge(f.tasks, float64(n.Archived), queue, "archived"))
	}
	return out
}

// readLoads exports the queues of the configuration alone: a batch may name
// one that is gone.
func (f *Fleet) readLoads(ctx context.Context) (out []prometheus.Metric) {
	loads, err := f.from.Loads(ctx)
	if err != nil {
		return missing(f.backlog, "count backlog", err)
	}
	for _, queue := range f.from.Queues {
		l := loads[queue]
		out = append(out, gauge(f.backlog, float64(l.Backlog), queue), gauge(f.runnable, float64(l.Runnable), queue))
		if l.Slack != nil {
			out = append(out, gauge(f.slack, l.Slack.Seconds(), queue))
		}
	}
	return out
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func missing(d *prometheus.Desc, what string, err error) []prometheus.Metric {
	return []prometheus.Metric{prometheus.NewInvalidMetric(d, fmt.Errorf("%s: %w", what, err))}
}
