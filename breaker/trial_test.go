package breaker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"
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
	Model  int    // of the three
	Pick   int    // of the tickets so far, or of the settings
	ID     uint64 // of the next ticket; 0: the one after the last
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
			"release", "due", "list", "settings", "lose", "force", "fail all", "fail all", "crowd", "crowd", "crowd",
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

// A move is one step of a trial as [Step] decides it: what to ask of another
// implementation, and what that must answer.
type move struct {
	step     int
	do       step
	key      Key
	settings Levels
	now      int64

	op            *Op // nil: another question
	reply         Reply
	model, parent Record // after it

	lose *Key         // whose record is lost, without an operation
	due  map[Key]bool // what is due, by the settings of who asks
	left map[Key]bool // the same, by the settings of who wrote each record last
	list []Status     // of key and its parent
}

// player makes the moves of a trial on another implementation, which takes its
// settings and its time from the move that is being made.
type player struct{ at *move }

func (p *player) settingsOf(k Key) Settings { return p.at.settings.of(k) }

// of are the settings of the breaker's level.
func (l Levels) of(k Key) Settings {
	if k.Scope() == ScopeParent {
		return l.Parent
	}
	return l.Model
}

// play makes the moves and returns the first disagreement.
func (p *player) play(moves []move, do func(*move) error) error {
	for i := range moves {
		p.at = &moves[i]
		if err := do(p.at); err != nil {
			return fmt.Errorf("step %d %+v: %w", p.at.step, p.at.do, err)
		}
	}
	return nil
}

// ask asks a store what changes nothing, and compares its answer. due is the answer
// where the question is what is due.
func (m *move) ask(s Store, due map[Key]bool) error {
	if m.due == nil {
		list, err := s.List(context.Background(), []Key{m.key, m.key.Parent()})
		return errors.Join(err, differ("status differs", m.list, list))
	}
	keys, err := s.Due(context.Background(), m.key.Provider)
	got := map[Key]bool{}
	for _, k := range keys {
		got[k] = true
	}
	return errors.Join(err, differ("what is due differs", due, got))
}

// recorder lives a trial through with Step and notes every move, so that one
// trial can be held against many implementations.
type recorder struct {
	keys     []Key
	key      Key // of the step
	settings Levels
	now      int64
	models   map[Key]Record
	parent   Record
	wrote    map[Key]Levels // with which settings each record was written last
	lastID   uint64
	tickets  []Ticket
	probes   []Ticket

	current move
	moves   []move
}

// record returns the moves of a trial, or which promise of doc.go Step broke.
func record(tr trial) ([]move, error) {
	p := &recorder{settings: tr.Settings[0], now: 1_750_000_000_000, models: map[Key]Record{}, wrote: map[Key]Levels{}}
	for _, m := range []string{"p/a", "p/m:1", "p/z"} {
		p.keys = append(p.keys, Key{Provider: "p", Model: m, Region: "east us"})
	}
	for i, st := range tr.Steps {
		p.now += st.Later.Milliseconds()
		p.key = p.keys[st.Model]
		if st.ID != 0 {
			p.lastID = st.ID - 1
		}
		p.current = move{step: i, do: st}
		if err := p.run(st, tr.Settings); err != nil {
			return nil, fmt.Errorf("step %d %+v: %w", i, st, err)
		}
	}
	return p.moves, nil
}

func (p *recorder) run(st step, settings []Levels) error {
	switch st.Do {
	case "call": // admit and report at once, so that most breakers live
		return p.call(st)
	case "fail all":
		for _, p.key = range p.keys {
			if err := p.call(step{Report: Report{Outcome: Failure}}); err != nil {
				return err
			}
		}
	case "crowd":
		return p.crowd(st)
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
	case "settings":
		p.settings = settings[st.Pick%len(settings)]
	case "lose":
		p.lose(st.Pick)
	case "force":
		if st.Pick%3 == 0 {
			_, err := p.apply(Op{Kind: OpForce, Scope: []Scope{ScopeModel, ScopeParent}[st.Pick/3%2], Force: st.Force})
			return err
		}
	default:
		return p.ask(st.Do)
	}
	return nil
}

// ask does the admissions and the questions that change nothing.
func (p *recorder) ask(what string) error {
	switch what {
	case "admit":
		return p.admit(Op{Kind: OpAdmit, ID: p.nextID()})
	case "admit no probe":
		return p.admit(Op{Kind: OpAdmit, ID: p.nextID(), NoProbe: true})
	case "admit again":
		return p.admit(Op{Kind: OpAdmit, ID: max(p.lastID, 1)})
	case "turn": // probe the parent through the model whose turn it is
		for _, k := range p.keys {
			if k.Model == p.parent.turn() {
				p.key = k
			}
		}
		return p.admit(Op{Kind: OpAdmitProbe, ID: p.nextID()})
	case "probe":
		return p.admit(Op{Kind: OpAdmitProbe, ID: p.nextID()})
	case "probe again":
		return p.admit(Op{Kind: OpAdmitProbe, ID: max(p.lastID, 1)})
	case "due":
		p.note(move{
			due:  p.due(func(Key) Levels { return p.settings }),
			left: p.due(func(k Key) Levels { return p.wrote[k] }),
		})
		return nil
	case "list":
		p.note(move{list: []Status{
			p.models[p.key].status(p.key, p.now, p.settings.Model),
			p.parent.status(p.key.Parent(), p.now, p.settings.Parent),
		}})
		return nil
	}
	return errors.New("unknown step")
}

func (p *recorder) note(m move) {
	m.step, m.do, m.key, m.settings, m.now = p.current.step, p.current.do, p.key, p.settings, p.now
	p.moves = append(p.moves, m)
}

func (p *recorder) call(st step) error {
	if err := p.admit(Op{Kind: OpAdmit, ID: p.nextID()}); err != nil {
		return err
	}
	return p.end(OpReport, p.tickets, len(p.tickets)-1, st.Report)
}

// crowd admits several calls at once, and then most of them succeed; the picked
// ones end otherwise, and one of them is told twice.
func (p *recorder) crowd(st step) error {
	first := len(p.tickets)
	for range 2 + st.Pick%4 {
		if err := p.admit(Op{Kind: OpAdmit, ID: p.nextID(), NoProbe: st.Pick%5 == 0}); err != nil {
			return err
		}
	}
	admitted := p.tickets[first:]
	for i := range len(admitted) + st.Pick%2 {
		rep := Report{Outcome: Success, Output: st.Report.Output}
		if st.Pick>>i&3 == 3 {
			rep = st.Report
		}
		if err := p.end(OpReport, admitted, i, rep); err != nil {
			return err
		}
	}
	return nil
}

func (p *recorder) nextID() uint64 {
	p.lastID++
	return p.lastID
}

func (p *recorder) admit(op Op) error {
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

func (p *recorder) end(kind OpKind, tickets []Ticket, pick int, rep Report) error {
	if len(tickets) == 0 {
		return nil
	}
	t := tickets[max(pick, 0)%len(tickets)]
	p.key = t.Key
	_, err := p.apply(t.ended(kind, rep))
	return err
}

func (p *recorder) lose(pick int) {
	key := p.key
	switch pick % 8 {
	case 0:
		p.models[key] = Record{}
	case 1:
		key, p.parent = key.Parent(), Record{}
	default:
		return
	}
	p.note(move{lose: &key})
}

// apply asks Step and holds it to its promises.
func (p *recorder) apply(op Op) (Reply, error) {
	op.Model = p.key.Model
	before := Pair{Model: p.models[p.key], Parent: p.parent}
	after, reply := Step(before, op, p.now, p.settings)
	if !equal(before.Model, after.Model) {
		p.wrote[p.key] = p.settings
	}
	if !equal(before.Parent, after.Parent) {
		p.wrote[p.key.Parent()] = p.settings
	}
	p.models[p.key], p.parent = after.Model, after.Parent
	p.note(move{op: &op, reply: reply, model: after.Model, parent: after.Parent})
	return reply, checkStep(before, after, op, reply, p.now, p.settings)
}

// due is what is due, by these settings; who probes is as who asks has it.
func (p *recorder) due(settings func(Key) Levels) map[Key]bool {
	due := map[Key]bool{}
	parent, ps := p.parent.clone(), settings(p.key.Parent()).Parent
	parent.settle(p.now, &ps)
	for _, k := range p.keys {
		rec, s := p.models[k].clone(), settings(k).Model
		rec.settle(p.now, &s)
		if parent.closed() && rec.due(p.now, &s) && !rec.taskProbes(&p.settings.Model) {
			due[k] = true
		}
		if parent.turn() == k.Model && parent.due(p.now, &ps) && !parent.taskProbes(&p.settings.Parent) {
			due[k] = true
		}
	}
	return due
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
