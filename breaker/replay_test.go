package breaker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// This file runs many goroutines against a real Redis in real time and then
// replays what they did through Step, in the order in which Redis did it.

const (
	replayWorkers = 64
	replayOps     = 24_000
	replayLog     = "replay:log" // "<number of the operation> <ms>" each, in Redis's order
)

// logged has a script note the operation's number, its last argument, and the
// time that it used, in the same step. The scripts themselves stay as they are.
func logged(s scripts) scripts {
	const before = `
if not ARGV[0] then -- an admission has two beginnings
  ARGV[0] = table.remove(ARGV)
  local t = redis.call('TIME')
  ARGV[1] = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
  redis.call('RPUSH', '` + replayLog + `', ARGV[0] .. ' ' .. ARGV[1])
end
`
	s.closed, s.record = before+s.closed, before+s.record
	return s
}

// numbered hands the number of the context's operation to the scripts.
type numbered struct{ redis.UniversalClient }

type numberKey struct{}

func (c numbered) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return c.UniversalClient.EvalSha(ctx, sha, keys, append(args, ctx.Value(numberKey{}))...)
}

func (c numbered) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.UniversalClient.Eval(ctx, script, keys, append(args, ctx.Value(numberKey{}))...)
}

// done is one operation with the script's reply.
type done struct {
	key   Key
	op    Op
	reply Reply
}

// mob is the goroutines' work on a few models of one provider.
type mob struct {
	*testing.T
	store *Redis
	keys  []Key
	unit  time.Duration // what the test's times are counted in
	next  atomic.Int64
	all   []done // by number; each goroutine writes its own
}

// do runs an operation under the next number; 0 is none left.
func (m *mob) do(key Key, op Op) (Reply, bool) {
	n := m.next.Add(1) - 1
	if n >= replayOps {
		return Reply{}, false
	}
	op.Model = key.Model
	r, err := m.store.do(context.WithValue(m.Context(), numberKey{}, n), key, &op)
	if err != nil {
		m.Errorf("operation %d %+v: %v", n, op, err)
		return Reply{}, false
	}
	m.all[n] = done{key, op, r}
	return r, true
}

// work calls and probes until the numbers are used up: now and then it dies with
// a probe, reports late or twice, or does an operator's work.
func (m *mob) work(rng *rand.Rand) {
	var late []Ticket
	for {
		key := m.keys[rng.IntN(len(m.keys))]
		op := Op{Kind: OpAdmit, ID: newID(), NoProbe: rng.IntN(4) == 0}
		switch n := rng.IntN(100); {
		case n < 1:
			op = Op{Kind: OpForce, Scope: []Scope{ScopeModel, ScopeParent}[n%2], Force: m.someForce(rng)}
		case n < 30:
			op.Kind, op.NoProbe = OpAdmitProbe, false
		}
		r, ok := m.do(key, op)
		if !ok {
			return
		}
		if r.Code == Granted {
			late = m.end(rng, r.ticket(key, op.ID), late)
		} else if rng.IntN(2) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func (m *mob) someForce(rng *rand.Rand) Force {
	f := Force{Action: []Action{ForceOpen, ForceClose, ForceReset}[rng.IntN(3)], By: "test"}
	if f.Action != ForceReset {
		f.For = time.Duration(rng.IntN(50)+1) * m.unit
	}
	return f
}

// end reports a ticket, or keeps it for later, or lets it die.
func (m *mob) end(rng *rand.Rand, t Ticket, late []Ticket) []Ticket {
	switch n := rng.IntN(10); {
	case t.Probe && n < 3: // the prober dies
		return late
	case n < 5:
		late = append(late, t)
	case n == 5:
		m.do(t.Key, t.ended(OpRelease, Report{}))
	default:
		time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
		m.do(t.Key, t.ended(OpReport, m.someReport(rng)))
	}
	if len(late) > 3 {
		old := late[0]
		late = late[1:]
		for range 1 + rng.IntN(2) {
			m.do(old.Key, old.ended(OpReport, m.someReport(rng)))
		}
	}
	return late
}

func (m *mob) someReport(rng *rand.Rand) Report {
	r := Report{
		Outcome: []Outcome{Failure, Failure, Failure, Success, Success, Success, Limited, None}[rng.IntN(8)],
		Reason:  "status " + strconv.Itoa(500+rng.IntN(4)),
	}
	switch rng.IntN(80) {
	case 0:
		r.Hard, r.Scope = true, []Scope{ScopeModel, ScopeParent}[rng.IntN(2)]
	case 1:
		r.RetryAfter = time.Duration(rng.IntN(60)) * m.unit
	case 2:
		r.Unfit = true
	}
	return r
}

// crowdedTrip is how long an operation takes beside as many others as the test
// has goroutines: the longest mean of any of them.
func crowdedTrip(t *testing.T, rdb *redis.Client) time.Duration {
	const trips = 50
	store := newRedis(rdb, Levels{}.of, embedded(), nil)
	var longest atomic.Int64
	var wg sync.WaitGroup
	for i := range replayWorkers {
		wg.Go(func() {
			key := Key{Provider: "measure", Model: fmt.Sprint("measure/", i%5)}
			began := time.Now()
			for range trips {
				if _, err := store.do(t.Context(), key, &Op{Kind: OpAdmit, Model: key.Model, ID: newID()}); err != nil {
					t.Error(err)
				}
			}
			mean := int64(time.Since(began) / trips)
			for was := longest.Load(); mean > was && !longest.CompareAndSwap(was, mean); was = longest.Load() {
			}
		})
	}
	wg.Wait()
	return time.Duration(longest.Load())
}

// replayNumbers are times of which a lease outlasts the few trips of a probe and
// a cooldown does not, however slow the machine is.
func replayNumbers(unit time.Duration) Levels {
	return Levels{
		Model: Settings{
			Window: 10, Failures: 5, Cooldown: 3 * unit, MaxCooldown: 20 * unit,
			ProbeLease: 15 * unit, Probes: 2, ProbeSuccesses: 2,
		}.WithDefaults(),
		Parent: Settings{
			Window: 30, Failures: 18, Cooldown: 2 * unit, MaxCooldown: 10 * unit, ProbeLease: 10 * unit,
		}.WithDefaults(),
	}
}

func TestSixtyFourGoroutinesReplayInTheOrderOfRedis(t *testing.T) {
	rdb := redistest.Client(t)
	trip := crowdedTrip(t, rdb)
	t.Logf("a round trip takes %s", trip)
	m := &mob{T: t, all: make([]done, replayOps), unit: max(trip/2, time.Millisecond)}
	numbers := replayNumbers(m.unit)
	m.store = newRedis(numbered{rdb}, numbers.of, logged(embedded()), nil)
	for i := range 5 {
		m.keys = append(m.keys, Key{Provider: "p", Model: fmt.Sprint("p/", i), Region: "eu"})
	}
	var wg sync.WaitGroup
	for i := range replayWorkers {
		wg.Go(func() { m.work(rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	wg.Wait()
	if !t.Failed() {
		m.replay(rdb, numbers)
	}
}

// replay runs the operations through Step and compares every reply, and the
// records at the end.
func (m *mob) replay(rdb *redis.Client, s Levels) {
	order, err := rdb.LRange(m.Context(), replayLog, 0, -1).Result()
	if err != nil || len(order) != replayOps {
		m.Fatalf("Redis noted %d operations of %d (%v)", len(order), replayOps, err)
	}
	models, parent := map[Key]Record{}, Record{}
	count := map[string]int{}
	for i, line := range order {
		number, at, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(number)
		now, err2 := strconv.ParseInt(at, 10, 64)
		if err != nil || err2 != nil {
			m.Fatalf("Redis noted %q", line)
		}
		d := m.all[n]
		before := Pair{Model: models[d.key], Parent: parent}
		after, want := Step(before, d.op, now, s)
		if want != d.reply {
			m.Fatalf("operation %d of Redis's order, %+v: replies differ (-step +script):\n%s", i, d.op, cmp.Diff(want, d.reply))
		}
		if err := checkStep(before, after, d.op, want, now, s); err != nil {
			m.Fatalf("operation %d: %v", i, err)
		}
		models[d.key], parent = after.Model, after.Parent
		tally(count, want)
	}
	m.sameAtTheEnd(models, parent)
	m.Logf("%d operations by %d goroutines: %v", len(order), replayWorkers, count)
	for _, what := range []string{"probes of model", "probes of parent", "rejected", "not due", "counted", "ignored", "changes of model", "changes of parent"} {
		if count[what] < 20 {
			m.Errorf("only %d %s", count[what], what)
		}
	}
}

func tally(count map[string]int, r Reply) {
	count[[]string{"", "granted", "rejected", "not due", "counted", "ignored"}[r.Code]]++
	if r.Code == Granted && r.Scope != "" {
		count["probes of "+string(r.Scope)]++
	}
	if r.Change.From != "" {
		count["changes of model"]++
	}
	if r.ParentChange.From != "" {
		count["changes of parent"]++
	}
}

func (m *mob) sameAtTheEnd(models map[Key]Record, parent Record) {
	models[m.keys[0].Parent()] = parent
	for k, want := range models {
		got, err := decodeRecord(m.store.rdb.HGetAll(m.Context(), breakerKey(k)).Val())
		if err != nil || !equal(want, got) {
			m.Errorf("the record of %s differs (%v) (-step +script):\n%s", k, err, cmp.Diff(want, got, cmpopts.EquateEmpty()))
		}
	}
}
