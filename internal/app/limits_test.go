package app

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/internal/redistest"
	"nightshift/internal/sim"
	"nightshift/limit"
	"nightshift/provider"
)

// limitedConfig has a model of a simulated provider, and what a test adds.
const limitedConfig = `
redis: {url: "%s"}
providers:
  sim: {api: openai, base_url: "%s"}
models:
  sim/a: {price: {input: 1, output: 2}, %s}
ladders:
  night: {rungs: [{model: sim/a, tries: 1}], patience: 10m}
queues:
  q: {ladder: night, concurrency: %d, retries: 5}
guard: {%s}
worker: {shutdown_timeout: 5s}
`

type limitedOptions struct {
	model, guard string // further keys
	concurrency  int
	behaviour    sim.Behaviour
}

// limited is a fleet before the provider simulator.
type limited struct {
	*fleet
	sim *sim.Server
}

func newLimited(t testing.TB, o limitedOptions, redisArgs ...string) *limited {
	l := &limited{fleet: &fleet{t: t, redis: redistest.Start(t, redisArgs...)}, sim: sim.New(sim.Script{Default: o.behaviour}, sim.Options{})}
	if err := l.sim.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.sim.Close() })
	l.connect(l.configure(limitedConfig, l.redis.URL(), l.sim.URL(), o.model, o.concurrency, o.guard))
	return l
}

// by names the producer, who means to submit the same content again.
func by(producer string) func(*batch.Description) {
	return func(d *batch.Description) { d.Producer, d.Again = producer, true }
}

// refused is the share of calls that met a 429.
func (l *limited) refused() float64 {
	c := l.sim.Counts()
	return float64(c.Models["a"].Statuses[429]) / float64(c.Calls)
}

func (l *limited) guards() map[string]limit.GuardStatus {
	l.t.Helper()
	list, err := l.conn.Guard.List(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	all := map[string]limit.GuardStatus{}
	for _, g := range list {
		all[g.Producer] = g
	}
	return all
}

// A limit of 600 a minute that nobody wrote down: the batch is done in about the
// time that the limit takes, with few refusals, by one worker and by several.
func TestAHiddenLimitIsFound(t *testing.T) {
	const lines, rpm, burst = 300, 600, 10
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			l := newLimited(t, limitedOptions{concurrency: 48 / workers, behaviour: sim.Behaviour{
				Latency: sim.Latency{Fixed: 300 * time.Millisecond}, Limit: sim.Limit{RPM: rpm, Burst: burst},
			}})
			for range workers {
				l.start()
			}
			l.until(60*time.Second, "they all serve", func() bool {
				live, err := l.conn.Fleet.Workers(context.Background())
				return err == nil && len(live) == workers
			})
			l.submit("b", lines)
			l.until(20*time.Second, "it has begun", func() bool { return l.sim.Counts().Calls > 0 })
			began := time.Now()
			st := l.done("b", 90*time.Second)
			took, ideal := time.Since(began).Seconds(), float64(lines-burst)*60/rpm+0.3
			t.Logf("%.1f s, %.2f of the ideal time, %.1f%% refused", took, took/ideal, 100*l.refused())
			if st.Succeeded != lines || took > 1.25*ideal || l.refused() > 0.06 {
				t.Errorf("%d of %d lines, %.2f of the ideal time, %.3f refused", st.Succeeded, lines, took/ideal, l.refused())
			}
		})
	}
}

// Exactly as many calls as the hour holds go out for a producer that loops, and
// another's batch runs on; what the guard counted is what the provider saw.
func TestCase35_AProducerThatLoopsCallsAsOftenAsItMay(t *testing.T) {
	l := newLimited(t, limitedOptions{
		concurrency: 20, guard: "calls_per_hour: 100000, producers: {loops: {calls_per_hour: 40}}",
		behaviour: sim.Behaviour{Latency: sim.Latency{Fixed: 20 * time.Millisecond}},
	})
	workers := []*exec.Cmd{l.start(), l.start()}
	for i := range 4 {
		l.submit(fmt.Sprintf("loop%d", i), 60, by("loops"))
	}
	l.submit("other", 400, by("anna"))
	if st := l.done("other", 60*time.Second); st.Succeeded != 400 {
		t.Errorf("the other producer's batch: %+v", st)
	}
	l.until(30*time.Second, "the guard is open", func() bool { return l.guards()["loops"].Open })
	time.Sleep(3 * time.Second) // nothing more may come
	for _, w := range workers { // a call that went without an answer of Redis is counted by then
		l.end(w)
	}
	succeeded := int64(0)
	for i := range 4 {
		succeeded += l.status(fmt.Sprintf("loop%d", i)).Succeeded
	}
	g := l.guards()
	if g["loops"].Calls != 40 || g["anna"].Calls != 400 || succeeded != 40 || l.sim.Counts().Calls != 440 {
		t.Errorf("loops %d calls and %d lines, anna %d; the provider saw %d", g["loops"].Calls, succeeded, g["anna"].Calls, l.sim.Counts().Calls)
	}
	if left := time.Until(g["loops"].Until); left < 58*time.Minute || left > 61*time.Minute {
		t.Errorf("it reopens in %s", left)
	}
	cost := provider.USD(0)
	for i := range 4 {
		cost += l.status(fmt.Sprintf("loop%d", i)).CostUSD
	}
	if provider.USD(g["loops"].USD) != cost || cost == 0 {
		t.Errorf("the guard counts %s USD, the batches cost %s", provider.USD(g["loops"].USD), cost)
	}
}

// A worker that is killed in the middle of its calls: the guard is never below
// what the provider saw, and above it by no more than the calls under way.
func TestTheGuardAfterAKill(t *testing.T) {
	const slots = 10
	l := newLimited(t, limitedOptions{
		concurrency: slots, guard: "calls_per_hour: 100000", behaviour: sim.Behaviour{Latency: sim.Latency{Fixed: 200 * time.Millisecond}},
	})
	victim := l.start()
	l.submit("b", 200)
	l.until(30*time.Second, "calls are under way", func() bool { return l.sim.Counts().Calls > 50 })
	kill(victim)
	seen := l.sim.Counts().Calls
	if n := l.guards()["p"].Calls; n < seen || n > seen+slots {
		t.Errorf("the guard counts %d, the provider saw %d with %d under way at most", n, seen, slots)
	}
}

// A 429 with a Retry-After, in each of its forms: nobody calls the model before.
func TestCase23_NoWorkerCallsBeforeARetryAfter(t *testing.T) {
	const wait = 4 * time.Second
	for _, form := range []sim.RetryAfter{sim.RetrySeconds, sim.RetryDate, sim.RetryMS} {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			l := newLimited(t, limitedOptions{concurrency: 5, behaviour: sim.Behaviour{
				Latency: sim.Latency{Fixed: 20 * time.Millisecond},
				Faults:  []sim.Fault{{Kind: sim.RateLimited, FirstCall: 12, LastCall: 12, RetryAfter: form, RetryIn: wait}},
			}})
			l.start()
			l.start()
			l.submit("b", 60)
			st := l.done("b", 60*time.Second)
			calls := l.sim.Calls()
			ended := calls[11].At.Add(time.Duration(calls[11].MS) * time.Millisecond)
			for _, c := range calls[12:] {
				// What was under way when the refusal came, or a moment after it.
				if since := c.At.Sub(ended); since > 500*time.Millisecond && since < wait-time.Second {
					t.Errorf("call %d came %s after the refusal", c.N, since)
				}
			}
			if st.Succeeded != 60 || st.Calls != 61 {
				t.Errorf("status %+v", st)
			}
		})
	}
}
