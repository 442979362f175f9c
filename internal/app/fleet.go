package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/limit"
	"nightshift/tasks"
)

// fleetReadLimit bounds what a scrape waits for Redis; Prometheus waits 10 s.
const fleetReadLimit = 5 * time.Second

// breakerStates are the states that a breaker can be in.
var breakerStates = []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen}

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
	// States returns what asynq has of queues; one that does not exist yet has no tasks.
	States func(ctx context.Context, queues []string) (map[string]tasks.QueueState, error)
	// Loads returns what the queues have before them.
	Loads func(ctx context.Context) (map[string]batch.Load, error)
	// Workers returns the heartbeats of the workers that live.
	Workers func(ctx context.Context) ([]tasks.Heartbeat, error)
	// Memory returns how far Redis has filled its memory.
	Memory func(ctx context.Context) (memoryUse, error)
}

// Fleet exports the gauges that are the same seen from every process. Only the
// keeper exports them, so that a sum over the fleet counts them once. Whether this
// process is the keeper, each exports.
type Fleet struct {
	from  FleetSources
	descs map[string]*prometheus.Desc // by the metric's name
}

// NewFleet makes the collector and registers it; it panics when reg has it already.
func NewFleet(reg prometheus.Registerer, from FleetSources) *Fleet {
	f := &Fleet{from: from, descs: map[string]*prometheus.Desc{}}
	for _, m := range append(fleetMetrics, keeperGauge) {
		f.descs[m.Name] = m.desc()
	}
	reg.MustRegister(f)
	return f
}

// Describe sends the descriptions.
func (f *Fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range f.descs {
		ch <- d
	}
}

// Collect sends the gauges where this process is the keeper, before and after
// it read them: the reads may outlast the lease. What cannot be read is an error
// of the scrape's and no gauge, rather than a 0 that would be believed.
func (f *Fleet) Collect(ch chan<- prometheus.Metric) {
	var all []prometheus.Metric
	if f.from.IsKeeper() {
		all = f.read()
	}
	if !f.from.IsKeeper() {
		ch <- f.gauge(keeperGauge, 0)
		return
	}
	ch <- f.gauge(keeperGauge, 1)
	for _, metric := range all {
		ch <- metric
	}
}

func (f *Fleet) read() (all []prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), fleetReadLimit)
	defer cancel()
	for _, read := range []func(context.Context) []prometheus.Metric{f.readBreakers, f.readGuards, f.readTasks, f.readLoads, f.readWorkers, f.readMemory} {
		all = append(all, read(ctx)...)
	}
	return all
}

func (f *Fleet) readBreakers(ctx context.Context) (out []prometheus.Metric) {
	statuses, err := f.from.Breakers(ctx)
	if err != nil {
		return f.missing(breakerState, "list breakers", err)
	}
	for _, s := range statuses {
		for _, state := range breakerStates {
			out = append(out, f.gauge(breakerState, yes(s.State == state), string(s.Scope), s.Key.Provider, modelOf(s.Scope, s.Key), s.Key.Region, string(state)))
		}
	}
	return out
}

func (f *Fleet) readTasks(ctx context.Context) (out []prometheus.Metric) {
	states, err := f.from.States(ctx, f.from.Queues)
	if err != nil {
		return f.missing(queueTasks, "count tasks", err)
	}
	for _, queue := range f.from.Queues {
		s := states[queue]
		out = append(out,
			f.gauge(queueTasks, float64(s.Pending), queue, "pending"),
			f.gauge(queueTasks, float64(s.Active), queue, "active"),
			f.gauge(queueTasks, float64(s.Scheduled), queue, "scheduled"),
			f.gauge(queueTasks, float64(s.Retry), queue, "retry"),
			f.gauge(queueTasks, float64(s.Archived), queue, "archived"),
			f.gauge(queuePaused, yes(s.Paused != nil), queue))
	}
	return out
}

func (f *Fleet) readWorkers(ctx context.Context) (out []prometheus.Metric) {
	live, err := f.from.Workers(ctx)
	if err != nil {
		return f.missing(workersLive, "count workers", err)
	}
	out = append(out, f.gauge(workersLive, float64(len(live))))
	for _, queue := range f.from.Queues {
		slots := 0
		for _, w := range live {
			slots += w.Queues[queue].Slots
		}
		out = append(out, f.gauge(queueSlots, float64(slots), queue))
	}
	return out
}

// readMemory leaves out what Redis does not tell.
func (f *Fleet) readMemory(ctx context.Context) (out []prometheus.Metric) {
	u, err := f.from.Memory(ctx)
	if err != nil {
		return f.missing(redisUsed, "read the memory of redis", err)
	}
	if u.used > 0 {
		out = append(out, f.gauge(redisUsed, float64(u.used)))
	}
	if u.limit > 0 {
		out = append(out, f.gauge(redisMax, float64(u.limit)))
	}
	return out
}

// readLoads exports the queues of the configuration alone: a batch may name
// one that is gone.
func (f *Fleet) readLoads(ctx context.Context) (out []prometheus.Metric) {
	loads, err := f.from.Loads(ctx)
	if err != nil {
		return f.missing(queueBacklog, "count backlog", err)
	}
	for _, queue := range f.from.Queues {
		l := loads[queue]
		out = append(out, f.gauge(queueBacklog, float64(l.Backlog), queue), f.gauge(queueRunnable, float64(l.Runnable), queue))
		if l.Slack != nil {
			out = append(out, f.gauge(queueSlack, l.Slack.Seconds(), queue))
		}
	}
	return out
}

// yes is the value of a gauge that answers a question.
func yes(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (f *Fleet) gauge(m Metric, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(f.descs[m.Name], prometheus.GaugeValue, value, labels...)
}

func (f *Fleet) missing(m Metric, what string, err error) []prometheus.Metric {
	return []prometheus.Metric{prometheus.NewInvalidMetric(f.descs[m.Name], fmt.Errorf("%s: %w", what, err))}
}
