package app

import (
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
	"nightshift/tasks"
)

// callBuckets are the bounds of a call's duration and of its first token, in seconds. Below 1 s are
// probes, cache-like answers and refusals; 10, 15, 20 and 30 s are the silence
// limits of the tiers, so that calls cut off there stand out; 60 to 300 s are
// long answers; 600 s is the default timeout of a call, beyond which none goes.
var callBuckets = []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600}

// MetricsOptions are what the label values come from.
type MetricsOptions struct {
	Version    string // of this build
	Revision   string // of the source; "" where it is not known
	ConfigHash string // of the configuration in use
	Keys       []breaker.Key
	Queues     []string
	Answerers  map[string][]string // by queue: the models, or texts, of its ladder
}

// Metrics are the counters of this process. Label values come from the
// configuration and from the constants of the packages, never from a batch, a
// line or a producer. Its methods are safe for concurrent use.
type Metrics struct {
	transitions *prometheus.CounterVec
	probes      *prometheus.CounterVec
	calls       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	firstToken  *prometheus.HistogramVec
	tokens      *prometheus.CounterVec
	cost        *prometheus.CounterVec
	avoided     *prometheus.CounterVec
	deferrals   *prometheus.CounterVec
	lines       *prometheus.CounterVec
	answers     *prometheus.CounterVec
	degraded    *prometheus.CounterVec
	hits        *prometheus.CounterVec
	notified    *prometheus.CounterVec
	redis       *prometheus.HistogramVec
	fallback    prometheus.Gauge

	queues    []string
	answerers map[string][]string
}

// gone is the label of what a batch or a kept answer names and the configuration
// does not any more.
const gone = "other"

// queue is the label of a queue: the keeper also ends lines of queues that are
// gone from the configuration.
func (m *Metrics) queue(name string) string {
	if slices.Contains(m.queues, name) {
		return name
	}
	return gone
}

// answerer is the label of who answered: a kept answer may be of a model that was
// in the ladder then.
func (m *Metrics) answerer(queue, model string) string {
	if slices.Contains(m.answerers[queue], model) {
		return model
	}
	return gone
}

// NewMetrics makes the metrics and registers them; it panics when reg has them
// already. What can be counted is there with 0 from the start: a rate over a
// counter misses the step that creates it.
func NewMetrics(reg prometheus.Registerer, o MetricsOptions) *Metrics {
	m := &Metrics{
		transitions: transitionsTotal.counter(),
		probes:      probesTotal.counter(),
		calls:       callsTotal.counter(),
		duration:    callDuration.histogram(callBuckets),
		firstToken:  timeToFirstToken.histogram(callBuckets),
		tokens:      tokensTotal.counter(),
		cost:        costTotal.counter(),
		avoided:     callsAvoided.counter(),
		deferrals:   deferralsTotal.counter(),
		lines:       linesTotal.counter(),
		answers:     answersTotal.counter(),
		degraded:    degradedTotal.counter(),
		hits:        cacheHitsTotal.counter(),
		notified:    notificationsTotal.counter(),
		redis:       redisDuration.histogram(redisBuckets),
		fallback:    storeFallback.gauge(),
		queues:      o.Queues,
		answerers:   o.Answerers,
	}
	reg.MustRegister(m.transitions, m.probes, m.calls, m.duration, m.firstToken, m.tokens, m.cost, m.avoided, m.deferrals, m.lines, m.fallback,
		m.answers, m.degraded, m.hits, m.notified, m.redis,
		buildInfo.info(o.Version, o.Revision, runtime.Version()), configInfo.info(o.ConfigHash))
	m.startAtZero(o)
	return m
}

// startAtZero makes the series whose labels are known beforehand.
func (m *Metrics) startAtZero(o MetricsOptions) {
	for _, k := range levels(o.Keys) {
		for _, to := range breakerStates {
			m.transitions.WithLabelValues(string(k.Scope()), k.Provider, k.Model, k.Region, string(to))
		}
	}
	for _, k := range o.Keys {
		for _, kind := range []provider.Kind{provider.OK, provider.Unavailable, provider.Timeout, provider.RateLimited} {
			m.calls.WithLabelValues(k.Provider, k.Model, k.Region, string(kind))
		}
		for _, p := range []ladder.Purpose{ladder.ForLine, ladder.ForRepair, ladder.ForProbe} {
			m.cost.WithLabelValues(k.Provider, k.Model, string(p))
		}
		m.avoided.WithLabelValues(k.Provider, k.Model, k.Region)
	}
	for _, what := range []tasks.Notification{tasks.NotificationTold, tasks.NotificationFailed, tasks.NotificationGivenUp} {
		m.notified.WithLabelValues(string(what))
	}
	for _, q := range o.Queues {
		for _, reason := range []string{ladder.ReasonBreaker, ladder.ReasonLimited, ladder.ReasonGuard} {
			m.deferrals.WithLabelValues(q, reason)
		}
		for _, outcome := range []batch.Outcome{batch.Succeeded, batch.Failed, batch.Expired, batch.Cancelled} {
			m.lines.WithLabelValues(q, string(outcome))
		}
		for _, model := range o.Answerers[q] {
			m.answers.WithLabelValues(q, model)
		}
		m.degraded.WithLabelValues(q)
		m.hits.WithLabelValues(q)
	}
}

// Transition counts a breaker's change of state. Only the process that caused
// it may report it, so that sums over the fleet are true.
func (m *Metrics) Transition(t breaker.Transition) {
	m.transitions.WithLabelValues(string(t.Scope), t.Key.Provider, modelOf(t.Scope, t.Key), t.Key.Region, string(t.To)).Inc()
}

// Probe counts a probe, a line's or one of ours; its call is counted by Call as well.
func (m *Metrics) Probe(scope breaker.Scope, k breaker.Key, result provider.Kind) {
	m.probes.WithLabelValues(string(scope), k.Provider, modelOf(scope, k), k.Region, string(result)).Inc()
}

// Call counts a call that was sent, with its duration, tokens and cost.
func (m *Metrics) Call(k breaker.Key, purpose ladder.Purpose, c provider.Call) {
	m.calls.WithLabelValues(k.Provider, k.Model, k.Region, string(c.Kind)).Inc()
	latency := time.Duration(c.LatencyMS) * time.Millisecond
	m.duration.WithLabelValues(k.Provider, k.Model, k.Region).Observe(latency.Seconds())
	m.addTokens(k, "input", c.Usage.InputTokens-c.Usage.CachedInputTokens)
	m.addTokens(k, "cached_input", c.Usage.CachedInputTokens)
	m.addTokens(k, "output", c.Usage.OutputTokens)
	if c.Cost > 0 {
		m.cost.WithLabelValues(k.Provider, k.Model, string(purpose)).Add(c.Cost.Float())
	}
}

// FirstToken notes how long the first token of an answer took.
func (m *Metrics) FirstToken(k breaker.Key, took time.Duration) {
	m.firstToken.WithLabelValues(k.Provider, k.Model, k.Region).Observe(took.Seconds())
}

// addTokens adds what a provider reported; a counter may not fall, and a
// provider's arithmetic is not ours to trust.
func (m *Metrics) addTokens(k breaker.Key, kind string, n int64) {
	if n > 0 {
		m.tokens.WithLabelValues(k.Provider, k.Model, kind).Add(float64(n))
	}
}

// Avoided counts a call that an open breaker refused.
func (m *Metrics) Avoided(k breaker.Key) {
	m.avoided.WithLabelValues(k.Provider, k.Model, k.Region).Inc()
}

// Fallback says whether the breakers in Redis cannot be asked.
func (m *Metrics) Fallback(away bool) {
	m.fallback.Set(0)
	if away {
		m.fallback.Set(1)
	}
}

// Deferral counts a line put back to wait; reason is one of package ladder's.
func (m *Metrics) Deferral(queue, reason string) {
	m.deferrals.WithLabelValues(m.queue(queue), reason).Inc()
}

// Line counts a line that ended in this process.
func (m *Metrics) Line(queue string, outcome batch.Outcome) { m.Lines(queue, outcome, 1) }

// Lines counts n lines that ended at once, as the keeper ends them.
func (m *Metrics) Lines(queue string, outcome batch.Outcome, n int) {
	m.lines.WithLabelValues(m.queue(queue), string(outcome)).Add(float64(n))
}

// Answers counts n lines that somebody answered.
func (m *Metrics) Answers(queue string, by tasks.By, n int) {
	m.answers.WithLabelValues(m.queue(queue), m.answerer(queue, by.Model)).Add(float64(n))
	if by.Degraded {
		m.degraded.WithLabelValues(m.queue(queue)).Add(float64(n))
	}
	if by.Cached {
		m.hits.WithLabelValues(m.queue(queue)).Add(float64(n))
	}
}

// Notified counts a try at telling of a batch's end.
func (m *Metrics) Notified(what tasks.Notification) { m.notified.WithLabelValues(string(what)).Inc() }

// redisHook takes the times of a connection to Redis.
func (m *Metrics) redisHook(connection string) redis.Hook { return newRedisTimes(m.redis, connection) }

// modelOf returns the model label: a parent's breaker has none.
func modelOf(s breaker.Scope, k breaker.Key) string {
	if s == breaker.ScopeParent {
		return ""
	}
	return k.Model
}
