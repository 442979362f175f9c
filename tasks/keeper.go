package tasks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/internal/hours"
)

// Backlog is what the keeper needs of package batch.
type Backlog interface {
	Refresh(ctx context.Context, known map[string]batch.Backlog) ([]batch.Backlog, error)
	Release(ctx context.Context, id string, epoch int64, n int, room map[int]int) ([]batch.Ref, error)
	Out(ctx context.Context, id string) ([]batch.OutEntry, error)
	Touch(ctx context.Context, refs []batch.Ref) error
	End(ctx context.Context, id string, epoch int64, o batch.Outcome, n int) (int, error)
	Texts(ctx context.Context, id string, epoch int64, from int, preset batch.Preset) (next, ended int, err error)
	TextsOut(ctx context.Context, id string, epoch int64, preset batch.Preset) (ended int, err error)
	Overdue(ctx context.Context, keep time.Duration) ([]string, error)
}

// Breakers tells the keeper how the breakers of models stand.
type Breakers interface {
	// Doors answers by the models' configuration keys; those that it does not
	// know are left out.
	Doors(ctx context.Context, models []string) (map[string]Door, error)
}

// Door is how the breakers of a model stand to a waiting line.
type Door struct {
	Open  bool  // calls pass
	Probe Probe // that a waiting line has to be now; zero: none
}

// Probe is one that only a waiting line can be, and is due. State and Until tell
// one probe of a breaker from the next.
type Probe struct {
	Breaker string // the model's, or its parent's
	State   breaker.State
	Until   time.Time
}

// The keeper's rhythm.
const (
	tickEvery  = 100 * time.Millisecond // releases
	leadEvery  = 2 * time.Second        // renews the lease of 10 s
	wakeEvery  = 500 * time.Millisecond // looks for breakers that closed or want a line as their probe
	sweepEvery = 10 * time.Second       // looks for tasks that vanished
	// tickLimit bounds one round, so that a silent Redis cannot hold the keeper
	// beyond its lease.
	tickLimit = 5 * time.Second
)

// Keeper is the leased background role, one in the fleet: it releases lines,
// gives texts to those whose deadline is near, where their ladder has one, ends
// those of cancelled and expired batches and those that no budget is left for,
// wakes those whose breaker closed or wants one as its probe, or whose guard has
// room, brings back tasks that vanished, and deletes batches that were kept for
// long enough.
type Keeper struct {
	id       string
	fleet    *Fleet
	backlog  Backlog
	breakers Breakers
	guards   Guards // nil: there are none
	queue    *queues
	ahead    map[string]int // configured release_ahead, by queue
	hours    map[string]hours.Hours
	obs      Observer
	log      *slog.Logger
	now      func() time.Time
	begun    func(queue string) int // tasks that this process began in the last 2 s; nil: the heartbeat says it

	unguarded   map[string]bool       // queues whose lines go on over their guard
	lastResorts map[string]LastResort // by queue
	flow        *throughput
	quota       *quota // nil: not known yet

	mu    sync.Mutex
	live  []Heartbeat
	epoch atomic.Int64 // 0: another is the keeper

	deleter *Deleter      // nil: no batch is ever deleted
	night   *Night        // nil: nobody notes the minutes
	noted   int64         // the last minute that was
	keepFor time.Duration // how long batches are kept after their end; 0: for ever

	led, woke, swept, tidied time.Time
	asked                    time.Time // the guards
	trouble                  string    // of the last round
	told                     time.Time
	woken                    map[string]woken    // by task, of those not long ago
	texts                    map[string]*textRun // by batch, of those near their deadline
	probed                   map[string]Probe    // breaker -> the last probe that a line was woken for
	quiet                    quiet
	owed                     map[string][]batch.Ref // queue -> lines that were moved and not enqueued
}

func newKeeper(id string, o Options, f *Fleet) *Keeper {
	return &Keeper{
		id: id, fleet: f, backlog: o.Backlog, breakers: o.Breakers, queue: newQueues(o.EnqueueRedis),
		ahead: o.ReleaseAhead, hours: o.Hours, obs: o.Observer, log: o.Logger, now: o.Now, woken: map[string]woken{}, probed: map[string]Probe{}, owed: map[string][]batch.Ref{},
		guards: o.Guards, unguarded: o.Unguarded, lastResorts: o.LastResorts, texts: map[string]*textRun{}, quiet: quiet{}, flow: newThroughput(),
		deleter: o.Deleter, keepFor: o.Keep, night: o.Night,
	}
}

// Leads says whether this process holds the keeper's lease.
func (k *Keeper) Leads() bool { return k.epoch.Load() > 0 }

// Epoch is that of the keeper's lease, which grows whenever the lease changes
// hands; 0: this process does not hold it.
func (k *Keeper) Epoch() int64 { return k.epoch.Load() }

// see takes the heartbeats of all live workers.
func (k *Keeper) see(live []Heartbeat) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.live = live
}

// run keeps until the context ends, then gives the lease up.
func (k *Keeper) run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			k.resign(context.WithoutCancel(ctx))
			return
		case <-tick.C:
			k.round(ctx)
		}
	}
}

func (k *Keeper) resign(ctx context.Context) {
	if !k.Leads() {
		return
	}
	k.epoch.Store(0)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := k.fleet.Resign(ctx, k.id); err != nil {
		k.log.Warn("resign as keeper failed", "error", err)
	}
}

func (k *Keeper) round(life context.Context) {
	ctx, cancel := context.WithTimeout(life, tickLimit)
	defer cancel()
	if !k.lead(ctx) {
		return
	}
	if err := k.keep(ctx); life.Err() == nil {
		k.complain(err)
	}
}

// complain logs what went wrong in a round, once a minute while it stays the
// same: there are ten rounds a second.
func (k *Keeper) complain(err error) {
	if err == nil {
		k.trouble = ""
		return
	}
	if now := k.now(); err.Error() != k.trouble || now.Sub(k.told) >= time.Minute {
		k.trouble, k.told = err.Error(), now
		k.log.Warn("keeper's round failed", "error", err)
	}
}

// lead renews the lease when it is time and says whether this is the keeper.
func (k *Keeper) lead(ctx context.Context) bool {
	now := k.now()
	if now.Sub(k.led) < leadEvery && now.After(k.led) {
		return k.Leads()
	}
	k.led = now
	epoch, err := k.fleet.Lead(ctx, k.id)
	if err != nil {
		k.log.Warn("keeper's lease not renewed", "error", err)
		epoch = 0
	}
	if before := k.epoch.Swap(epoch); before == 0 && epoch > 0 {
		k.log.Info("this worker is the keeper now", "worker", k.id, "epoch", epoch)
		clear(k.woken)
		clear(k.texts)
		clear(k.probed)
		clear(k.quiet)
		k.quota, k.asked = nil, time.Time{}
	}
	return epoch > 0
}

func (k *Keeper) keep(ctx context.Context) error {
	// What fails for one batch or queue must not hold up the others.
	now := k.now()
	backlogs, err := k.backlog.Refresh(ctx, k.quiet.known(now))
	k.quiet.look(backlogs, now)
	if len(backlogs) > 0 {
		k.flow.look(backlogs, backlogs[0].Now, k.endsInBulk)
	}
	errs := []error{err, k.askGuards(ctx, k.awake(backlogs)), k.writeTexts(ctx, backlogs), k.endDead(ctx, backlogs)}
	wake := due(&k.woke, now, wakeEvery)
	for queue, mine := range byQueue(backlogs) {
		errs = append(errs, k.fill(ctx, queue, mine, wake))
	}
	if due(&k.swept, now, sweepEvery) {
		errs = append(errs, k.sweep(ctx, backlogs))
	}
	if due(&k.tidied, now, tidyEvery) {
		errs = append(errs, k.tidy(ctx))
	}
	return errors.Join(append(errs, k.note(ctx, now))...)
}

// due says whether it is time again, and notes that it was done.
func due(last *time.Time, now time.Time, every time.Duration) bool {
	if since := now.Sub(*last); since >= 0 && since < every {
		return false
	}
	*last = now
	return true
}

// byQueue sorts the batches by their queues. The keeper serves all of them,
// also those that its own process takes no tasks from.
func byQueue(backlogs []batch.Backlog) map[string][]batch.Backlog {
	queues := map[string][]batch.Backlog{}
	for _, b := range backlogs {
		queues[b.Queue] = append(queues[b.Queue], b)
	}
	return queues
}

// fill tops a queue up, in its hours: first the lines that can go on, then new ones.
func (k *Keeper) fill(ctx context.Context, queue string, backlogs []batch.Backlog, wake bool) error {
	slots, begun := k.strength(queue)
	if slots == 0 || !k.hours[queue].Open(backlogs[0].Now) {
		return nil // nobody serves it, or not now
	}
	if err := k.payOwed(ctx, queue); err != nil {
		return err
	}
	pending, paused, err := k.queue.pending(ctx, queue)
	if err != nil || paused {
		return err // a person's pause stays a person's
	}
	room := batch.Ahead(k.ahead[queue], slots, begun) - pending
	if wake {
		n, err := k.wakeUp(ctx, queue, backlogs, room)
		if err != nil {
			return err
		}
		room -= n
	}
	return k.release(ctx, queue, backlogs, room, slots)
}
