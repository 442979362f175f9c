package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"nightshift/internal/hours"
	"nightshift/ladder"
)

// Options says what a worker serves and with what.
type Options struct {
	Queues []Queue
	Lines  Lines
	// Backlog, Breakers and Fleet serve the keeper, which every worker can be.
	Backlog  Backlog
	Breakers Breakers
	// ReleaseAhead is how many tasks of a queue should be pending, by queue, also
	// those that this worker does not serve; 0 or absent: chosen by the keeper.
	ReleaseAhead map[string]int
	// Hours are those in which lines may begin, by queue, also of those that this
	// worker does not serve; absent: always.
	Hours map[string]hours.Hours
	// LastResorts are the texts at the deadline, by queue, also of those that
	// this worker does not serve; absent: the queue's ladder has none.
	LastResorts map[string]LastResort
	// Guards bound what the keeper releases; nil: nothing does. Unguarded are the
	// queues whose lines are released all the same, because their ladders have rungs
	// for the time that a guard is open.
	Guards    Guards
	Unguarded map[string]bool
	// Deleter deletes batches that were kept for as long as Keep says after their end
	// (0: for ever); nil: nobody does.
	Deleter *Deleter
	Keep    time.Duration
	// Night is where the keeper notes what was done by the minute; nil: nobody does.
	Night *Night
	// Notices and Notifier serve the keeper too: URLs are told of the ends of batches.
	// Without a Notifier nobody is.
	Notices  Notices
	Notifier Notifier
	// QueueRedis is asynq's own client of Redis: it must retry for longer than a
	// restart takes, since asynq cannot mend a failed ack. EnqueueRedis is the
	// keeper's; it is another one.
	QueueRedis   redis.UniversalClient
	EnqueueRedis redis.UniversalClient
	// ShutdownTimeout is how long calls in flight may take to finish at Stop.
	ShutdownTimeout time.Duration
	Version         string
	ConfigHash      string
	Observer        Observer
	// Tracer follows attempts; nil: nobody does.
	Tracer Tracer
	// Sink is told of every deferral of a line; nil: nobody is.
	Sink   ladder.Sink
	Logger *slog.Logger
	// Now and Random are the clock and a source uniform over [0,1).
	// Default to time.Now and math/rand.
	Now    func() time.Time
	Random func() float64
	// RenewEvery is how often leases of lines are renewed. Defaults to 10 s.
	RenewEvery time.Duration
}

// QueueGrace is how much longer asynq's shutdown lasts than ours: ours must end
// first, or asynq hands a task back whose call is still being paid for.
const QueueGrace = 10 * time.Second

// Worker serves queues, and is the keeper when it holds the lease. Start it
// once and stop it once.
type Worker struct {
	opts     Options
	id       string
	started  time.Time
	leases   *leases
	keeper   *Keeper
	messages *messenger
	fleet    *Fleet
	handlers []*handler
	servers  []server
	stop     chan struct{}      // closed: no further call
	giveUp   chan struct{}      // closed: no further retry of a write
	cutCalls context.CancelFunc // ends calls in flight
	endLoops context.CancelFunc
	loops    sync.WaitGroup
	stopOnce sync.Once
	stopErr  error
}

// NewWorker returns a worker that is not started.
func NewWorker(o Options) *Worker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.RenewEvery == 0 {
		o.RenewEvery = renewEvery
	}
	w := &Worker{
		opts: o, id: workerID(), leases: newLeases(o.Lines, o.Logger), fleet: NewFleet(o.EnqueueRedis),
		stop: make(chan struct{}), giveUp: make(chan struct{}),
	}
	w.keeper = newKeeper(w.id, o, w.fleet)
	w.keeper.begun = w.begun
	w.messages = newMessenger(o, w.keeper.Epoch)
	return w
}

func workerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), newToken()[:6])
}

// ID returns the worker's name in the fleet.
func (w *Worker) ID() string { return w.id }

// Keeper returns the worker's keeper role.
func (w *Worker) Keeper() *Keeper { return w.keeper }

// Start begins to take tasks. It returns when all servers run.
func (w *Worker) Start(ctx context.Context) error {
	if err := w.opts.QueueRedis.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("start worker: reach redis: %w", err)
	}
	w.started = w.opts.Now()
	calls, cutCalls := context.WithCancel(context.Background())
	loops, endLoops := context.WithCancel(context.Background())
	w.cutCalls, w.endLoops = cutCalls, endLoops
	scripts := newQueueScripts(w.opts.QueueRedis)
	for _, q := range w.opts.Queues {
		h := w.handler(q, calls)
		w.handlers = append(w.handlers, h)
		for _, slots := range split(q.Slots) {
			ahead := newReadAhead(w.opts.QueueRedis, q.Name, slots, scripts, w.opts.Logger)
			w.servers = append(w.servers, server{w.server(ahead, q, slots), ahead, h})
		}
	}
	w.loop(func() { w.leases.run(loops, w.opts.RenewEvery) })
	w.loop(func() { w.beats(loops) })
	w.loop(func() { w.keeper.run(loops) })
	w.loop(func() { w.messages.run(loops) })
	for _, s := range w.servers {
		if err := s.Start(s); err != nil {
			return errors.Join(fmt.Errorf("start queue %s: %w", s.handler.queue.Name, err), w.Stop(ctx))
		}
	}
	return nil
}

func (w *Worker) loop(f func()) {
	w.loops.Add(1)
	go func() {
		defer w.loops.Done()
		f()
	}()
}

func (w *Worker) handler(q Queue, calls context.Context) *handler {
	return &handler{
		queue: q, hours: w.opts.Hours[q.Name], lines: w.opts.Lines, leases: w.leases, pace: newPace(q.Slots),
		slots: make(chan struct{}, q.Slots), stop: w.stop, giveUp: w.giveUp, calls: calls,
		tracer: w.opts.Tracer, obs: w.opts.Observer, sink: w.opts.Sink, log: w.opts.Logger, now: w.opts.Now, random: w.opts.Random,
	}
}

// server is one asynq server, its client of Redis, and the handler that it feeds.
type server struct {
	*asynq.Server
	ahead   *readAhead
	handler *handler
}

// ProcessTask implements asynq.Handler.
func (s server) ProcessTask(ctx context.Context, task *asynq.Task) error {
	makeRoom(s.ahead.slots)
	id, _ := asynq.GetTaskID(ctx)
	defer s.ahead.returned(id)
	return s.handler.ProcessTask(ctx, task)
}

// endPull takes no more tasks.
func (s server) endPull() {
	s.ahead.stop()
	s.Stop()
}

func (s server) end() { s.Shutdown() }

const (
	// serverSlots is how many slots one asynq server feeds. With readAhead it would
	// feed more; it starts one task after another, some 10 µs each.
	serverSlots = 64
	// maxServers bounds the servers of a queue: beyond it there was nothing to gain
	// on a machine of two cores (BenchmarkHandler).
	maxServers = 4
)

// split shares the slots of a queue among as many servers as they ask for.
func split(slots int) []int {
	n := min((slots+serverSlots-1)/serverSlots, maxServers)
	shares := make([]int, max(n, 1))
	for i := range shares {
		shares[i] = slots / len(shares)
		if i < slots%len(shares) {
			shares[i]++
		}
	}
	return shares
}

// server is an asynq server of one queue, with the settings that its measured
// traps ask for (docs/adr/0002).
func (w *Worker) server(rdb redis.UniversalClient, q Queue, slots int) *asynq.Server {
	return asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: slots, Queues: map[string]int{q.Name: 1},
		TaskCheckInterval: 100 * time.Millisecond, DelayedTaskCheckInterval: time.Second,
		ShutdownTimeout: w.opts.ShutdownTimeout + QueueGrace,
		RetryDelayFunc:  retryDelay(w.opts.Now), IsFailure: isFailure,
		Logger: queueLog{w.opts.Logger}, LogLevel: asynq.WarnLevel,
	})
}

// ErrStuck is Stop's when the queue did not let go in time, because Redis does
// not answer. The process can end all the same: what the queue holds returns by
// itself. Clients of Redis must not be closed then.
var ErrStuck = errors.New("the queue did not stop in time: redis does not answer")

// queueLimit is how long the queue may take to stop once no attempt is left.
const queueLimit = 5 * time.Second

// Stop takes no more tasks, starts no further call, lets calls in flight finish
// within the shutdown timeout (or until ctx ends), and hands the rest back unspent.
func (w *Worker) Stop(ctx context.Context) error {
	w.stopOnce.Do(func() { w.stopErr = w.shutdown(ctx) })
	return w.stopErr
}

func (w *Worker) shutdown(ctx context.Context) error {
	if w.endLoops == nil {
		return nil // never started
	}
	close(w.stop)
	for _, h := range w.handlers {
		h.gate.shut()
	}
	pulling := w.each(server.endPull) // takes long where Redis is silent
	done := w.attemptsDone()
	limit := time.NewTimer(w.opts.ShutdownTimeout)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	case <-ctx.Done():
	}
	w.cutCalls()
	select {
	case <-done:
	case <-time.After(QueueGrace / 2): // their last writes
	}
	close(w.giveUp)
	<-done
	w.endLoops()
	w.loops.Wait()
	return w.stopQueues(pulling)
}

// stopQueues ends asynq's servers, or leaves them when they do not end.
func (w *Worker) stopQueues(pulling <-chan struct{}) error {
	limit := time.After(queueLimit)
	select {
	case <-pulling:
	case <-limit:
		return ErrStuck
	}
	select {
	case <-w.each(server.end):
		return nil
	case <-limit:
		return ErrStuck
	}
}

// each does something to all servers at once; the channel is closed when it is
// done for all.
func (w *Worker) each(do func(server)) <-chan struct{} {
	var all sync.WaitGroup
	for _, s := range w.servers {
		all.Go(func() { do(s) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

func (w *Worker) attemptsDone() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for _, h := range w.handlers {
			h.gate.wait()
		}
		close(done)
	}()
	return done
}

// BusyBeside says whether another queue than the named one has work here.
func (w *Worker) BusyBeside(queue string) bool {
	return slices.ContainsFunc(w.handlers, func(h *handler) bool { return h.queue.Name != queue && len(h.slots) > 0 })
}

// beats writes the heartbeat every second until the context ends.
func (w *Worker) beats(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if live, err := w.fleet.Beat(ctx, w.heartbeat()); err == nil {
			w.keeper.see(live)
		} else if ctx.Err() == nil {
			w.opts.Logger.Warn("heartbeat failed", "error", err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			if err := w.fleet.Leave(last, w.id); err != nil {
				w.opts.Logger.Warn("leave the fleet failed", "error", err)
			}
			return
		case <-tick.C:
		}
	}
}

// beganLately is the time over which heartbeats count the tasks that were begun.
const beganLately = 2 * time.Second

// begun is how many tasks of a queue this process began lately.
func (w *Worker) begun(queue string) int {
	for _, h := range w.handlers {
		if h.queue.Name == queue {
			return h.pace.begunWithin(beganLately, w.opts.Now())
		}
	}
	return 0
}

func (w *Worker) heartbeat() Heartbeat {
	host, _ := os.Hostname()
	h := Heartbeat{
		ID: w.id, Host: host, PID: os.Getpid(), Version: w.opts.Version, ConfigHash: w.opts.ConfigHash,
		StartedAt: w.started, Queues: map[string]QueueBeat{},
	}
	for _, s := range w.handlers {
		slots := s.queue.Slots
		if s.gate.isShut() {
			slots = 0 // it takes no more
		}
		h.Queues[s.queue.Name] = QueueBeat{
			Slots: slots, Active: len(s.slots), Begun: s.pace.begunWithin(beganLately, w.opts.Now()),
		}
	}
	return h
}
