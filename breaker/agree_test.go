package breaker

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"nightshift/internal/redistest"
)

// A trial is a random life of one breaker as plain data, so that the same trial
// can be run against the script as it is and against broken ones.
type trial struct {
	Settings []Settings // one is in force, a step may choose another
	Steps    []step
}

type step struct {
	Do     string
	Pick   int // of the tickets so far, or of the settings
	Report Report
	Later  time.Duration // the clock's step before the operation, may be negative
}

// genReport draws an outcome, now and then with a Retry-After or hard.
func genReport(t *rapid.T) Report {
	return Report{
		Outcome: rapid.SampledFrom([]Outcome{
			Failure, Failure, Failure, Failure, Success, Success, None, Limited,
		}).Draw(t, "outcome"),
		Hard:   rapid.IntRange(0, 30).Draw(t, "hard") == 30,
		Reason: rapid.SampledFrom([]string{"", "status 503", "line\nbreak", "späte Antwort"}).Draw(t, "reason"),
		RetryAfter: rapid.SampledFrom([]time.Duration{
			0, 0, 0, -time.Second, time.Microsecond, time.Second, 20 * time.Second, 72 * time.Hour, 1 << 62,
		}).Draw(t, "retry after"),
	}
}

func genStep(t *rapid.T) step {
	return step{
		Do: rapid.SampledFrom([]string{
			"call", "call", "call", "call", "admit", "admit", "admit again", "probe", "probe", "probe", "probe again",
			"report", "report", "report last", "report last", "report probe", "report probe", "report probe", "report old",
			"release", "due", "list", "settings", "lose",
		}).Draw(t, "do"),
		Pick:   rapid.IntRange(0, 1000).Draw(t, "pick"),
		Report: genReport(t),
		Later: rapid.OneOf(
			rapid.SampledFrom([]time.Duration{
				0, 0, 0, time.Millisecond, 30 * time.Second, time.Minute, 5 * time.Minute, 20 * time.Minute, 2 * time.Hour,
				-time.Second, -time.Hour, -48 * time.Hour, 365 * 24 * time.Hour,
			}),
			rapid.Map(rapid.IntRange(0, 40_000), func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }),
		).Draw(t, "later"),
	}
}

func genSettings(t *rapid.T) Settings {
	s := Settings{
		Window:   rapid.SampledFrom([]int{1, 2, 3, 5, 20}).Draw(t, "window"),
		Stale:    rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Minute}).Draw(t, "stale"),
		Cooldown: rapid.SampledFrom([]time.Duration{time.Millisecond, 7 * time.Second, 30 * time.Second}).Draw(t, "cooldown"),
		ProbeLease: rapid.SampledFrom([]time.Duration{
			time.Millisecond, 5 * time.Second, 40 * time.Second,
		}).Draw(t, "lease"),
	}
	s.MaxCooldown = s.Cooldown * time.Duration(rapid.SampledFrom([]int{1, 3, 10}).Draw(t, "max"))
	s.Failures = rapid.IntRange(1, min(s.Window, 4)).Draw(t, "failures")
	s.MinResults = rapid.IntRange(0, s.Window).Draw(t, "min results")
	return s
}

var genTrial = rapid.Custom(func(t *rapid.T) trial {
	return trial{
		Settings: rapid.SliceOfN(rapid.Custom(genSettings), 1, 3).Draw(t, "settings"),
		Steps:    rapid.SliceOfN(rapid.Custom(genStep), 20, 120).Draw(t, "steps"),
	}
})

// pair runs a trial on Step and on the scripts side by side.
type pair struct {
	store    *Redis
	key      Key
	settings Settings
	now      int64
	rec      Record
	lastID   uint64
	tickets  []Ticket
	probes   []Ticket
}

// runTrial returns the first disagreement.
func runTrial(store *Redis, tr trial) error {
	p := &pair{
		store: store, settings: tr.Settings[0], now: 1_750_000_000_000,
		key: Key{Provider: "p-1", Model: "p-1/m:" + strconv.FormatUint(newID(), 36), Region: "east us"},
	}
	store.settings = func(Key) Settings { return p.settings }
	store.now = func() string { return strconv.FormatInt(p.now, 10) }
	for i, st := range tr.Steps {
		p.now += st.Later.Milliseconds()
		if err := p.run(st, tr.Settings); err != nil {
			return fmt.Errorf("step %d %+v: %w", i, st, err)
		}
	}
	return nil
}

func (p *pair) run(st step, settings []Settings) error {
	switch st.Do {
	case "call": // admit and report at once, so that most breakers live
		if err := p.admit(Op{Kind: OpAdmit, ID: p.nextID()}); err != nil {
			return err
		}
		return p.end(OpReport, p.tickets, len(p.tickets)-1, st.Report)
	case "admit":
		return p.admit(Op{Kind: OpAdmit, ID: p.nextID()})
	case "admit again":
		return p.admit(Op{Kind: OpAdmit, ID: max(p.lastID, 1)})
	case "probe":
		return p.admit(Op{Kind: OpAdmitProbe, ID: p.nextID()})
	case "probe again":
		return p.admit(Op{Kind: OpAdmitProbe, ID: max(p.lastID, 1)})
	case "report":
		return p.end(OpReport, p.tickets, st.Pick, st.Report)
	case "report last":
		return p.end(OpReport, p.tickets, len(p.tickets)-1, st.Report)
	case "report probe":
		return p.end(OpReport, p.probes, len(p.probes)-1, st.Report)
	case "report old":
		return p.end(OpReport, p.probes, st.Pick, st.Report)
	case "release":
		return p.end(OpRelease, p.probes, len(p.probes)-1-st.Pick%2, Report{})
	case "due":
		return p.due()
	case "list":
		return p.list()
	case "settings":
		p.settings = settings[st.Pick%len(settings)]
	case "lose":
		if st.Pick%4 == 0 {
			p.rec = Record{}
			return p.store.rdb.Del(context.Background(), breakerKey(p.key)).Err()
		}
	}
	return nil
}

func (p *pair) nextID() uint64 {
	p.lastID++
	return p.lastID
}

func (p *pair) admit(op Op) error {
	reply, err := p.apply(op)
	if err == nil && reply.Code == Granted {
		t := reply.ticket(p.key, op.ID, op.Kind == OpAdmitProbe)
		p.tickets = append(p.tickets, t)
		if t.Probe {
			p.probes = append(p.probes, t)
		}
	}
	return err
}

func (p *pair) end(kind OpKind, tickets []Ticket, pick int, rep Report) error {
	if len(tickets) == 0 {
		return nil
	}
	t := tickets[max(pick, 0)%len(tickets)]
	_, err := p.apply(Op{Kind: kind, ID: t.ID, Epoch: t.Epoch, Probe: t.Probe, Report: rep.cleaned()})
	return err
}

// apply runs one operation on both and compares the replies and the records.
func (p *pair) apply(op Op) (Reply, error) {
	before := p.rec
	rec, want := Step(p.rec, op, p.now, p.settings)
	p.rec = rec
	if err := checkStep(before, rec, op, want, p.now, p.settings); err != nil {
		return want, err
	}
	got, err := p.store.do(context.Background(), p.key, op)
	if err != nil {
		return want, err
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return want, fmt.Errorf("replies differ (-step +script):\n%s", diff)
	}
	return want, p.compare()
}

func (p *pair) compare() error {
	h, err := p.store.rdb.HGetAll(context.Background(), breakerKey(p.key)).Result()
	if err != nil {
		return err
	}
	got, err := decodeRecord(h)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(p.rec, got, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("records differ (-step +script):\n%s", diff)
	}
	score, err := p.store.rdb.ZScore(context.Background(), dueKey(p.key.Provider), dueMember(p.key)).Result()
	if indexed := err == nil; len(h) > 0 && indexed != (p.rec.Wanted > 0) || indexed && len(h) > 0 && int64(score) != p.rec.dueAt() {
		return fmt.Errorf("due set holds %v (%v), the record is wanted until %d and due at %d", score, err, p.rec.Wanted, p.rec.dueAt())
	}
	if len(h) == 0 {
		return nil
	}
	left, err := p.store.rdb.PTTL(context.Background(), breakerKey(p.key)).Result()
	if err != nil || left < autoStaleMax+2*p.settings.MaxCooldown {
		return fmt.Errorf("the record expires in %s (%v)", left, err)
	}
	return nil
}

func (p *pair) due() error {
	rec := p.rec.clone()
	rec.settle(p.now, p.settings)
	keys, err := p.store.Due(context.Background(), p.key.Provider)
	if err != nil {
		return err
	}
	found := false
	for _, k := range keys {
		found = found || k == p.key
	}
	if want := rec.due(p.now); found != want {
		return fmt.Errorf("due: step says %v, script %v", want, found)
	}
	return nil
}

func (p *pair) list() error {
	list, err := p.store.List(context.Background(), []Key{p.key})
	if err != nil {
		return err
	}
	if diff := cmp.Diff(p.rec.status(p.key, p.now, p.settings), list[0]); diff != "" {
		return fmt.Errorf("status differs (-step +script):\n%s", diff)
	}
	return nil
}

// checkStep holds every step to the promises of doc.go.
func checkStep(before, after Record, op Op, r Reply, now int64, s Settings) error {
	longest := (s.MaxCooldown + s.ProbeLease).Milliseconds()
	promises := map[string]bool{
		"a wait is never negative":                     r.RetryAfter >= 0,
		"a wait has a bound":                           r.RetryAfter <= longest+1,
		"until has a bound":                            after.closed() || after.Until <= now+s.MaxCooldown.Milliseconds()+1,
		"the ring fits the window":                     op.Kind != OpReport || r.Code != Counted || op.Probe || len(after.Ring) <= s.Window,
		"the history has a bound":                      len(after.History) <= maxHistory,
		"epochs grow":                                  after.Epoch >= before.Epoch,
		"a transition is a new epoch":                  (r.Change.From != "") == (before.Epoch != 0 && after.Epoch != before.Epoch),
		"a lease lives only in half-open":              after.Lease.ID == 0 || after.State == HalfOpen,
		"a closed breaker carries no rest of an open":  !after.closed() || after.Until == 0 && after.Cooldown == 0 && after.Wanted == 0 && after.Reason == "",
		"an ignored report moves nothing but leases":   r.Code != Ignored || after.State == before.State,
		"a task is never let through while not closed": op.Kind != OpAdmit || r.Code != Granted || after.closed(),
	}
	for promise, kept := range promises {
		if !kept {
			return fmt.Errorf("broken: %s: %+v gave %+v", promise, op, r)
		}
	}
	return nil
}

func checkAgreement(t *testing.T, rdb redis.UniversalClient) {
	store := NewRedis(rdb, nil)
	rapid.Check(t, func(t *rapid.T) {
		if err := runTrial(store, genTrial.Draw(t, "trial")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestScriptsAgreeWithStep(t *testing.T) {
	checkAgreement(t, redistest.Client(t))
}

func TestScriptsAgreeWithStepOnMiniredis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	checkAgreement(t, rdb)
}
