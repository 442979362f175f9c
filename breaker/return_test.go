package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// The tests of this file are about what a Fallback tells its Redis when that is
// back; see also fallback_test.go.

// away has the process do something while its Redis is away, and then ask again.
func (l *lone) away(f func()) {
	l.Helper()
	l.cut.broken = true
	f()
	l.cut.broken = false
	l.pass(time.Second)
	_, _ = l.store.Due(l.Context(), l.key.Provider)
}

func (l *lone) wantTold(failures, results int, s State) {
	l.Helper()
	if st := l.redisStatus(); st.Failures != failures || st.Results != results || st.State != s {
		l.Errorf("Redis has %d failures of %d and is %s; want %d of %d, %s", st.Failures, st.Results, st.State, failures, results, s)
	}
}

func TestRedisIsToldOfTheResultsItMissed(t *testing.T) {
	l := alone(t)
	early := l.admit() // by Redis
	l.away(func() {
		l.report(early, Report{Outcome: Failure})
		l.report(early, Report{Outcome: Failure}) // repeated
		l.fails(2)
		l.report(l.admit(), Report{Outcome: Success})
		l.report(l.admit(), Report{Outcome: None})
		l.report(l.admit(), Report{Outcome: Limited})
	})
	l.wantTold(3, 4, Closed)
	l.away(func() {})
	l.wantTold(3, 4, Closed) // once
	l.away(func() { l.report(l.admit(), Report{Outcome: None, Output: InvalidOutput}) })
	if st := l.redisStatus(); st.Judged != 1 || st.Invalid != 1 || st.Results != 4 {
		t.Errorf("an invalid output is told as %+v", st)
	}
	l.away(func() { l.fails(8) })
	l.wantTold(11, 12, Open) // with those that it had
}

func TestRedisIsToldOfNoMoreThanAWindow(t *testing.T) {
	l := alone(t)
	l.settings.Failures = 15
	l.away(func() {
		l.fails(14)
		for range 30 {
			l.report(l.admit(), Report{Outcome: Success})
		}
	})
	l.wantTold(0, 20, Closed)
	if n := len(l.store.(*Fallback).untold.list); n != 0 {
		t.Errorf("%d results are kept", n)
	}
}

func TestOldResultsAreNotTold(t *testing.T) {
	l := alone(t)
	l.away(func() {
		l.fails(5)
		l.pass(5 * time.Minute)
		l.fails(2)
	})
	l.wantTold(2, 2, Closed)
	l.settings.Stale = 10 * time.Second
	l.away(func() {
		l.fails(5)
		l.pass(10 * time.Second)
	})
	l.settings.Stale = 0
	l.wantTold(2, 2, Closed)
}

func TestWhatRecoveredMeanwhileIsNotToldAsDown(t *testing.T) {
	l := alone(t)
	l.away(func() {
		l.trip()
		l.pass(30 * time.Second)
		l.report(l.probe(), Report{Outcome: Success})
		l.fails(3)
	})
	l.wantTold(3, 3, Closed)
	l.admit()
}

func TestAHardConditionFoundAloneIsTold(t *testing.T) {
	l := alone(t)
	l.away(func() {
		l.report(l.admit(), Report{Hard: true, Scope: ScopeParent, Reason: "quota"})
		l.rejected()
	})
	list, err := l.others.List(t.Context(), []Key{l.key.Parent()})
	if err != nil || list[0].State != Open || list[0].Reason != "quota" || list[0].Until.Sub(l.clock()) != 5*time.Minute {
		t.Errorf("Redis has %+v, %v", list, err)
	}
}

func TestARetryAfterIsToldByWhatIsLeft(t *testing.T) {
	l := alone(t)
	l.away(func() {
		l.report(l.admit(), Report{Outcome: Failure, RetryAfter: 2 * time.Minute})
		l.fails(10)
		l.pass(19 * time.Second)
	})
	if left := l.redisStatus().Until.Sub(l.clock()); left != 100*time.Second {
		t.Errorf("open for %s", left)
	}
}

// An operator holds the breaker closed in Redis, so that telling does not open
// it: what this process found keeps the cooldown here.
func TestWhatRedisDoesNotBelieveKeepsItsCooldown(t *testing.T) {
	l := alone(t)
	if err := l.others.Force(t.Context(), l.key, Force{Action: ForceClose, For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	l.away(l.fails11)
	l.wantTold(11, 11, Closed)
	l.wantWait(69 * time.Second)
	l.away(func() {}) // and Redis that goes and comes changes nothing
	l.wantWait(68 * time.Second)
	l.pass(28 * time.Second)
	l.admit()
}

func (l *lone) fails11() { l.fails(11) }

func TestWhatRedisKnowsEndsWithIt(t *testing.T) {
	l := alone(t)
	l.away(l.fails11)
	l.rejected() // by Redis
	if err := l.others.Force(t.Context(), l.key, Force{Action: ForceClose}); err != nil {
		t.Fatal(err)
	}
	l.admit()
}

// lossy loses the reply of every second report.
type lossy struct {
	Store
	n int
}

func (l *lossy) Report(ctx context.Context, t Ticket, r Report) error {
	err := l.Store.Report(ctx, t, r)
	if l.n++; err == nil && l.n%2 == 1 {
		err = errors.New("connection reset")
	}
	return err
}

func TestAToldResultWhoseReplyIsLostCountsOnce(t *testing.T) {
	l := alone(t)
	l.cut.broken = true
	l.fails(5)
	l.cut.broken = false
	l.cut.Store = &lossy{Store: l.cut.Store}
	for range 12 {
		l.pass(time.Second)
		_, _ = l.store.Due(t.Context(), l.key.Provider)
	}
	l.wantTold(5, 5, Closed)
	if l.store.(*Fallback).Away() {
		t.Error("still away")
	}
}

// crew is a fleet of processes on one Redis that can be cut off from all.
type crew struct {
	*bundle
	redis   *Redis
	workers []*Fallback
	cuts    []*cut
	calls   int // by tasks, not probes
	probes  int
	down    bool // the provider
	pace    time.Duration
}

func newCrew(t *testing.T, n int) *crew {
	c := &crew{down: true, pace: 100 * time.Millisecond, bundle: &bundle{
		T: t, settings: Settings{}.WithDefaults(), now: time.UnixMilli(1_750_000_000_000),
		key: Key{Provider: "openai", Model: "openai/gpt-4o"},
	}}
	c.redis = c.onRedis(redistest.Client(t))
	for range n {
		x := &cut{Store: c.redis}
		c.cuts = append(c.cuts, x)
		c.workers = append(c.workers, NewFallback(x, NewMemory(c.settingsOf, c.clock), FallbackOptions{}))
	}
	return c
}

func (c *crew) cutOff(yes bool) {
	for _, x := range c.cuts {
		x.broken = yes
	}
}

// live has every worker call as often as it may for a while, once a pace, and
// probe once a second, as watchers do. Each call takes a pace, so that all
// workers are in flight at once.
func (c *crew) live(d time.Duration) {
	for spent := time.Duration(0); spent < d; spent += c.pace {
		var tickets []Ticket
		var of []*Fallback
		for _, w := range c.workers {
			if t, err := w.Admit(c.Context(), c.key); err == nil {
				tickets, of = append(tickets, t), append(of, w)
				c.calls++
			}
			if spent%time.Second == 0 {
				c.probe(w)
			}
		}
		c.pass(c.pace)
		for i, t := range tickets {
			c.end(of[i], t)
		}
	}
}

func (c *crew) probe(w *Fallback) {
	due, _ := w.Due(c.Context(), c.key.Provider)
	for _, k := range due {
		if t, err := w.AdmitProbe(c.Context(), k); err == nil {
			c.probes++
			c.end(w, t)
		}
	}
}

func (c *crew) end(w *Fallback, t Ticket) {
	o := Success
	if c.down {
		o = Failure
	}
	_ = w.Report(c.Context(), t, Report{Outcome: o, Reason: "status 503"})
}

// take returns and forgets the counts.
func (c *crew) take() (calls, probes int) {
	calls, probes = c.calls, c.probes
	c.calls, c.probes = 0, 0
	return calls, probes
}

func TestEightWorkersWhoseRedisComesBackInAnOutage(t *testing.T) {
	c := newCrew(t, 8)
	c.down = false
	c.live(10 * time.Second)
	c.down = true
	c.cutOff(true)
	c.take()
	c.live(20 * time.Second)
	calls, probes := c.take()
	t.Logf("20 s without Redis: %d calls, %d probes", calls, probes)
	if calls != 8*11 {
		t.Errorf("%d calls while each worker was alone, want 11 each", calls)
	}
	c.cutOff(false)
	c.live(10 * time.Second)
	calls, probes = c.take()
	t.Logf("the first 10 s after it is back: %d calls, %d probes", calls, probes)
	if calls+probes > 1 {
		t.Errorf("%d calls and %d probes in the first seconds", calls, probes)
	}
	c.pace = time.Second
	c.live(5 * time.Minute)
	calls, probes = c.take()
	t.Logf("5 minutes on: %d calls, %d probes", calls, probes)
	if calls > 0 || probes > 5 {
		t.Errorf("%d calls, %d probes in five minutes", calls, probes)
	}
	c.down = false
	c.live(5*time.Minute + 2*time.Second)
	for i, w := range c.workers {
		if _, err := w.Admit(t.Context(), c.key); err != nil {
			t.Errorf("worker %d after the recovery: %v", i, err)
		}
	}
}

// Each worker alone has seen too little to open: what they missed adds up.
func TestTheFleetsFailuresAddUpWhenRedisIsBack(t *testing.T) {
	c := newCrew(t, 8)
	c.cutOff(true)
	c.live(300 * time.Millisecond)
	c.cutOff(false)
	c.pass(time.Second)
	c.take()
	c.live(5 * time.Second)
	if calls, _ := c.take(); calls > 8 {
		t.Errorf("%d calls after 24 failures of the fleet", calls)
	}
	if st := c.redisStatus(); st.State != Open {
		t.Errorf("Redis has %+v", st)
	}
}

func (c *crew) redisStatus() Status {
	list, err := c.redis.List(c.Context(), []Key{c.key})
	if err != nil {
		c.Fatal(err)
	}
	return list[0]
}

// Redis comes and goes every 2 s through an outage of ten minutes.
func TestAFlappingRedisResetsNothing(t *testing.T) {
	c := newCrew(t, 8)
	c.pace = 200 * time.Millisecond
	var total [2]int
	for i := range 150 {
		c.cutOff(i%2 == 0)
		c.live(2 * time.Second)
		calls, probes := c.take()
		total[0] += calls
		total[1] += probes
		if i > 1 && calls > 0 {
			t.Errorf("%d calls in spell %d", calls, i)
		}
		for _, tr := range c.redisStatus().Transitions {
			if tr.To == Closed {
				t.Fatalf("Redis closed in spell %d: %+v", i, tr)
			}
		}
	}
	t.Logf("ten minutes: %d calls, %d probes", total[0], total[1])
	if total[0] > 8*11 || total[1] > 8*5 {
		t.Errorf("%d calls and %d probes", total[0], total[1])
	}
	c.down = false
	c.cutOff(false)
	c.live(5*time.Minute + 2*time.Second)
	if st := c.redisStatus(); st.State != Closed {
		t.Errorf("after the recovery: %+v", st)
	}
}

// The race detector looks on while Redis comes and goes.
func TestManyCallsWhileRedisComesAndGoes(t *testing.T) {
	key := func(i int) Key { return Key{Provider: "p", Model: fmt.Sprint("p/", i%3)} }
	settings := func(Key) Settings { return Settings{Cooldown: 20 * time.Millisecond, MaxCooldown: time.Second} }
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer rdb.Close()
	f := NewFallback(NewRedis(rdb, settings), NewMemory(settings, nil), FallbackOptions{Timeout: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
				if tk, err := f.Admit(ctx, key(i)); err == nil {
					_ = f.Report(ctx, tk, Report{Outcome: []Outcome{Failure, Success}[i%2]})
				}
				_, _ = f.AdmitProbe(ctx, key(i))
			}
		})
	}
	changes := 0
	for away := true; changes < 6; changes++ {
		if away {
			server.Freeze(t)
		} else {
			server.Thaw(t)
		}
		for deadline := time.Now().Add(20 * time.Second); f.Away() != away; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("change %d was not noticed", changes)
			}
		}
		away = !away
	}
	cancel()
	wg.Wait()
}
