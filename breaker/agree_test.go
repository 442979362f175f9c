package breaker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// A trial is a random life of three models and their parent as plain data, so
// that the same trial can be run against the script as it is and against broken
// ones.
type trial struct {
	Settings []Levels // one is in force, a step may choose another
	Steps    []step
}

type step struct {
	Do     string
	Model  int // of the three
	Pick   int // of the tickets so far, or of the settings
	Report Report
	Force  Force
	Later  time.Duration // the clock's step before the operation, may be negative
}

// genReport draws an outcome, now and then with a Retry-After, hard, slow or unfit.
func genReport(t *rapid.T) Report {
	return Report{
		Outcome: rapid.SampledFrom([]Outcome{
			Failure, Failure, Failure, Failure, Success, Success, None, Limited,
		}).Draw(t, "outcome"),
		Hard:   rapid.IntRange(0, 20).Draw(t, "hard") == 20,
		Scope:  rapid.SampledFrom([]Scope{"", ScopeModel, ScopeParent}).Draw(t, "scope"),
		Reason: rapid.SampledFrom([]string{"", "status 503", "line\nbreak", "späte Antwort"}).Draw(t, "reason"),
		RetryAfter: rapid.SampledFrom([]time.Duration{
			0, 0, 0, -time.Second, time.Microsecond, time.Second, 20 * time.Second, 72 * time.Hour, 1 << 62,
		}).Draw(t, "retry after"),
		Latency: rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "latency"),
		Output:  rapid.SampledFrom([]OutputVerdict{Unjudged, ValidOutput, InvalidOutput, 7}).Draw(t, "output"),
		Unfit:   rapid.IntRange(0, 3).Draw(t, "unfit") == 3,
	}
}

func genForce(t *rapid.T) Force {
	f := Force{
		Action: rapid.SampledFrom([]Action{ForceOpen, ForceClose, ForceReset}).Draw(t, "action"),
		By:     rapid.SampledFrom([]string{"", "anna", "a\nb"}).Draw(t, "by"),
	}
	if f.Action != ForceReset {
		f.For = rapid.SampledFrom([]time.Duration{0, time.Microsecond, 20 * time.Second, time.Hour, 1000 * time.Hour}).Draw(t, "for")
	}
	return f
}

func genStep(t *rapid.T) step {
	return step{
		Do: rapid.SampledFrom([]string{
			"call", "call", "call", "call", "call", "admit", "admit", "admit no probe", "admit again", "probe", "probe", "turn", "turn", "turn", "probe again",
			"report", "report", "report last", "report last", "report probe", "report probe", "report probe", "report old",
			"release", "due", "list", "settings", "lose", "force", "fail all", "fail all",
		}).Draw(t, "do"),
		Model:  rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "model"),
		Pick:   rapid.IntRange(0, 1000).Draw(t, "pick"),
		Report: genReport(t),
		Force:  genForce(t),
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
		Probes:         rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "probes"),
		ProbeSuccesses: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "successes"),
		SlowCall:       rapid.SampledFrom([]time.Duration{0, 0, 0, 30 * time.Second}).Draw(t, "slow"),
		TaskProbes:     rapid.IntRange(0, 3).Draw(t, "task probes") == 3,
	}
	s.MaxCooldown = s.Cooldown * time.Duration(rapid.SampledFrom([]int{1, 3, 10}).Draw(t, "max"))
	s.Failures = rapid.IntRange(1, min(s.Window, 4)).Draw(t, "failures")
	s.MinResults = rapid.IntRange(0, s.Window).Draw(t, "min results")
	return s
}

func genLevels(t *rapid.T) Levels {
	return Levels{Model: genSettings(t), Parent: genSettings(t)}
}

var genTrial = rapid.Custom(func(t *rapid.T) trial {
	return trial{
		Settings: rapid.SliceOfN(rapid.Custom(genLevels), 1, 3).Draw(t, "settings"),
		Steps:    rapid.SliceOfN(rapid.Custom(genStep), 20, 120).Draw(t, "steps"),
	}
})

// twins run a trial on Step and on the scripts side by side.
type twins struct {
	store    *Redis
	keys     []Key
	key      Key // of the step
	settings Levels
	now      int64
	models   map[Key]Record
	parent   Record
	lastID   uint64
	tickets  []Ticket
	probes   []Ticket
}

// runTrial returns the first disagreement.
func runTrial(store *Redis, tr trial) error {
	p := &twins{store: store, settings: tr.Settings[0], now: 1_750_000_000_000, models: map[Key]Record{}}
	name := "p-" + strconv.FormatUint(newID(), 36)
	for _, m := range []string{"/a", "/m:1", "/z"} {
		p.keys = append(p.keys, Key{Provider: name, Model: name + m, Region: "east us"})
	}
	store.settings = func(k Key) Settings {
		if k.Scope() == ScopeParent {
			return p.settings.Parent
		}
		return p.settings.Model
	}
	store.now = func() string { return strconv.FormatInt(p.now, 10) }
	for i, st := range tr.Steps {
		p.now += st.Later.Milliseconds()
		p.key = p.keys[st.Model]
		if err := p.run(st, tr.Settings); err != nil {
			return fmt.Errorf("step %d %+v: %w", i, st, err)
		}
	}
	return nil
}

func (p *twins) run(st step, settings []Levels) error {
	switch st.Do {
	case "call": // admit and report at once, so that most breakers live
		return p.call(st)
	case "fail all":
		for _, p.key = range p.keys {
			if err := p.call(step{Report: Report{Outcome: Failure}}); err != nil {
				return err
			}
		}
		return nil
	case "turn": // probe the parent through the model whose turn it is
		for _, k := range p.keys {
			if k.Model == p.parent.turn() {
				p.key = k
			}
		}
		return p.admit(Op{Kind: OpAdmitProbe, ID: p.nextID()})
	case "report":
		return p.end(OpReport, p.tickets, st.Pick, st.Report)
	case "report last":
		return p.end(OpReport, p.tickets, len(p.tickets)-1, st.Report)
	case "report probe":
		return p.end(OpReport, p.probes, len(p.probes)-1-st.Pick%3, st.Report)
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
		return p.lose(st.Pick)
	case "force":
		if st.Pick%3 != 0 {
			return nil
		}
		_, err := p.apply(Op{Kind: OpForce, Scope: []Scope{ScopeModel, ScopeParent}[st.Pick/3%2], Force: st.Force})
		return err
	default:
		return p.ask(st.Do)
	}
	return nil
}

// ask does the admissions.
func (p *twins) ask(what string) error {
	switch what {
	case "admit":
		return p.admit(Op{Kind: OpAdmit, ID: p.nextID()})
	case "admit no probe":
		return p.admit(Op{Kind: OpAdmit, ID: p.nextID(), NoProbe: true})
	case "admit again":
		return p.admit(Op{Kind: OpAdmit, ID: max(p.lastID, 1)})
	case "probe":
		return p.admit(Op{Kind: OpAdmitProbe, ID: p.nextID()})
	case "probe again":
		return p.admit(Op{Kind: OpAdmitProbe, ID: max(p.lastID, 1)})
	}
	return fmt.Errorf("unknown step %q", what)
}

func (p *twins) call(st step) error {
	if err := p.admit(Op{Kind: OpAdmit, ID: p.nextID()}); err != nil {
		return err
	}
	return p.end(OpReport, p.tickets, len(p.tickets)-1, st.Report)
}

func (p *twins) nextID() uint64 {
	p.lastID++
	return p.lastID
}

func (p *twins) admit(op Op) error {
	reply, err := p.apply(op)
	if err == nil && reply.Code == Granted {
		t := reply.ticket(p.key, op.ID)
		p.tickets = append(p.tickets, t)
		if t.Probe {
			p.probes = append(p.probes, t)
		}
	}
	return err
}

func (p *twins) end(kind OpKind, tickets []Ticket, pick int, rep Report) error {
	if len(tickets) == 0 {
		return nil
	}
	t := tickets[max(pick, 0)%len(tickets)]
	p.key = t.Key
	_, err := p.apply(t.ended(kind, rep))
	return err
}

func (p *twins) lose(pick int) error {
	key := p.key
	switch pick % 8 {
	case 0:
		p.models[key] = Record{}
	case 1:
		key, p.parent = key.Parent(), Record{}
	default:
		return nil
	}
	return p.store.rdb.Del(context.Background(), breakerKey(key)).Err()
}

// apply runs one operation on both and compares the replies and the records.
func (p *twins) apply(op Op) (Reply, error) {
	op.Model = p.key.Model
	before := Pair{Model: p.models[p.key], Parent: p.parent}
	after, want := Step(before, op, p.now, p.settings)
	p.models[p.key], p.parent = after.Model, after.Parent
	if err := checkStep(before, after, op, want, p.now, p.settings); err != nil {
		return want, err
	}
	got, err := p.store.do(context.Background(), p.key, &op)
	if err != nil {
		return want, err
	}
	if want != got {
		return want, fmt.Errorf("replies differ (-step +script):\n%s", cmp.Diff(want, got))
	}
	if err := p.compare(p.key, after.Model, p.settings.Model); err != nil {
		return want, err
	}
	return want, p.compare(p.key.Parent(), after.Parent, p.settings.Parent)
}

// compare holds the record of one level, its place in the due set and its life
// in Redis to what Step made.
func (p *twins) compare(key Key, rec Record, s Settings) error {
	ctx := context.Background()
	pipe := p.store.rdb.Pipeline()
	hash := pipe.HGetAll(ctx, breakerKey(key))
	score := pipe.ZScore(ctx, dueKey(key.Provider), dueMember(key))
	life := pipe.PTTL(ctx, breakerKey(key))
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	got, err := decodeRecord(hash.Val())
	if err != nil {
		return err
	}
	if !equal(rec, got) {
		return fmt.Errorf("records of the %s differ (-step +script):\n%s", key.Scope(), cmp.Diff(rec, got, cmpopts.EquateEmpty()))
	}
	if rec.Epoch == 0 {
		return nil
	}
	if indexed := score.Err() == nil; indexed != (rec.Wanted > 0) {
		return fmt.Errorf("the due set holds the %s: %v (%v), it is wanted until %d", key.Scope(), indexed, score.Err(), rec.Wanted)
	}
	left := life.Val()
	forGood := rec.Hold.State != "" && rec.Hold.Until == 0
	if forGood != (left < 0) || !forGood && left < autoStaleMax+2*s.MaxCooldown {
		return fmt.Errorf("the record of the %s expires in %s", key.Scope(), left)
	}
	return nil
}

// equal is a quick cmp.Equal of two records.
func equal(a, b Record) bool {
	if !slices.Equal(a.Ring, b.Ring) || !slices.Equal(a.Seen, b.Seen) || !slices.Equal(a.Leases, b.Leases) ||
		!slices.Equal(a.Wants, b.Wants) || !slices.Equal(a.History, b.History) {
		return false
	}
	for _, r := range []*Record{&a, &b} {
		r.Ring, r.Seen, r.Leases, r.Wants, r.History = nil, nil, nil, nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// due compares what is due, which is indexed by the settings of who wrote last.
func (p *twins) due() error {
	want := map[Key]bool{}
	parent := p.parent.clone()
	parent.settle(p.now, &p.settings.Parent)
	for _, k := range p.keys {
		rec := p.models[k].clone()
		rec.settle(p.now, &p.settings.Model)
		if own := parent.closed() && rec.due(p.now, &p.settings.Model) && !rec.taskProbes(&p.settings.Model); own {
			want[k] = true
		}
		if parent.turn() == k.Model && parent.due(p.now, &p.settings.Parent) && !parent.taskProbes(&p.settings.Parent) {
			want[k] = true
		}
	}
	keys, err := p.store.Due(context.Background(), p.key.Provider)
	if err != nil {
		return err
	}
	got := map[Key]bool{}
	for _, k := range keys {
		got[k] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("what is due differs (-step +script):\n%s", diff)
	}
	return nil
}

func (p *twins) list() error {
	list, err := p.store.List(context.Background(), []Key{p.key, p.key.Parent()})
	if err != nil {
		return err
	}
	want := []Status{
		p.models[p.key].status(p.key, p.now, p.settings.Model),
		p.parent.status(p.key.Parent(), p.now, p.settings.Parent),
	}
	if diff := cmp.Diff(want, list); diff != "" {
		return fmt.Errorf("status differs (-step +script):\n%s", diff)
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
