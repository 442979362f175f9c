package app

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricType is what Prometheus takes a metric for.
type MetricType string

// The types.
const (
	Counter   MetricType = "counter"
	Gauge     MetricType = "gauge"
	Histogram MetricType = "histogram"
)

// Exporter is the process whose /metrics has a metric.
type Exporter string

const (
	// EachWorker: its own, to be summed over the workers.
	EachWorker Exporter = "worker"
	// KeeperOnly: the same seen from every worker, so the one with the lease tells it.
	KeeperOnly Exporter = "keeper"
)

// Metric describes a metric. The code that exports it and docs/metrics.md both
// come from here.
type Metric struct {
	Name   string
	Type   MetricType
	Unit   string // what one is: calls, lines, seconds; "" of a yes or no
	By     Exporter
	Labels []string
	Help   string // one sentence or two, as /metrics has it
	More   string // what the page says after it; may be empty
}

// MetricList returns all metrics of ours, in the order of docs/metrics.md. Those of
// the Go runtime and of the process stand beside them.
func MetricList() []Metric {
	return slices.Concat(callMetrics, lineMetrics, processMetrics, fleetMetrics)
}

// desc is what a collector of its own describes a metric with.
func (m Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

func (m Metric) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func (m Metric) histogram(buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}, m.Labels)
}

func (m Metric) gauge() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: m.Name, Help: m.Help})
}

// info is a gauge that is 1 and says something by the values of its labels.
func (m Metric) info(values ...string) prometheus.Collector {
	labels := prometheus.Labels{}
	for i, l := range m.Labels {
		labels[l] = values[i]
	}
	opts := prometheus.GaugeOpts{Name: m.Name, Help: m.Help, ConstLabels: labels}
	return prometheus.NewGaugeFunc(opts, func() float64 { return 1 })
}

// byModel are the labels of what calls are counted by.
var byModel = []string{"provider", "model", "region"}

var (
	callsTotal = Metric{
		Name: "nightshift_calls_total", Type: Counter, Unit: "calls", By: EachWorker, Labels: []string{"provider", "model", "region", "kind"},
		Help: "Calls to providers, probes included, by the kind of their outcome.",
		More: "`kind` is what the outcome meant, as in a result's `attempts`.",
	}
	callDuration = Metric{
		Name: "nightshift_call_duration_seconds", Type: Histogram, Unit: "seconds", By: EachWorker, Labels: byModel,
		Help: "Time from sending a call to its whole answer or its failure.",
	}
	timeToFirstToken = Metric{
		Name: "nightshift_time_to_first_token_seconds", Type: Histogram, Unit: "seconds", By: EachWorker, Labels: byModel,
		Help: "Time from sending a call to the first token of its answer, where it was streamed.",
	}
	callsAvoided = Metric{
		Name: "nightshift_calls_avoided_total", Type: Counter, Unit: "calls", By: EachWorker, Labels: byModel,
		Help: "Calls that an open breaker kept from being made.",
	}
	tokensTotal = Metric{
		Name: "nightshift_tokens_total", Type: Counter, Unit: "tokens", By: EachWorker, Labels: []string{"provider", "model", "type"},
		Help: "Tokens as providers reported them; the types do not overlap.",
		More: "`type` is `input` (not cached), `cached_input` or `output`.",
	}
	costTotal = Metric{
		Name: "nightshift_cost_usd_total", Type: Counter, Unit: "US dollars", By: EachWorker, Labels: []string{"provider", "model", "purpose"},
		Help: "Cost of the calls at the configured prices, in US dollars.",
		More: "`purpose` is `line`, `repair` (asked again for an invalid answer) or `probe`.",
	}
	transitionsTotal = Metric{
		Name: "nightshift_breaker_transitions_total", Type: Counter, Unit: "changes", By: EachWorker, Labels: []string{"scope", "provider", "model", "region", "to"},
		Help: "Changes of a breaker's state that this process caused.",
		More: "What operators do by hand is in no counter.",
	}
	probesTotal = Metric{
		Name: "nightshift_probes_total", Type: Counter, Unit: "calls", By: EachWorker, Labels: []string{"scope", "provider", "model", "region", "result"},
		Help: "Probes of open breakers, also where a line is the probe, by the kind of their outcome.",
		More: "Short prompts, health paths, and lines that are the probe.",
	}
	storeFallback = Metric{
		Name: "nightshift_breaker_store_fallback", Type: Gauge, By: EachWorker,
		Help: "1 while this process decides from breakers of its own, since Redis does not answer.",
	}
	callMetrics = []Metric{
		callsTotal, callDuration, timeToFirstToken, callsAvoided, tokensTotal, costTotal, transitionsTotal, probesTotal, storeFallback,
	}
)

var (
	linesTotal = Metric{
		Name: "nightshift_lines_total", Type: Counter, Unit: "lines", By: EachWorker, Labels: []string{"queue", "outcome"},
		Help: "Lines that ended, by how.",
		More: "`succeeded`, `failed`, `expired` or `cancelled`.",
	}
	deferralsTotal = Metric{
		Name: "nightshift_deferrals_total", Type: Counter, Unit: "deferrals", By: EachWorker, Labels: []string{"queue", "reason"},
		Help: "Lines put back to wait without spending a retry, by what they wait for.",
		More: "`breaker_open`, `rate_limited`, `guard` (the hourly one), or something rarer; lines that the keeper does not release, as those of an open guard, are in no counter.",
	}
	answersTotal = Metric{
		Name: "nightshift_answers_total", Type: Counter, Unit: "lines", By: EachWorker, Labels: []string{"queue", "model"},
		Help: "Lines that succeeded, by who answered; nightshift/text stands for all texts.",
		More: "An answer from the cache counts for the model that gave it first.",
	}
	degradedTotal = Metric{
		Name: "nightshift_lines_degraded_total", Type: Counter, Unit: "lines", By: EachWorker, Labels: []string{"queue"},
		Help: "Lines that succeeded below their first rung, texts included.",
		More: "A result's `degraded`.",
	}
	cacheHitsTotal = Metric{
		Name: "nightshift_cache_hits_total", Type: Counter, Unit: "lines", By: EachWorker, Labels: []string{"queue"},
		Help: "Lines that succeeded without a call, by an answer that was kept.",
	}
	notificationsTotal = Metric{
		Name: "nightshift_notifications_total", Type: Counter, Unit: "tries", By: EachWorker, Labels: []string{"result"},
		Help: "Tries at telling the URL of a batch of its end, or a receiver of an event, by what became of them.",
		More: "`enqueue batch --notify`, and `notify` in the configuration ([alerts.md](alerts.md)). Counted by the keeper: `told`, `failed` (it is tried again) or `given_up`.",
	}
	lineMetrics = []Metric{linesTotal, deferralsTotal, answersTotal, degradedTotal, cacheHitsTotal, notificationsTotal}
)

var (
	buildInfo = Metric{
		Name: "nightshift_build_info", Type: Gauge, By: EachWorker, Labels: []string{"version", "revision", "goversion"},
		Help: "The build of this process; always 1.",
	}
	configInfo = Metric{
		Name: "nightshift_config_info", Type: Gauge, By: EachWorker, Labels: []string{"hash"},
		Help: "The configuration of this process by its hash; always 1.",
		More: "Two hashes in a fleet are two configurations.",
	}
	keeperGauge = Metric{
		Name: "nightshift_keeper", Type: Gauge, By: EachWorker,
		Help: "1 while this process holds the keeper's lease.",
		More: "The sum over the workers is 1; it is 0 for the 10 s until the lease of a dead keeper ends.",
	}
	redisDuration = Metric{
		Name: "nightshift_redis_roundtrip_seconds", Type: Histogram, Unit: "seconds", By: EachWorker, Labels: []string{"connection", "kind"},
		Help: "Time from a request to Redis to its answer or failure, waiting for a connection and repetitions included.",
		More: "`connection` is what the connection is for: `state` (batches, keeper), `queue` (an asynq server) or `breaker` (breakers, pace, guard); `kind` is `command`, `script`, `pipeline` (several in one round trip) or `connect` (a new connection).",
	}
	processMetrics = []Metric{buildInfo, configInfo, keeperGauge, redisDuration}
)

var (
	breakerState = Metric{
		Name: "nightshift_breaker_state", Type: Gauge, By: KeeperOnly, Labels: []string{"scope", "provider", "model", "region", "state"},
		Help: "1 for the state that a breaker is in, else 0. From the keeper only.",
		More: "`closed`, `open` or `half_open`.",
	}
	guardState = Metric{
		Name: "nightshift_guard_state", Type: Gauge, By: KeeperOnly, Labels: []string{"producer", "state"},
		Help: "1 for the state that the hourly guard of a producer is in, else 0; other is open while any producer without a name in the configuration is. From the keeper only.",
		More: "`closed` or `open`.",
	}
	guardUsed = Metric{
		Name: "nightshift_guard_used_ratio", Type: Gauge, Unit: "share, 0 to 1", By: KeeperOnly, Labels: []string{"producer"},
		Help: "Share of its hourly limit, calls or USD, that a producer has used; 0 without a limit; other is the most of the other producers. From the keeper only.",
	}
	queueTasks = Metric{
		Name: "nightshift_queue_tasks", Type: Gauge, Unit: "tasks", By: KeeperOnly, Labels: []string{"queue", "state"},
		Help: "Tasks of a queue by asynq's state; deferred ones are in retry. From the keeper only.",
	}
	queuePaused = Metric{
		Name: "nightshift_queue_paused", Type: Gauge, By: KeeperOnly, Labels: []string{"queue"},
		Help: "1 while a person has paused a queue, else 0. From the keeper only.",
		More: "`worker queues` says who, and since when. Hours of the queue do not count.",
	}
	queueSlots = Metric{
		Name: "nightshift_queue_slots", Type: Gauge, Unit: "lines", By: KeeperOnly, Labels: []string{"queue"},
		Help: "Lines of a queue that all live workers together can have under way. From the keeper only.",
	}
	queueBacklog = Metric{
		Name: "nightshift_queue_backlog_lines", Type: Gauge, Unit: "lines", By: KeeperOnly, Labels: []string{"queue"},
		Help: "Lines of a queue that are not released yet. From the keeper only.",
	}
	queueRunnable = Metric{
		Name: "nightshift_queue_runnable_lines", Type: Gauge, Unit: "lines", By: KeeperOnly, Labels: []string{"queue"},
		Help: "Lines of a queue that could run now: released or not, and not deferred. From the keeper only.",
		More: "What more workers would have to do.",
	}
	queueSlack = Metric{
		Name: "nightshift_queue_deadline_slack_seconds", Type: Gauge, Unit: "seconds", By: KeeperOnly, Labels: []string{"queue"},
		Help: "From the forecast end of the tightest batch of a queue to its deadline; negative: late. Absent without a deadline. From the keeper only.",
	}
	workersLive = Metric{
		Name: "nightshift_workers", Type: Gauge, Unit: "processes", By: KeeperOnly,
		Help: "Workers that sent a heartbeat in the last 10 s. From the keeper only.",
	}
	redisUsed = Metric{
		Name: "nightshift_redis_memory_used_bytes", Type: Gauge, Unit: "bytes", By: KeeperOnly,
		Help: "Memory that Redis uses; of a cluster, the server that is nearest to its limit. From the keeper only.",
	}
	redisMax = Metric{
		Name: "nightshift_redis_memory_max_bytes", Type: Gauge, Unit: "bytes", By: KeeperOnly,
		Help: "Memory that Redis may use: its maxmemory, or without one the memory of its machine. From the keeper only.",
		More: "Of the same server as `nightshift_redis_memory_used_bytes`; both are absent where INFO is forbidden, and this one where Redis tells neither.",
	}
	fleetMetrics = []Metric{
		breakerState, guardState, guardUsed, queueTasks, queuePaused, queueSlots, queueBacklog, queueRunnable, queueSlack, workersLive, redisUsed, redisMax,
	}
)
