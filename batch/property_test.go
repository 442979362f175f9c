package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/internal/convoy"
	"nightshift/provider"
)

// TestLinesFollowTheModel drives the scripts and the model with the same
// messages (also lost, repeated and overtaken ones, of attempts that stalled)
// and compares every reply and, after each step, everything that is kept.
func TestLinesFollowTheModel(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *bundle{"redis": setup, "miniredis": setupMini} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			n := 0
			rapid.Check(t, func(rt *rapid.T) {
				n++
				m := newMachine(rt, t, b, fmt.Sprintf("b%d", n))
				rt.Repeat(map[string]func(*rapid.T){
					"":             m.check,
					"release":      m.release,
					"begin":        m.begin,
					"begin 2":      m.begin, // these two are what leads anywhere
					"checkpoint 2": m.checkpoint,
					"checkpoint":   m.checkpoint,
					"suspend":      m.suspend,
					"finish":       m.finish,
					"together":     m.together,
					"renew":        m.renew,
					"repeat":       m.repeat,
					"step":         m.step,
					"cancel":       m.cancel,
					"end":          m.end,
					"texts":        m.texts,
					"settle":       m.settle,
					"retry":        m.retry,
					"update":       m.update,
				})
			})
		})
	}
}

// attempt is a worker's view of its attempt; it goes on whatever the batch says.
type attempt struct {
	lease     Lease
	line      Line
	calls     []modelCall
	deferrals int
	over      bool // it has sent its last message
}

type machine struct {
	tb       testing.TB
	b        *bundle
	m        *modelBatch
	id       string
	attempts []*attempt
	sent     []func(*rapid.T) // messages that may arrive once more
	tokens   int
	names    int
}

func newMachine(rt *rapid.T, tb testing.TB, b *bundle, id string) *machine {
	n := rapid.IntRange(1, 5).Draw(rt, "lines")
	m := &machine{tb: tb, b: b, id: id, m: &modelBatch{total: int64(n), lease: time.Minute, by: map[string]int64{}}}
	var lines []string
	for i := range n {
		class := rapid.IntRange(0, 1).Draw(rt, "class")
		lines = append(lines, inClass(fmt.Sprintf("%s-%d", id, i), class))
		m.m.lines = append(m.m.lines, &modelLine{
			number: int64(i + 1), class: class, booked: map[string]provider.USD{},
			shown: map[string]bool{}, attempts: map[string]*modelAttempt{},
		})
	}
	text := strings.Join(lines, "\n")
	d := describe(tb, id, text)
	if rapid.Bool().Draw(rt, "has a deadline") {
		d.Deadline = b.clock.t.Add(5 * time.Minute)
		m.m.deadline = d.Deadline
	}
	if err := b.Submit(tb.Context(), d, classes(tb, text), nil); err != nil {
		rt.Fatal(err)
	}
	return m
}

// inClass is a line that starts at a rung of its own, as classes reads it.
func inClass(id string, class int) string { return naming(id, fmt.Sprintf(`"%d"`, class)) }

// classes reads lines whose models are their starting rungs.
func classes(tb testing.TB, text string) *Reader {
	r := reader(tb, text)
	r.Rung = func(model string) (int, bool) {
		class, err := strconv.Atoi(model)
		return class, err == nil
	}
	return r
}

func (m *machine) release(t *rapid.T) {
	epoch := m.m.epoch + int64(rapid.IntRange(-1, 1).Draw(t, "epoch"))
	n := rapid.IntRange(1, 4).Draw(t, "n")
	room := rapid.MapOf(rapid.IntRange(0, 1), rapid.IntRange(0, 2)).Draw(t, "room")
	refs, err := m.b.Release(m.tb.Context(), m.id, epoch, n, room)
	want, wantErr := m.m.release(epoch, n, room, m.b.clock.t)
	expect(t, same(err, wantErr))
	var got []int64
	for _, r := range refs {
		got = append(got, r.Line)
		if gen := m.m.line(r.Line).gen; r.Generation != gen {
			t.Fatalf("released %s in generation %d, want %d", r, r.Generation, gen)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("released %v, want %v", got, want)
	}
}

func (m *machine) begin(t *rapid.T) {
	if msg, ok := m.beginning(t); ok {
		m.deliver(t, func(t *rapid.T) { m.send(t, msg) })
	}
}

func (m *machine) beginning(t *rapid.T) (msg message, ok bool) {
	l := rapid.SampledFrom(m.m.lines).Draw(t, "line")
	if len(l.attempts) >= 16 {
		return msg, false
	}
	ref := Ref{m.id, l.number, l.gen}
	if rapid.IntRange(0, 9).Draw(t, "other generation") == 0 {
		ref.Generation = rapid.IntRange(0, l.gen+1).Draw(t, "generation")
	}
	m.tokens++
	token := fmt.Sprintf("t%d", m.tokens)
	var q beginning
	return message{func() (convoy.Call, error) {
		var done func()
		q, done = m.b.beginning(ref, token)
		done()
		return q.call, nil
	}, func(t *rapid.T, answer *convoy.Answer) {
		got, err := m.b.begun(m.tb.Context(), q, answer)
		expect(t, err)
		verdict, held, base, crashes := m.m.begin(ref, token, m.b.clock.t)
		if got.Verdict != verdict || got.HeldFor != held || got.Crashes != crashes {
			t.Fatalf("begin %s by %s: %+v, want %d %s %d", ref, token, got, verdict, held, crashes)
		}
		if !got.Now.Equal(m.b.clock.t) {
			t.Fatalf("begin %s at %s, it is %s", ref, got.Now, m.b.clock.t)
		}
		if verdict != Granted {
			return
		}
		if left := m.m.total - int64(len(m.m.log)); got.Outstanding != left {
			t.Fatalf("begin %s: %d lines outstanding, want %d", ref, got.Outstanding, left)
		}
		if names := callNames(got.Progress.Calls); !slices.Equal(names, modelNames(base)) {
			t.Fatalf("begin %s: progress %v, want %v", ref, names, modelNames(base))
		}
		if got.Line.Number != ref.Line || got.Line.Rung != l.class || got.Description.ID != m.id || !got.Description.Deadline.Equal(m.m.deadline) {
			t.Fatalf("begin %s: line %+v", ref, got.Line)
		}
		if !slices.ContainsFunc(m.attempts, func(a *attempt) bool { return a.lease.Token == token }) {
			m.attempts = append(m.attempts, &attempt{Lease{ref, token}, got.Line, slices.Clone(base), got.Progress.Deferrals, false})
		}
	}}, true
}

// deliver sends a message, and keeps it to be sent again.
func (m *machine) deliver(t *rapid.T, send func(*rapid.T)) {
	send(t)
	m.sent = append(m.sent, send)
}

func (m *machine) repeat(t *rapid.T) {
	if len(m.sent) > 0 {
		m.sent[len(m.sent)-1-rapid.IntRange(0, min(7, len(m.sent)-1)).Draw(t, "ago")](t)
	}
}

// pick returns an attempt that still runs, in a worker's own eyes, or nil.
func (m *machine) pick(t *rapid.T) *attempt {
	var running []*attempt
	for _, a := range m.attempts {
		if !a.over {
			running = append(running, a)
		}
	}
	if len(running) == 0 {
		return nil
	}
	return rapid.SampledFrom(running).Draw(t, "attempt")
}

// pay makes up to two calls of an attempt.
func (m *machine) pay(t *rapid.T, a *attempt) {
	for range rapid.IntRange(0, 2).Draw(t, "calls") {
		m.names++
		cost := provider.USD(rapid.Int64Range(0, 1<<50).Draw(t, "cost"))
		a.calls = append(a.calls, modelCall{fmt.Sprintf("c%d", m.names), cost})
	}
}

func (m *machine) checkpoint(t *rapid.T) {
	a := m.pick(t)
	if a == nil {
		return
	}
	m.pay(t, a)
	lease, calls, deferrals := a.lease, slices.Clone(a.calls), a.deferrals
	m.deliver(t, func(t *rapid.T) {
		err := m.b.Checkpoint(m.tb.Context(), lease, progressOf(calls, deferrals))
		expect(t, same(err, m.m.checkpoint(lease.Ref, lease.Token, calls, deferrals, m.b.clock.t)))
	})
}

func (m *machine) suspend(t *rapid.T) {
	a := m.pick(t)
	if a == nil {
		return
	}
	var w Wait
	if rapid.IntRange(0, 2).Draw(t, "waits") > 0 {
		w = Wait{Model: "openai/gpt-4o", Reason: "breaker_open", Until: m.b.clock.t.Add(30 * time.Second)}
		a.deferrals++
	}
	// A worker that was handed back may still get its answer (case 49).
	a.over = rapid.IntRange(0, 3).Draw(t, "over") > 0
	m.pay(t, a)
	lease, calls, deferrals := a.lease, slices.Clone(a.calls), a.deferrals
	m.deliver(t, func(t *rapid.T) {
		err := m.b.Suspend(m.tb.Context(), lease, progressOf(calls, deferrals), w)
		expect(t, same(err, m.m.suspend(lease.Ref, lease.Token, calls, deferrals, w != Wait{})))
	})
}

func (m *machine) renew(t *rapid.T) {
	var leases, want []Lease
	for _, a := range m.attempts {
		if rapid.Bool().Draw(t, "renew") {
			leases = append(leases, a.lease)
			if m.m.renew(a.lease.Ref, a.lease.Token, m.b.clock.t) {
				want = append(want, a.lease)
			}
		}
	}
	if len(leases) == 0 {
		return
	}
	lost, err := m.b.Renew(m.tb.Context(), leases)
	expect(t, err)
	if !slices.Equal(lost, want) {
		t.Fatalf("lost %v, want %v", lost, want)
	}
}

func (m *machine) step(t *rapid.T) {
	m.b.clock.step(time.Duration(rapid.SampledFrom([]int{1, 10_000, 59_999, 60_000, 61_000}).Draw(t, "ms")) * time.Millisecond)
}

func (m *machine) cancel(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "sure") > 0 {
		return
	}
	m.m.cancelled = m.m.cancelled || slices.ContainsFunc(m.m.lines, func(l *modelLine) bool { return l.outcome == "" })
	expect(t, m.b.Cancel(m.tb.Context(), m.id))
}

func (m *machine) end(t *rapid.T) {
	epoch := m.m.epoch + int64(rapid.IntRange(-1, 1).Draw(t, "epoch"))
	o := rapid.SampledFrom([]Outcome{Cancelled, Expired, Failed}).Draw(t, "outcome")
	n := rapid.IntRange(1, 3).Draw(t, "n")
	got, err := m.b.End(m.tb.Context(), m.id, epoch, o, n)
	dead, wantErr := m.m.endable(epoch, o, m.b.clock.t)
	expect(t, same(err, wantErr))
	if got != min(n, len(dead)) {
		t.Fatalf("ended %d, want %d of %d", got, n, len(dead))
	}
	m.ended(t, o, dead)
}

// ended tells the model which lines were ended: that, and in which order, is the
// script's choice.
func (m *machine) ended(t *rapid.T, o Outcome, dead []*modelLine) {
	code := map[Outcome]string{Cancelled: CodeCancelled, Expired: CodeExpired, Failed: CodeBudgetExhausted}[o]
	log, err := m.b.rdb.LRange(m.tb.Context(), key(m.id, "log"), m.m.logged, -1).Result()
	expect(t, err)
	for _, text := range log {
		e, err := parseEnded(text)
		expect(t, err)
		i := slices.IndexFunc(dead, func(l *modelLine) bool { return e == ended{l.number, l.gen} })
		if i < 0 {
			t.Fatalf("line %s was ended, but could not be", text)
		}
		m.m.end(dead[i], o, code, "-", dead[i].stored)
	}
}

// settle is the end of what is over without a keeper, whatever its epoch.
func (m *machine) settle(t *rapid.T) {
	o := Expired
	if m.m.cancelled {
		o = Cancelled
	}
	dead, err := m.m.endable(m.m.epoch, o, m.b.clock.t)
	expect(t, err)
	got, err := m.b.Settle(m.tb.Context(), m.id)
	expect(t, err)
	if got != len(dead) {
		t.Fatalf("settled %d lines, want %d", got, len(dead))
	}
	m.ended(t, o, dead)
}

func (m *machine) retry(t *rapid.T) {
	r := Retry{Codes: rapid.SliceOfN(rapid.SampledFrom([]string{"ok", noCode, CodeExpired, CodeLost, CodeBudgetExhausted}), 0, 2).Draw(t, "codes")}
	if ahead := rapid.IntRange(-1, 10).Draw(t, "minutes"); ahead != 0 {
		r.Deadline = m.b.clock.t.Add(time.Duration(ahead) * time.Minute)
	}
	got, err := m.b.Retry(m.tb.Context(), m.id, r, nil)
	want, wantErr := m.m.retry(r, m.b.clock.t)
	expect(t, same(err, wantErr))
	if got != want {
		t.Fatalf("retried %d lines, want %d", got, want)
	}
}

func (m *machine) update(t *rapid.T) {
	deadline := m.b.clock.t.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "minutes")) * time.Minute)
	err := m.b.Update(m.tb.Context(), m.id, Update{Deadline: deadline})
	expect(t, same(err, m.m.update(deadline, m.b.clock.t)))
}

func progressOf(calls []modelCall, deferrals int) Progress {
	p := Progress{Deferrals: deferrals}
	for _, c := range calls {
		p.Calls = append(p.Calls, call(c.name, c.cost))
	}
	return p
}

func callNames(calls []provider.Call) (names []string) {
	for _, c := range calls {
		names = append(names, c.Model)
	}
	return names
}

func modelNames(calls []modelCall) (names []string) {
	for _, c := range calls {
		names = append(names, c.name)
	}
	return names
}

func expect(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
