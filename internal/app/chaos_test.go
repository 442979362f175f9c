package app

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightshift/batch"
	"nightshift/internal/sim"
)

const (
	chaosLines   = 2000
	chaosWorkers = 2
	chaosSlots   = 8
	// chaosUntil is the line by which all that is planned has struck. Of the rest
	// some are held by the dead, and come back a minute later.
	chaosUntil = 1500
	// deadFor is how long the dead hold a line: its lease, and asynq's with the
	// time that asynq allows for clocks, are a minute both.
	deadFor = 61 * time.Second
	// chaosAtOnce is how many fleets are struck at once: more of them would wait for
	// the processors of a small machine, and not for what struck them.
	chaosAtOnce = 4
)

// appendAlways has Redis write and sync before it answers, so that a kill loses
// nothing it has said it took: no call but those in flight may be paid twice. With
// everysec, the second before a power failure may be lost with its records, and
// those lines are called again; that the counts add up holds there as well.
var appendAlways = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Workers are killed, the keeper among them, told to stop and started again, and
// Redis is killed, restarted and frozen, all at random moments of 2,000 lines. While
// a seed waits for the leases of the dead, another takes its turn.
func TestChaos(t *testing.T) {
	t.Parallel()
	turns := make(chan struct{}, chaosAtOnce)
	var all sync.WaitGroup
	for seed := range uint64(10) {
		all.Go(func() { t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { chaosOf(t, seed, turns) }) })
	}
	all.Wait()
}

func chaosOf(t *testing.T, seed uint64, turns chan struct{}) {
	c := struck(t, seed, turns)
	time.Sleep(deadFor) // as the world must wait
	c.start()           // it looks at once for what the dead held
	c.done("b", 2*time.Minute)
	c.invariant()
	c.paidTwice(4 * chaosSlots)
}

// struck waits for its turn, and returns a fleet that all that is planned has struck.
func struck(t *testing.T, seed uint64, turns chan struct{}) *chaos {
	turns <- struct{}{}
	defer func() { <-turns }()
	c := &chaos{rng: rand.New(rand.NewPCG(seed, 1)), workers: make([]*exec.Cmd, chaosWorkers), limited: newLimited(t, limitedOptions{
		concurrency: chaosSlots, behaviour: sim.Behaviour{Latency: sim.Latency{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}},
	}, appendAlways...)}
	c.submit("b", chaosLines)
	for i := range c.workers {
		c.workers[i] = c.start()
	}
	plan := []func(){
		c.killAny, c.killAny, c.killKeeper, c.killKeeper, c.stopAny,
		c.restartRedis, c.restartRedis, c.restartRedis, c.restartRedis, c.freezeRedis,
	}
	c.rng.Shuffle(len(plan), func(i, k int) { plan[i], plan[k] = plan[k], plan[i] })
	moments := make([]int64, len(plan))
	for i := range moments {
		moments[i] = c.rng.Int64N(chaosUntil)
	}
	slices.Sort(moments)
	for i, strike := range plan {
		c.until(3*time.Minute, fmt.Sprintf("%d lines are done", moments[i]), func() bool { return c.succeeded() >= moments[i] })
		strike()
	}
	return c
}

// chaos is a fleet in which things happen.
type chaos struct {
	*limited
	rng     *rand.Rand
	workers []*exec.Cmd
	kills   []time.Time
	most    int64 // lines that were seen done
}

// succeeded is how many lines are done; Redis may be away, then it is what is
// known. It never falls.
func (c *chaos) succeeded() int64 {
	s, err := c.conn.Batches.Status(context.Background(), "b")
	if err != nil {
		return c.most
	}
	if s.Succeeded < c.most {
		c.t.Errorf("%d lines were done, now %d", c.most, s.Succeeded)
	}
	c.most = s.Succeeded
	return c.most
}

func (c *chaos) killAny() { c.kill(c.rng.IntN(len(c.workers))) }

// killKeeper kills the worker that releases lines, where one does.
func (c *chaos) killKeeper() {
	holder := c.conn.Redis.State().HGet(context.Background(), "nightshift:{fleet}:keeper", "holder").Val()
	i := slices.IndexFunc(c.workers, func(w *exec.Cmd) bool { return strings.Contains(holder, fmt.Sprintf("-%d-", w.Process.Pid)) })
	c.kill(max(i, 0))
}

func (c *chaos) kill(i int) {
	kill(c.workers[i])
	c.kills = append(c.kills, time.Now())
	c.workers[i] = c.start()
}

// stopAny tells a worker to stop, as a deployment does.
func (c *chaos) stopAny() {
	i := c.rng.IntN(len(c.workers))
	if err := c.workers[i].Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Error(err)
	}
	c.workers[i] = c.start()
}

func (c *chaos) restartRedis() {
	c.served()
	c.redis.Kill()
	c.moment()
	c.redis.Restart(c.t)
}

func (c *chaos) freezeRedis() {
	c.served()
	c.redis.Freeze(c.t)
	c.moment()
	c.redis.Thaw(c.t)
}

func (c *chaos) moment() { time.Sleep(time.Duration(c.rng.Int64N(int64(time.Second)))) }

// served waits until all workers run: one that starts without a Redis ends, and
// nobody here would start it again.
func (c *chaos) served() {
	c.until(time.Minute, "all workers run", func() bool {
		live, err := c.conn.Fleet.Workers(context.Background())
		running := 0
		for _, h := range live {
			if slices.ContainsFunc(c.workers, func(w *exec.Cmd) bool { return w.Process.Pid == h.PID }) {
				running++
			}
		}
		return err == nil && running == len(c.workers)
	})
}

// invariant is that of a batch that is done: each line has one record, that of its
// own, and of its life nothing is left.
func (c *chaos) invariant() {
	c.t.Helper()
	s := c.status("b")
	if s.Succeeded != chaosLines || s.Outstanding != 0 || s.Calls < chaosLines || s.Calls > c.sim.Counts().Calls {
		c.t.Errorf("status: %+v", s)
	}
	c.ownAnswers("b", chaosLines)
	ctx, rdb := context.Background(), c.conn.Redis.State()
	records, log := rdb.HLen(ctx, "nightshift:{b:b}:rec").Val(), rdb.LLen(ctx, "nightshift:{b:b}:log").Val()
	if records != chaosLines || log != chaosLines {
		c.t.Errorf("%d records, %d of them in the log", records, log)
	}
	for _, life := range []string{"out", "lease", "wait", "prog", "crash"} {
		if n := rdb.HLen(ctx, "nightshift:{b:b}:"+life).Val(); n != 0 {
			c.t.Errorf("%s: %d lines are left", life, n)
		}
	}
}

// paidTwice fails where more calls than those in flight at the kills were made
// twice, or one was though nobody was killed meanwhile.
func (c *chaos) paidTwice(inFlight int) {
	c.t.Helper()
	last, twice := map[string]sim.Call{}, 0
	for _, call := range c.sim.Calls() {
		if before, again := last[call.Digest]; again {
			twice++
			if !slices.ContainsFunc(c.kills, func(k time.Time) bool { return before.At.Before(k.Add(time.Second)) && k.Before(call.At) }) {
				c.t.Errorf("call %d was repeated as %d, and no worker was killed between %s and %s", before.N, call.N, before.At, call.At)
			}
		}
		last[call.Digest] = call
	}
	c.t.Logf("%d calls twice, after %d kills", twice, len(c.kills))
	if len(last) != chaosLines || twice > inFlight {
		c.t.Errorf("%d lines were called, %d twice; at most %d were in flight at the kills", len(last), twice, inFlight)
	}
}

// ownAnswers fails unless every line has one result, and the simulator's to it.
func (l *limited) ownAnswers(id string, n int) {
	l.t.Helper()
	l.recordEach(id, n, func(r batch.Result) bool {
		return r.Response != nil && ownEcho(r)
	})
}

// ownEcho says whether a result is the simulator's to its line.
func ownEcho(r batch.Result) bool {
	return bytes.Contains(r.Response.Body, []byte(`"echo: line `+strings.TrimPrefix(r.CustomID, "c")+`"`))
}
