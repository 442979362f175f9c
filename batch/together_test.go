package batch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/internal/convoy"
)

// message is a call of a script that takes several, and who reads its answer.
type message struct {
	call func() (convoy.Call, error)
	hear func(*rapid.T, *convoy.Answer)
}

// send sends messages in one script, in this order.
func (m *machine) send(t *rapid.T, all ...message) {
	var party convoy.Party
	var answers []*convoy.Answer
	for _, msg := range all {
		c, err := msg.call()
		expect(t, err)
		answers = append(answers, party.Add(c))
	}
	convoy.New(m.b.rdb).Send(m.tb.Context(), &party)
	for i, msg := range all {
		msg.hear(t, answers[i])
	}
}

// together sends several begins, or several finishes, in one script.
func (m *machine) together(t *rapid.T) {
	next := m.beginning
	if rapid.Bool().Draw(t, "finishes") {
		next = m.finishing
	}
	var all []message
	for range rapid.IntRange(2, 5).Draw(t, "messages") {
		if msg, ok := next(t); ok {
			all = append(all, msg)
			m.sent = append(m.sent, func(t *rapid.T) { m.send(t, msg) })
		}
	}
	if n := len(all); n > 0 && rapid.Bool().Draw(t, "one twice") {
		all = append(all, all[rapid.IntRange(0, n-1).Draw(t, "which")])
	}
	m.send(t, all...)
}

func (m *machine) finish(t *rapid.T) {
	if msg, ok := m.finishing(t); ok {
		m.deliver(t, func(t *rapid.T) { m.send(t, msg) })
	}
}

func (m *machine) finishing(t *rapid.T) (msg message, ok bool) {
	a := m.pick(t)
	if a == nil {
		return msg, false
	}
	a.over = true
	m.pay(t, a)
	a.deferrals += rapid.IntRange(0, 1).Draw(t, "deferred")
	o := rapid.SampledFrom([]Outcome{Succeeded, Succeeded, Failed, Expired}).Draw(t, "outcome")
	if o == Succeeded && m.m.line(a.lease.Ref.Line).remembered(a.lease.Token) == nil {
		o = Failed // what the late answer of a forgotten attempt costs is not exact, see finish.lua
	}
	degraded := o == Succeeded && rapid.Bool().Draw(t, "degraded")
	cached := o == Succeeded && rapid.Bool().Draw(t, "cached")
	model := rapid.SampledFrom([]string{"openai/gpt-4o", "local/llama3.1:8b", "a/b c"}).Draw(t, "model")
	lease, line, calls, deferrals := a.lease, a.line, slices.Clone(a.calls), a.deferrals
	p := progressOf(calls, deferrals)
	r := answer(line, p)
	r.ID, r.Nightshift.Degraded, r.Nightshift.Cached, r.Nightshift.Model = lease.Token, degraded, cached, model
	return message{
		func() (convoy.Call, error) { return m.b.finishing(lease, p, o, r) },
		func(t *rapid.T, answer *convoy.Answer) {
			expect(t, same(endOf("finish", lease, answer), m.m.finish(lease.Ref, lease.Token, calls, deferrals, o, codeOf(r), r.Nightshift)))
		},
	}, true
}

// What a begin ends does not count as outstanding for those that follow it in the
// same script.
func TestTogether_ALostLineIsNotOutstanding(t *testing.T) {
	b := setup(t)
	b.submit(t, "b", jsonl(3))
	refs := b.release(t, "b", 2)
	for i := range maxCrashes {
		b.begin(t, refs[0], fmt.Sprint("dead", i), Granted)
		b.clock.step(time.Hour)
	}
	var p convoy.Party
	var answers []func() (Begun, error)
	for _, ref := range refs {
		q, done := b.beginning(ref, "t")
		defer done()
		a := p.Add(q.call)
		answers = append(answers, func() (Begun, error) { return b.begun(t.Context(), q, a) })
	}
	b.begins.Send(t.Context(), &p)
	lost, err := answers[0]()
	must(t, err)
	granted, err := answers[1]()
	must(t, err)
	if lost.Verdict != Lost || granted.Verdict != Granted || granted.Outstanding != 2 {
		t.Errorf("verdicts %d and %d, %d outstanding", lost.Verdict, granted.Verdict, granted.Outstanding)
	}
}
