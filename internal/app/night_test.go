package app

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/internal/redistest"
	"nightshift/internal/sim"
	"nightshift/tasks"
)

// nightConfig has a queue whose first model fails, and one whose answers are held
// to something, kept, and counted for a producer with a small hour.
const nightConfig = `
redis: {url: "%s"}
providers:
  a: {api: openai, base_url: "%s"}
  b: {api: openai, base_url: "%s"}
models:
  a/one: {price: {input: 1, output: 2}, first_token: 1s}
  b/two: {price: {input: 1, output: 2}}
  b/three: {price: {input: 1, output: 2}}
ladders:
  night: {rungs: [{model: a/one, tries: 2}, {model: b/two, after: 2s}]}
  strict: {rungs: [{model: b/three}], patience: 1s, output: {deny: ["^FORBIDDEN$"], repairs: 1}, cache: 1h}
queues:
  night: {ladder: night, concurrency: 4, retries: 9}
  strict: {ladder: strict, concurrency: 4, retries: 9}
breaker: {window: 5, failures: 3, cooldown: 1s, max_cooldown: 2s}
guard: {producers: {greedy: {calls_per_hour: 3}}}
batches: {notify: {allow_private: true}}
metrics: {addr: "127.0.0.1:0"}
worker: {shutdown_timeout: 5s}
`

// night is a worker of this process before the simulator, whose metrics are
// scraped all the time.
type night struct {
	*fleet
	sim *sim.Server
	app *App
	watch
}

// watch is what was seen of each series: its lowest and highest value.
type watch struct {
	mu        sync.Mutex
	low, high map[string]float64
	last      []byte
}

// take notes a page of metrics.
func (w *watch) take(page []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = page
	for lines := bufio.NewScanner(bytes.NewReader(page)); lines.Scan(); {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if i < 0 || lines.Text()[0] == '#' {
			continue
		}
		series := lines.Text()[:i]
		value, err := strconv.ParseFloat(lines.Text()[i+1:], 64)
		if err != nil {
			continue
		}
		if _, ok := w.low[series]; !ok {
			w.low[series], w.high[series] = value, value
		}
		w.low[series], w.high[series] = min(w.low[series], value), max(w.high[series], value)
	}
}

// reached says whether a series was ever so high.
func (w *watch) reached(series string, value float64) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		high, ok := w.high[series]
		return ok && high >= value
	}
}

// of returns whether a metric was there, and whether one of its series moved.
func (w *watch) of(m Metric) (there, moved bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for series := range w.low {
		name, _, _ := strings.Cut(series, "{")
		if m.Type == Histogram {
			name = strings.TrimSuffix(name, "_count")
		}
		if name == m.Name {
			there = true
			moved = moved || w.high[series] > w.low[series]
		}
	}
	return there, moved
}

func newNight(t *testing.T) *night {
	n := &night{
		fleet: &fleet{t: t, redis: redistest.Start(t)}, sim: sim.New(sim.Script{}, sim.Options{}),
		watch: watch{low: map[string]float64{}, high: map[string]float64{}},
	}
	if err := n.sim.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.sim.Close() })
	cfg := n.configure(nightConfig, n.redis.URL(), n.sim.URL(), n.sim.URL())
	var err error
	if n.app, err = New(t.Context(), cfg, Options{Worker: true, Metrics: true, Version: "1.2.3", Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	n.conn = n.app.Conn()
	n.scrapeAlways()
	return n
}

// scrapeAlways starts the worker and scrapes it until the test ends, the first time
// before it is anything.
func (n *night) scrapeAlways() {
	rec := httptest.NewRecorder()
	MetricsHandler(n.app.registry, slog.New(slog.DiscardHandler)).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	n.take(rec.Body.Bytes())
	if err := n.app.Start(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if code, page := fetch(n.app.MetricsURL()); code == http.StatusOK {
				n.take([]byte(page))
			}
		}
	}()
	n.t.Cleanup(func() {
		close(done)
		<-ended
		_ = n.app.Stop(n.t.Context())
	})
}

// faults has a model of the simulator fail from now on.
func (n *night) faults(model string, list ...sim.Fault) {
	n.t.Helper()
	if err := n.sim.AddFaults(model, list...); err != nil {
		n.t.Fatal(err)
	}
}

// sees waits until the metrics say so.
func (n *night) sees(series string, value float64) {
	n.t.Helper()
	n.until(30*time.Second, series+" reaches "+strconv.FormatFloat(value, 'f', -1, 64), n.reached(series, value))
}

// outage: the first model is down; lines wait, and then go to the second. It comes
// back, and somebody is told of the batch's end.
func (n *night) outage(t *testing.T) {
	told := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer told.Close()
	n.faults("one", sim.Fault{Kind: sim.Unavailable})
	n.submit("outage", 12, func(d *batch.Description) {
		d.Queue, d.Deadline, d.Notify = "night", time.Now().Add(time.Hour), told.URL
	})
	n.sees(`nightshift_breaker_state{model="a/one",provider="a",region="",scope="model",state="open"}`, 1)
	n.sees(`nightshift_probes_total{model="a/one",provider="a",region="",result="unavailable",scope="model"}`, 1)
	n.done("outage", 60*time.Second)
	n.sees(`nightshift_notifications_total{result="told"}`, 1)
	n.sim.ClearFaults()
	n.sees(`nightshift_breaker_transitions_total{model="a/one",provider="a",region="",scope="model",to="closed"}`, 1)
}

// strict: an answer that is asked for again, the same lines once more from the
// cache, a refusal by rate, and a producer whose hour is over.
func (n *night) strict() {
	n.faults("three", sim.Fault{Kind: sim.Says, Text: "FORBIDDEN", LastCall: 1})
	strict := func(d *batch.Description) { d.Queue, d.Again = "strict", true }
	n.submit("strict", 3, strict)
	n.done("strict", 60*time.Second)
	n.submit("again", 3, strict)
	n.done("again", 30*time.Second)
	n.faults("three", sim.Fault{Kind: sim.RateLimited, LastCall: 1})
	n.submit("greedy", 9, func(d *batch.Description) { d.Queue, d.Producer = "strict", "greedy" })
	n.sees(`nightshift_guard_state{producer="greedy",state="open"}`, 1)
	n.sees(`nightshift_guard_used_ratio{producer="greedy"}`, 1) // a slot that is given back may have been the third
	if err := n.conn.Batches.Cancel(n.t.Context(), "greedy"); err != nil {
		n.t.Fatal(err)
	}
	n.sees(`nightshift_lines_total{outcome="cancelled",queue="strict"}`, 1)
}

// company: a person pauses a queue with lines in it, and a second worker comes and goes.
func (n *night) company(t *testing.T) {
	if _, err := n.conn.Queues.Pause(t.Context(), "night", tasks.Pause{By: "anna", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	n.submit("paused", 2, func(d *batch.Description) { d.Queue, d.Again = "night", true })
	n.sees(`nightshift_queue_paused{queue="night"}`, 1)
	n.sees(`nightshift_queue_backlog_lines{queue="night"}`, 2)
	second := n.start()
	n.sees("nightshift_workers", 2)
	n.sees(`nightshift_queue_slots{queue="night"}`, 8)
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait()
	if _, err := n.conn.Queues.Unpause(t.Context(), "night"); err != nil {
		t.Fatal(err)
	}
	n.done("paused", 30*time.Second)
}

// away: Redis is silent while a call hangs, so that the next is decided without it.
func (n *night) away(t *testing.T) {
	n.faults("one", sim.Fault{Kind: sim.Hang})
	before := n.sim.Counts().Calls
	n.submit("away", 1, func(d *batch.Description) { d.Queue, d.Again = "night", true })
	n.until(20*time.Second, "a call hangs", func() bool { return n.sim.Counts().Calls > before })
	n.redis.Freeze(t)
	n.sees("nightshift_breaker_store_fallback", 1)
	n.redis.Thaw(t)
	n.sim.ClearFaults()
	n.done("away", 60*time.Second)
}

// A night with everything in it: each metric of the list is there, and each that
// can move has moved; promtool finds nothing to say of the page.
func TestEveryMetricMovesInANight(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.outage(t)
	n.strict()
	n.company(t)
	n.away(t)
	for _, series := range []string{
		`nightshift_calls_total{kind="ok",model="a/one",provider="a",region=""}`,
		`nightshift_calls_total{kind="unavailable",model="a/one",provider="a",region=""}`,
		`nightshift_calls_total{kind="rate_limited",model="b/three",provider="b",region=""}`,
		`nightshift_calls_total{kind="timeout",model="a/one",provider="a",region=""}`,
		`nightshift_calls_avoided_total{model="a/one",provider="a",region=""}`,
		`nightshift_deferrals_total{queue="night",reason="breaker_open"}`,
		`nightshift_answers_total{model="b/two",queue="night"}`,
		`nightshift_answers_total{model="b/three",queue="strict"}`,
		`nightshift_lines_degraded_total{queue="night"}`,
		`nightshift_cache_hits_total{queue="strict"}`,
		`nightshift_probes_total{model="a/one",provider="a",region="",result="ok",scope="model"}`,
		`nightshift_breaker_transitions_total{model="a/one",provider="a",region="",scope="model",to="half_open"}`,
		`nightshift_tokens_total{model="b/two",provider="b",type="output"}`,
		`nightshift_queue_runnable_lines{queue="night"}`,
		"nightshift_keeper",
	} {
		n.sees(series, 1)
	}
	for _, purpose := range []string{"line", "repair", "probe"} {
		model := map[string]string{"line": "b/two", "repair": "b/three", "probe": "a/one"}[purpose]
		n.sees(fmt.Sprintf(`nightshift_cost_usd_total{model=%q,provider=%q,purpose=%q}`, model, model[:1], purpose), 1e-9)
	}
	still := map[string]bool{buildInfo.Name: true, configInfo.Name: true, redisMax.Name: true}
	for _, m := range MetricList() {
		there, moved := n.of(m)
		if !there || !moved && !still[m.Name] {
			t.Errorf("%s: there %v, moved %v", m.Name, there, moved)
		}
	}
	var page []byte
	n.until(20*time.Second, "a page of the keeper", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		page = n.last
		return bytes.Contains(page, []byte("\nnightshift_queue_tasks{"))
	})
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing; run: make deps")
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = bytes.NewReader(page)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
