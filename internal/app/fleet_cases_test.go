package app

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/provider"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(workerEnv); file != "" {
		os.Exit(workerProcess(file))
	}
	goleak.VerifyTestMain(m)
}

// Both models of a ladder are down for 12 s: the breakers keep the calls to a
// few, and no line spends a retry on a door that is known to be shut (also
// cases 24 and 25, with a budget of no retries at all for what comes after).
func TestOutageOfAWholeLadder(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{
		rungs: "{model: a/one}, {model: b/two}", concurrency: 5, retries: 5, cooldown: "2s", maxCooldown: "16s",
	})
	f.up.set(true)
	f.submit("b", 100)
	f.start()
	f.until(30*time.Second, "both breakers are open", func() bool {
		all, err := f.conn.Breakers.List(context.Background(), f.conn.Keys)
		return err == nil && all[0].State != breaker.Closed && all[1].State != breaker.Closed
	})
	time.Sleep(12 * time.Second) // the outage itself
	before, probes := f.up.counts()
	f.up.set(false)
	if before > 40 {
		t.Errorf("%d calls reached the provider during the outage, %d of them probes; want at most 40", before, probes)
	}
	s := f.done("b", 90*time.Second)
	if s.Succeeded != 100 {
		t.Errorf("status: %+v", s)
	}
	f.onceEach("b", 100)
	total, _ := f.up.counts()
	t.Logf("calls in the outage %d (probes %d), in all %d; deferrals %d", before, probes, total, s.Deferrals)
}

// Four processes share one breaker: a 25 s outage with a cooldown of 2 s,
// doubling to 16 s, costs the whole fleet at most five probes.
func TestFourWorkersShareABreaker(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: 5, retries: 20, cooldown: "2s", maxCooldown: "16s"})
	f.up.set(true)
	f.submit("b", 200)
	for range 4 {
		f.start()
	}
	f.until(40*time.Second, "the breaker is open", func() bool {
		all, err := f.conn.Breakers.List(context.Background(), f.conn.Keys)
		return err == nil && all[0].State != breaker.Closed
	})
	time.Sleep(25 * time.Second) // the outage itself
	f.up.set(false)
	s := f.done("b", 120*time.Second)
	total, probes := f.up.counts()
	if probes > 5 || probes < 1 {
		t.Errorf("%d probes left the fleet, want 1 to 5", probes)
	}
	if s.Succeeded != 200 {
		t.Errorf("status: %+v", s)
	}
	f.onceEach("b", 200)
	t.Logf("probes %d, calls in all %d, deferrals %d", probes, total, s.Deferrals)
}

// The keeper's worker is killed with calls in flight: every line ends once, and
// at most the calls in flight at the kill are paid for twice.
func TestCase27_KilledInTheMiddleOfCalls(t *testing.T) {
	t.Parallel()
	const n, slots = 100, 5
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: slots, retries: 0, cooldown: "2s", maxCooldown: "16s"})
	f.up.delay = 200 * time.Millisecond
	f.submit("b", n)
	first := f.start()
	f.until(60*time.Second, "half of the lines are done", func() bool { return f.status("b").Succeeded >= n/2 })
	kill(first)
	f.start()
	s := f.done("b", 240*time.Second)
	if s.Succeeded != n {
		t.Errorf("status: %+v", s)
	}
	f.onceEach("b", n)
	if total, _ := f.up.counts(); total > n+slots {
		t.Errorf("%d calls for %d lines; want at most %d more than lines", total, n, slots)
	}
}

// A worker's process is told to stop with calls in flight that are slow: they finish,
// it ends well within its shutdown timeout, and the rest is for another.
func TestCase28_ToldToStopDuringSlowCalls(t *testing.T) {
	t.Parallel()
	const n, slots = 15, 5
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: slots, retries: 0, cooldown: "2s", maxCooldown: "16s"})
	f.up.delay = 2 * time.Second // of the 5 s that calls may take then
	f.submit("b", n)
	first := f.start()
	f.until(60*time.Second, "the slots are full of calls", func() bool { total, _ := f.up.counts(); return total == slots })
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	s := f.status("b")
	if total, _ := f.up.counts(); s.Succeeded != slots || s.Calls != slots || total != slots {
		t.Errorf("%d calls; status at its end: %+v", total, s)
	}
	f.start()
	s = f.done("b", 60*time.Second)
	if total, _ := f.up.counts(); s.Succeeded != n || s.Calls != n || total != n {
		t.Errorf("%d calls; status: %+v", total, s)
	}
	f.onceEach("b", n)
}

// The first model's answer is denied, and was paid for; the second's breaker is
// open, so that the line waits; its worker is killed meanwhile. The result knows
// of all of it.
func TestCase51_PaidInvalidThenDeferredThenKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{
		rungs: "{model: a/one}, {model: b/two}", output: "deny: [secret], repairs: 1",
		concurrency: 5, retries: 0, cooldown: "2s", maxCooldown: "16s",
	})
	f.up.says = map[string]string{"one": "a secret"}
	b := breaker.Key{Provider: "b", Model: "b/two"}
	if err := f.conn.Breakers.Force(context.Background(), b, breaker.Force{Action: breaker.ForceOpen, For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	f.submit("b", 1)
	first := f.start()
	f.until(60*time.Second, "the line waits for its second model", func() bool {
		s := f.status("b")
		return s.Deferrals == 1 && len(s.WaitingFor) == 1 && s.WaitingFor[0].Model == "b/two"
	})
	kill(first)
	if err := f.conn.Breakers.Force(context.Background(), b, breaker.Force{Action: breaker.ForceClose}); err != nil {
		t.Fatal(err)
	}
	f.start()
	s := f.done("b", 120*time.Second)
	var res batch.Result
	_, err := f.conn.Batches.Results(context.Background(), "b", 0, func(rec batch.Record) error { return json.Unmarshal(rec.JSON, &res) })
	if err != nil {
		t.Fatal(err)
	}
	var kinds []provider.Kind
	var cost provider.USD
	for _, c := range res.Nightshift.Attempts {
		kinds = append(kinds, c.Kind)
		cost += c.Cost
		if skipped := c.Kind == batch.KindSkipped; skipped != (c.Cost == 0) {
			t.Errorf("attempt %+v", c)
		}
	}
	want := []provider.Kind{provider.InvalidOutput, provider.InvalidOutput, batch.KindSkipped, provider.OK}
	n := res.Nightshift
	if !slices.Equal(kinds, want) || n.Model != "b/two" || n.Deferrals != 1 || n.CostUSD != cost || s.CostUSD != cost || s.Calls != 3 || s.Succeeded != 1 {
		t.Errorf("kinds %v, cost %s of %s, status %+v\nresult %+v", kinds, n.CostUSD, cost, s, n)
	}
}

// A worker is killed when it holds tasks that it took and could not begin,
// because what it asks of the batch fails: all run later, once each.
func TestCase43_KilledBetweenDequeueAndBegin(t *testing.T) {
	t.Parallel()
	const n, slots = 20, 5
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: slots, retries: 0, cooldown: "2s", maxCooldown: "16s"})
	f.submit("b", n)
	ctx, rdb := context.Background(), f.conn.Redis.State()
	const leases = "nightshift:{b:b}:lease"
	do := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	do(rdb.Set(ctx, leases, "no leases", 0).Err())
	first := f.start()
	f.until(60*time.Second, "the tasks are taken", func() bool { return rdb.LLen(ctx, "asynq:{q}:active").Val() == slots })
	kill(first)
	if was, err := rdb.GetDel(ctx, leases).Result(); was != "no leases" || err != nil {
		t.Fatalf("a line was begun: %q, %v", was, err)
	}
	f.start()
	if s := f.done("b", 240*time.Second); s.Succeeded != n {
		t.Errorf("status: %+v", s)
	}
	f.onceEach("b", n)
	if total, probes := f.up.counts(); total != n || probes != 0 {
		t.Errorf("%d calls, %d of them probes, for %d lines", total, probes, n)
	}
}
