package ladder

import (
	"encoding/json"
	"testing"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/sim"
	"nightshift/provider"
)

// setupGuard is a real ladder whose models say what the texts of their script
// say, one a call, and from then on what they are asked.
func setupGuard(t *testing.T, c config.Ladder, script map[string][]sim.Fault) *realBundle {
	var names []string
	for _, r := range c.Rungs {
		names = append(names, r.Model[len("p/"):])
	}
	b := setupReal(t, 2, "", names...)
	for name, faults := range script {
		for i := range faults {
			if faults[i].Kind == "" {
				faults[i].Kind = sim.Says
			}
			if faults[i].FirstCall == 0 {
				faults[i].FirstCall, faults[i].LastCall = int64(i+1), int64(i+1)
			}
		}
		if err := b.sim.AddFaults(name, faults...); err != nil {
			t.Fatal(err)
		}
	}
	b.build(c)
	return b
}

// overBothAPIs runs a test with the adapter of each family.
func overBothAPIs(t *testing.T, c config.Ladder, script func() map[string][]sim.Fault, test func(*testing.T, *realBundle)) {
	t.Run("openai", func(t *testing.T) { test(t, setupGuard(t, c, script())) })
	t.Run("anthropic", func(t *testing.T) {
		b := setupGuard(t, c, script())
		adapter := provider.NewAnthropic(provider.AnthropicOptions{BaseURL: b.sim.URL()})
		t.Cleanup(adapter.Close)
		for name := range b.callers {
			b.callers[name] = adapter
		}
		b.build(c)
		test(t, b)
	})
}

func TestGuard_RealAnswersAreRepaired(t *testing.T) {
	c := guarded(2, anAnswer, nil, "a")
	overBothAPIs(t, c, func() map[string][]sim.Fault {
		return map[string][]sim.Fault{"a": {
			{Text: "I think it is 7."}, {Text: "```json\n{\"n\": \"7\"}\n```"}, {Text: "Sorry!\n\n```json\n{\"n\": 7.50}\n```\nBetter?"},
		}}
	}, func(t *testing.T, b *realBundle) {
		out := b.attempt()
		wantEnd(t, out, Answered, "")
		same(t, "output", string(out.Answer.Output), `{"n": 7.50}`)
		equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.InvalidOutput, provider.InvalidOutput, provider.OK})
		equal(t, "purposes", b.purposes(), []Purpose{ForLine, ForRepair, ForRepair})
		for i, call := range out.Progress.Calls {
			if call.Cost <= 0 || call.Usage.InputTokens == 0 || call.RequestID == "" {
				t.Errorf("call %d: %+v", i, call)
			}
		}
		if calls := out.Progress.Calls; calls[1].Usage.InputTokens <= calls[0].Usage.InputTokens {
			t.Error("the repair did not show more than the line's own request")
		}
		keys := map[string]bool{}
		for _, call := range b.sim.Calls() {
			keys[call.IdempotencyKey+call.Digest] = true
		}
		same(t, "requests of their own", len(keys), 3)
		s := b.status("a")
		same(t, "results of the breaker", s.Results, 1) // an invalid answer is no evidence
		same(t, "failures of the breaker", s.Failures, 0)
		same(t, "judged", s.Judged, 3)
		same(t, "invalid", s.Invalid, 2)
	})
}

func TestGuard_RealAnswersThatStayInvalid(t *testing.T) {
	c := guarded(1, anAnswer, nil, "a", "b")
	overBothAPIs(t, c, func() map[string][]sim.Fault {
		return map[string][]sim.Fault{"a": {{Text: "no", FirstCall: 1}}, "b": {{Text: `{"n":2}`}}}
	}, func(t *testing.T, b *realBundle) {
		out := b.attempt()
		wantEnd(t, out, Answered, "")
		same(t, "model", out.Answer.Model, "p/b")
		same(t, "requests to a", b.hits("a"), 2)
		equal(t, "ruled out", out.Progress.RuledOut, []int{0})
		same(t, "state of a", b.status("a").State, breaker.Closed)
	})
}

func TestCase20_RealAnswerCutOff(t *testing.T) {
	c := guarded(2, anAnswer, nil, "a", "b")
	overBothAPIs(t, c, func() map[string][]sim.Fault {
		return map[string][]sim.Fault{"a": {{Text: `{"n":`, Finish: "length", FirstCall: 1}}, "b": {{Text: `{"n":2}`}}}
	}, func(t *testing.T, b *realBundle) {
		out := b.attempt()
		wantEnd(t, out, Answered, "")
		same(t, "model", out.Answer.Model, "p/b")
		same(t, "requests to a", b.hits("a"), 1)
		same(t, "paid for", out.Progress.Calls[0].Cost > 0, true)
	})
	b := setupGuard(t, nightly(2, "a"), map[string][]sim.Fault{"a": {{Text: "half", Finish: "length"}}})
	out := b.attempt()
	wantEnd(t, out, Answered, "") // without a schema it is an answer
	same(t, "requests", b.hits("a"), 1)
}

// The schema goes out as response_format, which the simulator answers with JSON;
// where it is refused, the line is asked for without it, from then on.
func TestFormat_Real(t *testing.T) {
	c := guarded(0, `{"type":"object","required":["echo"]}`, nil, "a")
	b := setupGuard(t, c, nil)
	out := b.attempt()
	wantEnd(t, out, Answered, "")
	var v struct{ Echo string }
	if err := json.Unmarshal(out.Answer.Output, &v); err != nil || v.Echo != "hi" || string(out.Answer.Output) != `{"echo":"hi"}` {
		t.Errorf("output %s, %v", out.Answer.Output, err)
	}
	b = setupGuard(t, guarded(0, anAnswer, nil, "a"), map[string][]sim.Fault{"a": {{Kind: sim.NoFormat, FirstCall: 1}, {Text: `{"n":1}`, FirstCall: 1}}})
	wantEnd(t, b.attempt(), Answered, "")
	same(t, "requests", b.hits("a"), 2)
	wantEnd(t, b.attempt(), Answered, "")
	same(t, "requests with the next line", b.hits("a"), 3)
	same(t, "failures", b.status("a").Failures, 0)
}

// Case 21 under a schema: nothing in the answer is the model's failure, not an
// invalid answer, and is not repaired.
func TestCase21_UnderASchema(t *testing.T) {
	b := setupGuard(t, guarded(2, anAnswer, nil, "a"), map[string][]sim.Fault{"a": {{Kind: sim.EmptyChoices, FirstCall: 1}}})
	out := b.attempt()
	wantEnd(t, out, Failed, "unavailable")
	same(t, "requests", b.hits("a"), 2)
	same(t, "failures", b.status("a").Failures, 2)
	same(t, "judged", b.status("a").Judged, 0)
}
