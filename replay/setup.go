package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/ladder"
	"nightshift/limit"
)

// Setup is a configuration as calls meet it; internal/app makes it, as it makes
// that of a worker.
type Setup struct {
	Name    string // in reports
	Config  *config.Config
	Numbers func(breaker.Key) breaker.Settings
	Limits  func(limit.Model) limit.Limits
	Guard   limit.GuardOptions
	Keys    []breaker.Key // of all models
	// Unguarded are the queues whose lines are released while a guard is open.
	Unguarded map[string]bool
}

// Batch is a batch that comes in at a time.
type Batch struct {
	ID       string
	Producer string
	Queue    string
	At       time.Time
	Deadline time.Time // zero: by its queue
	Priority int
	Lines    []Line
}

// Line is a line of a batch. Input and Output are its tokens; 0 of Output: as the
// model answers.
type Line struct {
	Number int64
	Input  int32
	Output int32
}

// Traffic is what a fleet has to do.
type Traffic struct {
	Batches []Batch // by At
	// Workers is how many processes there are, and Slots how many lines each has
	// under way, by queue; a queue without any has those of the configuration.
	Workers int
	Slots   map[string]int
}

// Run is one simulation.
type Run struct {
	Setup   Setup
	Policy  Policy
	Traffic *Traffic
	World   *Model
	Seed    uint64
	// Perfect has every call answered at once when it is allowed: the ideal.
	Perfect bool
	// Done ends the simulation early, with [ErrStopped]; nil: nothing does.
	Done <-chan struct{}
}

// ErrStopped says that a simulation was ended before it was done.
var ErrStopped = errors.New("replay: stopped")

// looks is after how many events a simulation looks whether it is to end.
const looks = 1024

// stopped says whether Done is.
func (r *Run) stopped() bool {
	select {
	case <-r.Done:
		return true
	default:
		return false
	}
}

// horizon is how long after the last batch came a simulation goes on; lines that
// have no end by then are unfinished.
const horizon = 72 * time.Hour

// machine is one simulation under way.
type machine struct {
	*Run
	clock   clock
	running *fiber // in which code runs now
	seed    uint64
	world   world
	tally   *tally
	rand    *rand.Rand
	queues  []*simQueue
	byQueue map[string]*simQueue
	pacer   *limit.Memory
	guard   *limit.GuardMemory
	gate    ladder.Gate
	prober  *ladder.Prober
	doors   doors
	spare   []*fiber // for probes
	fibers  []*fiber // all
	left    int      // lines without an end
	sized   sized
	end     time.Time
}

// Simulate runs one simulation to its end. The same Run gives the same figures.
func Simulate(r Run) (*Figures, error) {
	if len(r.Traffic.Batches) == 0 {
		return nil, errors.New("replay: there is no traffic")
	}
	m := &machine{
		Run: &r, seed: r.Seed, byQueue: map[string]*simQueue{},
		rand: rand.New(rand.NewPCG(r.Seed, 1)), //nolint:gosec // a simulation, repeatable on purpose
	}
	m.tally = newTally(&r, &m.running)
	m.clock.now = r.Traffic.Batches[0].At.UTC().Truncate(time.Second)
	m.end = r.Traffic.Batches[len(r.Traffic.Batches)-1].At.Add(horizon)
	m.world = r.World.world(r.Seed, r.Perfect)
	if err := m.build(); err != nil {
		return nil, err
	}
	defer m.stop()
	m.arrive()
	for n := 0; m.left > 0 && m.clock.now.Before(m.end) && m.clock.step(); n++ {
		if n%looks == 0 && r.stopped() {
			return nil, ErrStopped
		}
	}
	return m.tally.figures(m), nil
}

func (m *machine) now() time.Time { return m.clock.now }

func (m *machine) stop() {
	for _, f := range m.fibers {
		m.running = f // what it is in the middle of goes on to its end, and may want to sleep
		f.stop()
	}
	m.running = nil
}

// build puts the real parts together, on the virtual clock.
func (m *machine) build() error {
	m.pacer = limit.NewMemory(m.Setup.Limits, m.now)
	m.guard = limit.NewGuardMemory(m.Setup.Guard, m.now)
	m.doors = m.Policy.build(m)
	m.gate = ladder.StoreGate{Breakers: m.doors, Pacer: m.pacer, Guard: m.guard}
	cfg := m.Setup.Config
	callers := map[string]ladder.Caller{}
	for key := range cfg.Models {
		callers[key] = &caller{m: m, key: key, hash: textHash(key)}
	}
	var err error
	m.prober, err = ladder.NewProber(ladder.ProberOptions{Models: plainProbes(cfg.Models), Callers: callers, Gate: m.gate, Now: m.now, Observer: m.tally})
	if err != nil {
		return err
	}
	router := ladder.NewRouter(ladder.RouterOptions{Keys: m.Setup.Keys, Now: m.now})
	ladders := map[string]*ladder.Ladder{}
	for name, l := range cfg.Ladders {
		ladders[name], err = ladder.New(ladder.Options{
			Ladder: plain(l), Models: cfg.Models, Providers: cfg.Providers, Callers: callers, Gate: m.gate, Prober: m.prober, Router: router,
			Degrade: cfg.Guard.Over == config.OverDegrade, Sleeper: sleeper{&m.running}, Now: m.now, Rand: m.rand.Float64, Observer: m.tally,
		})
		if err != nil {
			return err
		}
	}
	for _, q := range cfg.Queues {
		m.addQueue(q, ladders[q.Ladder])
	}
	return nil
}

// plain is a ladder without what needs a line's content, which no log has.
func plain(l config.Ladder) config.Ladder {
	l.Output, l.Cache = config.Output{}, 0
	l.Rungs = slices.Clone(l.Rungs)
	for i := range l.Rungs {
		if r := &l.Rungs[i]; r.Model == "" {
			r.Text = "text"
		}
	}
	return l
}

// plainProbes are models that are probed by the short prompt.
func plainProbes(models map[string]config.Model) map[string]config.Model {
	out := map[string]config.Model{}
	for key, m := range models {
		m.Probe = config.Probe{}
		out[key] = m
	}
	return out
}

// newFiber returns an idle fiber of the machine.
func (m *machine) newFiber(worker int) *fiber {
	f := newFiber(&m.clock, &m.running)
	f.worker = worker
	m.fibers = append(m.fibers, f)
	return f
}

// sized is a size that was asked for last: most lines of a batch are alike.
type sized struct {
	in, out int64
	size    ladder.Size
}

func (m *machine) size(in, out int64) ladder.Size {
	if m.sized.in != in || m.sized.out != out {
		m.sized = sized{in, out, ladder.SizeOfTokens(in, out)}
	}
	return m.sized.size
}

// arrive has the batches come in at their times.
func (m *machine) arrive() {
	for i := range m.Traffic.Batches {
		m.left += len(m.Traffic.Batches[i].Lines)
	}
	m.arriveFrom(0)
}

// arriveFrom waits for the next batch alone, so that the heap stays small.
func (m *machine) arriveFrom(i int) {
	if i == len(m.Traffic.Batches) {
		return
	}
	b := &m.Traffic.Batches[i]
	m.clock.at(b.At, func() {
		m.take(i, b)
		m.arriveFrom(i + 1)
	})
}

// take puts a batch into its queue; one whose queue the configuration has not goes
// to the first, as `enqueue batch` without --queue does.
func (m *machine) take(i int, b *Batch) {
	q := m.byQueue[b.Queue]
	if q == nil {
		q = m.queues[0]
		m.tally.strayQueue(b.Queue)
	}
	q.take(i, b)
}

// Validate says what of a run cannot be simulated.
func (t *Traffic) Validate() error {
	for i := range t.Batches {
		if i > 0 && t.Batches[i].At.Before(t.Batches[i-1].At) {
			return fmt.Errorf("replay: batch %s comes before %s, but stands behind it", t.Batches[i].ID, t.Batches[i-1].ID)
		}
	}
	return nil
}
