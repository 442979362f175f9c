package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/alert"
	"nightshift/internal/standby"
	"nightshift/internal/traces"
	"nightshift/ladder"
	"nightshift/limit"
	"nightshift/replay"
	"nightshift/tasks"
)

// Options says which parts a process runs.
type Options struct {
	// Queues are served; empty: all of the configuration.
	Queues []string
	// Concurrency overrides the slots of each queue; 0: as configured.
	Concurrency int
	// Worker, Dashboard and Metrics are the parts to run.
	Worker, Dashboard, Metrics bool
	// Rehearsal says on the page that the built-in simulator answers.
	Rehearsal bool
	Version   string
	Logger    *slog.Logger
	Observer  Observer // may be nil
}

// App is one process: connections and the parts that run on them.
type App struct {
	opts     Options
	conn     *Conn
	registry *prometheus.Registry
	worker   *tasks.Worker    // nil without Options.Worker
	watcher  *breaker.Watcher // with the worker
	router   *ladder.Router   // with the worker
	side     *standby.Switch  // with the worker
	calls    adapters         // with the worker
	log      *replay.Log      // with the worker; nil: no call is logged
	health   *health
	alerts   *alert.Teller  // with the worker; nil: nobody is told
	traces   *traces.Tracer // with the worker; nil: nobody asks for them
	servers  []*server

	endLoops context.CancelFunc
	loops    sync.WaitGroup
	stopOnce sync.Once
	stopErr  error
}

// New connects and builds everything; nothing runs yet. Stop releases it, also
// when Start was never called.
func New(ctx context.Context, cfg *config.Config, o Options) (*App, error) {
	queues, err := served(cfg, o)
	if err != nil {
		return nil, err
	}
	reg := NewRegistry()
	watch := &watching{log: o.Logger, more: o.Observer, metrics: NewMetrics(reg, MetricsOptions{
		Version: o.Version, Revision: Revision(), ConfigHash: cfg.Hash(), Keys: keys(cfg), Queues: cfg.QueueNames(),
		Answerers: answerers(cfg),
	})}
	conn, err := connect(ctx, cfg, o.Logger, hooks{transition: watch.Transition, guard: watch.Guarded, redis: watch.metrics.redisHook})
	if err != nil {
		return nil, err
	}
	if o.Worker {
		if err := conn.checkServer(ctx, o.Logger); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	a := &App{opts: o, conn: conn, registry: reg, health: newHealth(conn.Ping)}
	if err := a.build(queues, watch); err != nil {
		a.endTraces()
		return nil, errors.Join(err, conn.Close())
	}
	return a, nil
}

func (a *App) build(queues []config.Queue, watch *watching) error {
	if a.opts.Worker {
		var err error
		if a.traces, err = tracer(context.Background(), a.conn.Config, a.opts.Version, a.opts.Logger); err != nil {
			return err
		}
		if err := a.buildWorker(queues, watch); err != nil {
			return err
		}
		a.fleetMetrics(a.conn.Config.Queues)
	}
	if a.opts.Dashboard {
		if err := a.buildDashboard(); err != nil {
			return err
		}
	}
	if addr := a.conn.Config.Metrics.Addr; a.opts.Metrics && addr != "" {
		a.servers = append(a.servers, &server{name: "metrics", addr: addr, handler: a.health.before(MetricsHandler(a.registry, a.opts.Logger))})
	}
	return nil
}

func (a *App) buildWorker(queues []config.Queue, watch *watching) error {
	cfg, log := a.conn.Config, a.opts.Logger
	calls, err := callers(cfg)
	if err != nil {
		return err
	}
	a.calls = calls
	gate, breakers, side := gates(a.conn, watch.metrics, log)
	a.side = side
	prober, err := ladder.NewProber(ladder.ProberOptions{
		Models: cfg.Models, Callers: calls, Gate: gate, Logger: log, Observer: watch,
	})
	if err != nil {
		return err
	}
	soon := a.conn.Redis.Breaker()
	a.router = ladder.NewRouter(ladder.RouterOptions{
		Keys: a.conn.Keys, Store: ladder.NewRedisAverages(soon), Verdicts: a.conn.Breakers, Logger: log,
	})
	climbs, err := ladders(cfg, ladder.Options{
		Models: cfg.Models, Providers: cfg.Providers, Callers: calls, Prober: prober, Router: a.router,
		Gate: gate, Share: a.share(queues), Degrade: cfg.Guard.Over == config.OverDegrade,
		Cache: ladder.NewRedisAnswers(soon), Logger: log, Observer: watch,
	}, queues)
	if err != nil {
		return err
	}
	a.watcher = &breaker.Watcher{Store: breakers, Providers: providers(cfg), Models: a.conn.Keys, Prober: prober, Logger: log}
	var serve []tasks.Queue
	for _, q := range queues {
		serve = append(serve, tasks.Queue{
			Name: q.Name, Slots: q.Concurrency, Retries: q.Retries,
			Ladder: climbs[q.Ladder], MaxCooldown: cfg.Breaker.MaxCooldown,
		})
	}
	ahead := map[string]int{}
	for _, q := range cfg.Queues {
		ahead[q.Name] = q.ReleaseAhead
	}
	lastResorts, err := lastResorts(cfg)
	if err != nil {
		return err
	}
	sender, err := notifier(cfg, a.opts.Version)
	if err != nil {
		return err
	}
	byModel := map[string]breaker.Key{}
	for _, k := range a.conn.Keys {
		byModel[k.Model] = k
	}
	options := tasks.Options{
		Queues: serve, Lines: a.conn.Batches, Backlog: a.conn.Batches,
		ReleaseAhead: ahead, Hours: a.conn.hours, LastResorts: lastResorts, Breakers: tasks.BreakerKeys{Store: a.conn.Breakers, Keys: byModel},
		Guards: a.conn.Guard, Unguarded: unguarded(cfg), Notices: a.conn.Batches, Notifier: sender,
		Deleter: a.conn.Deleter, Keep: cfg.Batches.Keep, Night: a.conn.Night,
		QueueRedis: a.conn.Redis.Queue(), EnqueueRedis: a.conn.Redis.State(),
		ShutdownTimeout: cfg.Worker.ShutdownTimeout, Version: a.opts.Version, ConfigHash: cfg.Hash(),
		Observer: watch, Sink: watch, Logger: log,
	}
	a.worker = tasks.NewWorker(a.traceable(options))
	if err := a.buildAlerts(watch); err != nil {
		return err
	}
	return a.buildCallLog(watch)
}

// share keeps each model to half of this worker's slots.
func (a *App) share(queues []config.Queue) *limit.Share {
	slots := 0
	for _, q := range queues {
		slots += q.Concurrency
	}
	return limit.NewShare(slots, func(queue string) bool { return a.worker.BusyBeside(queue) })
}

func (a *App) fleetMetrics(queues []config.Queue) {
	keeper, conn := a.worker.Keeper(), a.conn
	NewFleet(a.registry, FleetSources{
		IsKeeper: keeper.Leads,
		Breakers: func(ctx context.Context) ([]breaker.Status, error) { return conn.Breakers.List(ctx, conn.Levels) },
		Guards:   conn.Guards, Producers: slices.Sorted(maps.Keys(conn.Config.Guard.Producers)),
		Queues: names(queues), States: conn.Queues.States, Loads: conn.loads, Workers: conn.Fleet.Workers, Memory: conn.memory,
	})
}

// served returns the queues to serve with the slots they have here.
func served(cfg *config.Config, o Options) ([]config.Queue, error) {
	var all []config.Queue
	for _, q := range cfg.Queues {
		if len(o.Queues) > 0 && !slices.Contains(o.Queues, q.Name) {
			continue
		}
		if o.Concurrency > 0 {
			q.Concurrency = o.Concurrency
		}
		all = append(all, q)
	}
	for _, name := range o.Queues {
		if _, ok := cfg.Queue(name); !ok {
			return nil, fmt.Errorf("no queue %q in the configuration; it has %v", name, names(cfg.Queues))
		}
	}
	return all, nil
}

func names(queues []config.Queue) []string {
	var all []string
	for _, q := range queues {
		all = append(all, q.Name)
	}
	return all
}

// Conn returns the connections.
func (a *App) Conn() *Conn { return a.conn }

// DashboardURL returns where the page is served; "" where it is not.
func (a *App) DashboardURL() string { return a.url("dashboard") }

// MetricsURL returns where the metrics are served; "" where they are not.
func (a *App) MetricsURL() string {
	if u := a.url("metrics"); u != "" {
		return u + "metrics"
	}
	return ""
}

func (a *App) url(name string) string {
	for _, s := range a.servers {
		if s.name == name && s.listener != nil {
			return s.url()
		}
	}
	return ""
}

// Start runs the parts. It returns when they run; when one cannot, all stop.
func (a *App) Start(ctx context.Context) error {
	loops, cancel := context.WithCancel(context.Background())
	a.endLoops = cancel
	for _, s := range a.servers {
		if err := s.start(&a.loops, a.opts.Logger); err != nil {
			return errors.Join(err, a.Stop(ctx))
		}
	}
	if a.worker != nil {
		a.loops.Go(func() { a.watcher.Run(loops) })
		a.loops.Go(func() { a.router.Run(loops) })
		if a.log != nil {
			a.loops.Go(func() { a.log.Run(loops) })
		}
		if a.alerts != nil {
			a.loops.Go(func() { a.alerts.Run(loops) })
		}
		if err := a.worker.Start(ctx); err != nil {
			return errors.Join(err, a.Stop(ctx))
		}
	}
	a.health.enter(running)
	return nil
}

// StopWork stops the worker alone, as Worker.Stop says, and leaves connections
// open: who runs a batch in this process then takes the last results. Stop must
// still follow.
func (a *App) StopWork(ctx context.Context) error {
	a.health.enter(stopping)
	if a.worker == nil {
		return nil
	}
	return a.worker.Stop(ctx)
}

// Stop ends the parts in the reverse order: the worker as Worker.Stop says, then
// probes, then the servers, then, once Redis has heard of every call, the connections.
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() { a.stopErr = a.stop(ctx) })
	return a.stopErr
}

func (a *App) stop(ctx context.Context) error {
	a.health.enter(stopping)
	var errs []error
	if a.worker != nil {
		errs = append(errs, a.worker.Stop(ctx))
	}
	if a.endLoops != nil {
		a.endLoops()
	}
	for _, s := range slices.Backward(a.servers) {
		errs = append(errs, s.stop())
	}
	a.loops.Wait()
	a.bookOwed(ctx)
	a.calls.Close()
	a.endTraces()
	if err := errors.Join(errs...); errors.Is(err, tasks.ErrStuck) {
		return err // its clients are in use still; they end with the process
	}
	return errors.Join(append(errs, a.conn.Close())...)
}

// bookLimit is how long a process that ends waits for a Redis that does not hear
// of its last calls.
const bookLimit = 5 * time.Second

// bookOwed tells Redis of calls that it missed: the guard would count too few.
func (a *App) bookOwed(ctx context.Context) {
	if a.side == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookLimit)
	defer cancel()
	if err := a.side.Flush(ctx); err != nil {
		a.opts.Logger.Warn("redis does not hear of the last calls: breakers, pace and guard do not count them", "error", err)
	}
}

// leaveTime is what a process needs once its worker has stopped: for pages that are
// held open, for what Redis has not heard (bookLimit), and for the last traces.
const leaveTime = 15 * time.Second

// StopTime is how long a worker may take to end: the calls in flight, then what the
// queue takes to hand its tasks back, then the rest of its process. Whoever kills it
// must wait for as long.
func StopTime(cfg *config.Config) time.Duration {
	return cfg.Worker.ShutdownTimeout + tasks.QueueGrace + leaveTime
}
