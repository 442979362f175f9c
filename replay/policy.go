package replay

import (
	"context"
	"slices"
	"strings"
	"time"

	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/limit"
)

// Policy says when calls to a model stop and start again. The queue around it, the
// ladder and the limits are the same under every policy.
type Policy struct {
	Name  string
	About string
	// Retries of a line, in place of the queue's; below 0: the queue's.
	Retries int
	build   func(m *machine) doors
}

// doors are the breakers of a policy.
type doors interface {
	ladder.Breakers
	// opened says whether one of the models can be called again.
	opened(models []string) bool
}

func (p *Policy) retries(configured int) int {
	if p.Retries < 0 {
		return configured
	}
	return p.Retries
}

// The numbers of the policies to compare with: what such breakers are set to in
// their libraries' examples or by default.
const (
	classicCooldown = 30 * time.Second
	ttlCooldown     = 30 * time.Second
)

// Ours is the policy of the configuration.
const Ours = "nightshift"

// Policies are all of them, ours last.
func Policies() []Policy {
	classic := func(name, about string, r rule) Policy {
		return Policy{Name: name, About: about, Retries: -1, build: func(m *machine) doors { return newClassic(m, r) }}
	}
	return []Policy{
		{Name: "none", About: "no breaker; three retries, blind", Retries: 3, build: func(m *machine) doors { return noDoors{} }},
		classic("consecutive", "3 failures in a row, 30 s, one trial", rule{trips: consecutive(3), cooldown: classicCooldown, trials: 1, needed: 1}),
		classic("time-window", "50% of at least 20 calls in 10 s, 30 s, one trial", rule{trips: inTime(10*time.Second, 20, .5), cooldown: classicCooldown, trials: 1, needed: 1}),
		classic("ratio-3-probes", "50% of the last 20 calls, 30 s, two of three trials", rule{trips: ofLast(20, .5), cooldown: classicCooldown, trials: 3, needed: 2}),
		classic("ttl-cooldown", "3 failures in a minute, 30 s, then everybody again", rule{trips: inTime(time.Minute, 3, 0), cooldown: ttlCooldown}),
		{Name: "per-worker", About: "as ours, but each worker for itself", Retries: -1, build: newApart},
		{Name: Ours, About: "the breakers of the configuration, shared by the fleet", Retries: -1, build: newShared},
	}
}

// PickPolicies returns the policies that a list names: names and commas, or all.
// What it has not is returned as unknown.
func PickPolicies(list string) (some []Policy, unknown []string) {
	all := Policies()
	if list == "all" {
		return all, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(p Policy) bool { return p.Name == strings.TrimSpace(name) })
		if i < 0 {
			unknown = append(unknown, strings.TrimSpace(name))
			continue
		}
		if slices.ContainsFunc(some, func(p Policy) bool { return p.Name == all[i].Name }) {
			continue
		}
		some = append(some, all[i])
	}
	return some, unknown
}

// noDoors let everything through.
type noDoors struct{}

func (noDoors) Admit(_ context.Context, key breaker.Key, _ ...breaker.AdmitOption) (breaker.Ticket, error) {
	return breaker.Ticket{Key: key, ID: 1}, nil
}
func (noDoors) Report(context.Context, breaker.Ticket, breaker.Report) error { return nil }
func (noDoors) Release(context.Context, breaker.Ticket) error                { return nil }
func (noDoors) opened([]string) bool                                         { return true }

// shared is our own breaker: the memory store, which runs the same steps as the
// script in Redis, and a watcher's look once a second.
type shared struct {
	*breaker.Memory
	m         *machine
	worker    int // whose probes it sends
	place     int // of its states: the worker, or everywhere
	every     time.Duration
	keys      map[string]breaker.Key
	providers []string
	levels    []breaker.Key // of all models, and their parents
	shut      int           // levels that are not closed
	watch     watch
}

// watch is when a watcher looks next. One of a process looks once a second; here,
// looks that could find nothing are left out.
type watch struct {
	at   time.Time // zero: none is to come
	seq  int
	idle bool // a cooldown is over, and nothing waited for the model: the next rejection makes it due
}

func newShared(m *machine) doors {
	// The first of all workers that looks finds what is due.
	return newOwn(m, 0, everywhere, max(time.Second/time.Duration(max(m.Traffic.Workers, 1)), 100*time.Millisecond))
}

func newOwn(m *machine, worker, place int, every time.Duration) *shared {
	s := &shared{m: m, worker: worker, place: place, every: every, keys: map[string]breaker.Key{}}
	for _, k := range m.Setup.Keys {
		s.keys[k.Model] = k
		if !slices.Contains(s.providers, k.Provider) {
			s.providers = append(s.providers, k.Provider)
		}
	}
	slices.Sort(s.providers)
	s.levels = slices.Concat(m.Setup.Keys, breaker.Parents(m.Setup.Keys))
	s.Memory = breaker.NewMemory(m.Setup.Numbers, m.now, breaker.OnTransition(s.changed))
	return s
}

// changed follows a transition, as internal/app does.
func (s *shared) changed(t breaker.Transition) {
	s.m.tally.changed(s.place, t.Key, t.From, t.To, s.m.clock.now)
	switch {
	case t.From == breaker.Closed:
		s.shut++
	case t.To == breaker.Closed:
		s.shut--
		for _, k := range s.m.Setup.Keys {
			if k == t.Key || k.Parent() == t.Key {
				_ = s.m.pacer.Restart(context.Background(), limit.Model{Provider: k.Provider, Model: k.Model}) // memory never fails
			}
		}
		s.m.closed(t.Key)
	}
	s.lookAt(s.m.clock.now)
}

// Admit implements ladder.Breakers.
func (s *shared) Admit(ctx context.Context, key breaker.Key, o ...breaker.AdmitOption) (breaker.Ticket, error) {
	t, err := s.Memory.Admit(ctx, key, o...)
	if err != nil && s.watch.idle {
		s.lookAt(s.m.clock.now)
	}
	return t, err
}

// lookAt has the watcher look when it next does after t.
func (s *shared) lookAt(t time.Time) {
	t = t.Truncate(s.every).Add(s.every)
	if s.shut == 0 || !s.watch.at.IsZero() && !s.watch.at.After(t) {
		return
	}
	s.watch.seq++
	s.watch.at = t
	seq := s.watch.seq
	s.m.clock.at(t, func() {
		if seq == s.watch.seq {
			s.watch.at = time.Time{}
			s.lookAround()
		}
	})
}

// lookAround begins what is due, and notes when something can be due next.
func (s *shared) lookAround() {
	for _, p := range s.providers {
		for s.look(p) { //nolint:revive // a lease was got: another may be free
		}
	}
	now := s.m.clock.now
	s.watch.idle = false
	all, _ := s.List(context.Background(), s.levels) // memory never fails
	for _, l := range all {
		switch {
		case l.State == breaker.Open && l.Until.After(now):
			s.lookAt(l.Until.Add(-time.Millisecond)) // a look just then finds it
		case l.State == breaker.Open:
			s.watch.idle = true
		case l.State == breaker.HalfOpen:
			s.lookAt(now)
		}
	}
}

// look begins the probes of a provider that are due, and says whether it got a lease.
func (s *shared) look(name string) (lent bool) {
	due, _ := s.Due(context.Background(), name) // memory never fails
	slices.SortFunc(due, func(a, b breaker.Key) int { return strings.Compare(a.Model, b.Model) })
	for _, key := range due {
		t, err := s.AdmitProbe(context.Background(), key)
		if err != nil {
			continue
		}
		lent = true
		s.probe(t)
	}
	return lent
}

// probe sends the probe of a ticket.
func (s *shared) probe(t breaker.Ticket) {
	m := s.m
	if len(m.spare) == 0 {
		m.spare = append(m.spare, m.newFiber(s.worker))
	}
	f := m.spare[len(m.spare)-1]
	m.spare = m.spare[:len(m.spare)-1]
	f.worker = s.worker
	var rep breaker.Report
	f.run(func() { rep = m.prober.Probe(context.Background(), t) }, func() {
		_ = s.Report(context.Background(), t, rep) // memory never fails
		m.spare = append(m.spare, f)
	})
}

// opened implements doors.
func (s *shared) opened(models []string) bool {
	for _, name := range models {
		k := s.keys[name]
		all, _ := s.List(context.Background(), []breaker.Key{k, k.Parent()}) // memory never fails
		if all[0].State == breaker.Closed && all[1].State == breaker.Closed {
			return true
		}
	}
	return false
}

// apart is one breaker for each worker, which knows its own calls alone.
type apart struct {
	m   *machine
	own []*shared
}

func newApart(m *machine) doors {
	a := &apart{m: m}
	for w := range max(m.Traffic.Workers, 1) {
		a.own = append(a.own, newOwn(m, w, w, time.Second))
	}
	return a
}

// here is that of the worker whose code runs.
func (a *apart) here() *shared { return a.own[a.m.running.worker] }

func (a *apart) Admit(ctx context.Context, key breaker.Key, o ...breaker.AdmitOption) (breaker.Ticket, error) {
	return a.here().Admit(ctx, key, o...)
}

// Report implements ladder.Breakers.
func (a *apart) Report(ctx context.Context, t breaker.Ticket, r breaker.Report) error {
	return a.here().Report(ctx, t, r)
}

// Release implements ladder.Breakers.
func (a *apart) Release(ctx context.Context, t breaker.Ticket) error { return a.here().Release(ctx, t) }

func (a *apart) opened(models []string) bool {
	return slices.ContainsFunc(a.own, func(s *shared) bool { return s.opened(models) })
}
