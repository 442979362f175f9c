package ladder

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// purposes are what the calls were for.
func (b *bundle) purposes() []Purpose {
	var all []Purpose
	for _, e := range b.events {
		all = append(all, e.Purpose)
	}
	return all
}

func (f *fakeBreakers) outputs(name string) []breaker.OutputVerdict {
	var all []breaker.OutputVerdict
	for _, r := range f.reports["p/"+name] {
		all = append(all, r.Output)
	}
	return all
}

func TestGuard_AValidAnswerIsTheOutput(t *testing.T) {
	b := setup(t, "a")
	b.says("a", said("Here:\n```json\n{\"n\": 1.10000000000000000001}\n```\nDone."))
	out := b.run(b.ladder(guarded(2, anAnswer, []string{"secret"}, "a")), line())
	wantEnd(t, out, Answered, "")
	same(t, "output", string(out.Answer.Output), `{"n": 1.10000000000000000001}`)
	same(t, "body", string(out.Answer.Body), said("Here:\n```json\n{\"n\": 1.10000000000000000001}\n```\nDone."))
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.Success})
	equal(t, "verdicts", b.breakers.outputs("a"), []breaker.OutputVerdict{breaker.ValidOutput})
}

func TestGuard_WithoutOneNobodyLooks(t *testing.T) {
	b := setup(t, "a")
	b.says("a", cutOff("half an answ"))
	out := b.run(b.ladder(guarded(2, "", nil, "a")), line())
	wantEnd(t, out, Answered, "")
	if out.Answer.Output != nil {
		t.Errorf("output %s", out.Answer.Output)
	}
	equal(t, "verdicts", b.breakers.outputs("a"), []breaker.OutputVerdict{breaker.Unjudged})
}

// An invalid answer is shown to the model with what is wrong with it; only its
// last one, each time from the line's own request.
func TestGuard_Repairs(t *testing.T) {
	b := setup(t, "a")
	b.says("a", said("no JSON"), said(`{"n":"1"}`), said(`{"n":1}`))
	out := b.run(b.ladder(guarded(2, anAnswer, nil, "a")), line())
	wantEnd(t, out, Answered, "")
	same(t, "output", string(out.Answer.Output), `{"n":1}`)
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.InvalidOutput, provider.InvalidOutput, provider.OK})
	equal(t, "purposes", b.purposes(), []Purpose{ForLine, ForRepair, ForRepair})
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.None, breaker.None, breaker.Success})
	equal(t, "verdicts", b.breakers.outputs("a"), []breaker.OutputVerdict{breaker.InvalidOutput, breaker.InvalidOutput, breaker.ValidOutput})
	equal(t, "checkpoints", b.journal.wrote, []int{1, 2})
	one := cost(b.models["p/a"].Price, provider.Usage{InputTokens: 100, OutputTokens: 10})
	same(t, "cost", out.Progress.Cost(), 3*one)
	if messages(t, b.request("a", 0)) != "" {
		t.Error("the first request is the line's own")
	}
	want := `[{"role":"user","content":"hi"},{"content":"no JSON","role":"assistant"},{"content":"This answer cannot be used: ` +
		`it is not JSON (invalid character 'o' in literal null (expecting 'u'))\nGive the whole answer again, corrected, and nothing else.","role":"user"}]`
	same(t, "first repair", messages(t, b.request("a", 1)), want)
	second := messages(t, b.request("a", 2))
	if strings.Contains(second, "no JSON") || !strings.Contains(second, `at /n: got string, want number`) || !strings.Contains(second, `{\"n\":\"1\"}`) {
		t.Errorf("second repair: %s", second)
	}
	keys := []string{b.request("a", 0).IdempotencyKey, b.request("a", 1).IdempotencyKey, b.request("a", 2).IdempotencyKey}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 3 {
		t.Errorf("idempotency keys %v", keys)
	}
}

// After the repairs the rung is out for this line, and its answers stay paid for.
func TestGuard_NextRungAfterTheRepairs(t *testing.T) {
	b := setup(t, "a", "b")
	b.says("a", said("no"))
	b.says("b", said(`{"n":2}`))
	l := b.ladder(guarded(1, anAnswer, nil, "a", "b"))
	out := b.run(l, line())
	wantEnd(t, out, Answered, "")
	same(t, "model", out.Answer.Model, "p/b")
	same(t, "degraded", out.Answer.Degraded, true)
	equal(t, "ruled out", out.Progress.RuledOut, []int{0})
	same(t, "calls to a", b.calls("a"), 2)
	if messages(t, b.request("b", 0)) != "" {
		t.Error("b was shown the answer of a")
	}
	r := line()
	r.Progress = out.Progress
	b.run(l, r)
	same(t, "calls to a of a later attempt", b.calls("a"), 2)
}

func TestGuard_LastRungIsFinal(t *testing.T) {
	for repairs := range 3 {
		b := setup(t, "a")
		b.says("a", said(`{"n":"secret"}`))
		out := b.run(b.ladder(guarded(repairs, anAnswer, nil, "a")), line())
		wantEnd(t, out, Final, "invalid_output")
		same(t, "calls", b.calls("a"), repairs+1)
		same(t, "message", out.Message, "invalid_output: status 200: the answer fails its schema at #/properties/n/type")
		if out.Response != nil || strings.Contains(out.Progress.Calls[0].Detail, "secret") {
			t.Errorf("response %v, detail %q", out.Response, out.Progress.Calls[0].Detail)
		}
	}
}

// An invalid answer is paid for, by the call too where no usage was reported.
func TestGuard_AnInvalidAnswerIsPriced(t *testing.T) {
	b := setup(t, "a")
	m := b.models["p/a"]
	m.Price = &config.Price{PerCall: 0.25}
	b.models["p/a"] = m
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) {
		return provider.Answer{StatusCode: 200, Body: json.RawMessage(said("no"))}, nil
	}
	out := b.run(b.ladder(guarded(1, anAnswer, nil, "a")), line())
	same(t, "cost", out.Progress.Cost(), provider.Dollars(0.5))
}

// A last resort that is a text is its author's word and not checked.
func TestGuard_TextsAreNotChecked(t *testing.T) {
	b := setup(t, "a")
	b.says("a", said("no"))
	c := guarded(0, anAnswer, []string{"Sorry"}, "a")
	c.Rungs = append(c.Rungs, nightly(1).Rungs...)
	c.Rungs = append(c.Rungs, textRung("Sorry."))
	out := b.run(b.ladder(c), line())
	wantEnd(t, out, Answered, "")
	same(t, "model", out.Answer.Model, "nightshift/text")
	if out.Answer.Output != nil {
		t.Errorf("output %s", out.Answer.Output)
	}
}

func TestCase20_CutOffUnderASchemaIsNotRepeated(t *testing.T) {
	for name, body := range map[string]string{
		"half a value":     cutOff(`{"n": 1`),
		"a value all same": cutOff(`{"n": 1}`), // who knows whether it was to be 12
		"no text at all":   `{"choices":[{"message":{"content":null},"finish_reason":"length"}]}`,
		"other words":      choices(choiceOf(`{"n":`, "MAX_TOKENS")),
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "a", "b")
			b.says("a", body)
			b.says("b", said(`{"n":2}`))
			out := b.run(b.ladder(guarded(2, anAnswer, nil, "a", "b")), line())
			wantEnd(t, out, Answered, "")
			equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.InvalidOutput, provider.OK})
			same(t, "answered by", out.Answer.Model, "p/b")

			b = setup(t, "a")
			b.says("a", body)
			wantEnd(t, b.run(b.ladder(guarded(2, anAnswer, nil, "a")), line()), Final, "invalid_output")
			same(t, "calls", b.calls("a"), 1)
		})
	}
}

func TestGuard_Deny(t *testing.T) {
	tool := `{"message":{"content":null,"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"to\":\"secret-1\"}"}}]},"finish_reason":"tool_calls"}`
	for name, tc := range map[string]struct {
		body   string
		denied bool
	}{
		"clean":               {said("nothing"), false},
		"cut off":             {cutOff("nothi"), false},
		"text":                {said("a secret-1"), true},
		"any choice":          {choices(choiceOf("fine", "stop"), choiceOf("secret-2", "stop")), true},
		"parts":               {`{"choices":[{"message":{"content":[{"type":"text","text":"sec"},{"type":"text","text":"ret-3"}]}}]}`, true},
		"arguments of a tool": {choices(tool), true},
		"an old function":     {`{"choices":[{"message":{"content":"","function_call":{"name":"f","arguments":"secret-1"}}}]}`, true},
		"escapes in JSON":     {said(`{"n":1e999,"to":"s\u0065cret-1"}`), true},
		"escapes in a fence":  {said("```json\n{\"s\\u0065cret-1\":1}\n```"), true},
		"escapes of a tool":   {choices(strings.Replace(tool, "secret", `s\\u0065cret`, 1)), true},
		"another field":       {`{"secret-1":1,"choices":[{"message":{"content":"fine"}}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "a")
			b.says("a", tc.body)
			out := b.run(b.ladder(guarded(1, "", []string{"nothing here", `secret-\d`}, "a")), line())
			if !tc.denied {
				wantEnd(t, out, Answered, "")
				return
			}
			wantEnd(t, out, Final, "invalid_output")
			same(t, "message", out.Message, "invalid_output: status 200: the answer holds what deny[1] forbids")
			same(t, "calls", b.calls("a"), 2)
			if asked := messages(t, b.request("a", 1)); !strings.Contains(asked, `nothing in it may match the regular expression secret-\\d`) {
				t.Errorf("asked again with %s", asked)
			}
			if _, told := b.request("a", 0).Set["response_format"]; told {
				t.Error("a response_format without a schema")
			}
		})
	}
}

// A repaired tool call is answered as tools answer.
func TestGuard_RepairsAToolCall(t *testing.T) {
	call := `{"message":{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"n\":\"x\"}"}}]},"finish_reason":"tool_calls"}`
	b := setup(t, "a")
	b.says("a", choices(call), choices(strings.Replace(call, `\"x\"`, `7`, 1)))
	out := b.run(b.ladder(guarded(1, anAnswer, nil, "a")), line())
	wantEnd(t, out, Answered, "")
	same(t, "output", string(out.Answer.Output), `{"n":7}`)
	asked := messages(t, b.request("a", 1))
	for _, want := range []string{`"tool_calls":[{"id":"c1"`, `"role":"tool"`, `"tool_call_id":"c1"`} {
		if !strings.Contains(asked, want) {
			t.Errorf("no %s in %s", want, asked)
		}
	}
}

func TestGuard_SeveralChoices(t *testing.T) {
	b := setup(t, "a")
	b.says("a", choices(choiceOf("no", "stop"), choiceOf(`{"n":1`, "length"), choiceOf(`{"n":2}`, "stop"), choiceOf(`{"n":3}`, "stop")))
	out := b.run(b.ladder(guarded(0, anAnswer, nil, "a")), line())
	wantEnd(t, out, Answered, "")
	same(t, "output", string(out.Answer.Output), `{"n":2}`)
	b.says("a", choices(choiceOf(`{"n":1`, "length"), choiceOf("no", "stop")))
	b.run(b.ladder(guarded(1, anAnswer, nil, "a")), line())
	same(t, "calls", b.calls("a"), 3) // one of them was whole, and worth asking again
}

// The default of max_calls leaves room for the repairs of every pass, and a
// max_calls of the ladder's own does not.
func TestGuard_RepairsCountAsCalls(t *testing.T) {
	b := setup(t, "a")
	b.says("a", said("no"))
	c := guarded(5, anAnswer, nil, "a")
	r := line()
	r.Retries = 0
	wantEnd(t, b.run(b.ladder(c), r), Final, "invalid_output")
	same(t, "calls", b.calls("a"), 6)
	b = setup(t, "a")
	b.says("a", said("no"))
	c.MaxCalls = 3
	out := b.run(b.ladder(c), r)
	wantEnd(t, out, Final, "calls_exhausted")
	same(t, "calls within max_calls", b.calls("a"), 3)
}

// A breaker that opens meanwhile, a park, and the worker's stop end a repair as
// they end any call.
func TestGuard_RepairsPassTheGates(t *testing.T) {
	b := setup(t, "a")
	b.says("a", said("no"))
	stop := make(chan struct{})
	r := line()
	r.Stop = stop
	b.callers["p/a"].takes = 0
	l := b.ladder(guarded(2, anAnswer, nil, "a"))
	reply := b.callers["p/a"].reply
	b.callers["p/a"].reply = func(ctx context.Context, n int, q provider.Request) (provider.Answer, error) {
		b.open("a", 1)
		return reply(ctx, n, q)
	}
	out := b.run(l, r)
	wantEnd(t, out, Deferred, "")
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.InvalidOutput})
	delete(b.breakers.open, "p/a")
	b.callers["p/a"].reply = func(ctx context.Context, n int, q provider.Request) (provider.Answer, error) {
		close(stop)
		return reply(ctx, n, q)
	}
	r.Progress = out.Progress
	wantEnd(t, b.run(l, r), Interrupted, "")
	same(t, "calls", b.calls("a"), 2)
}

// Invalid answers of earlier attempts count: a deferral does not buy repairs anew.
func TestGuard_RepairsAreOfTheLine(t *testing.T) {
	b := setup(t, "a")
	b.says("a", said("no"))
	r := line()
	r.Progress.Calls = []provider.Call{{Model: "p/a", Kind: provider.InvalidOutput}, {Model: "p/a", Kind: provider.InvalidOutput}}
	wantEnd(t, b.run(b.ladder(guarded(2, anAnswer, nil, "a")), r), Final, "invalid_output")
	same(t, "calls", b.calls("a"), 1)
}

// What fails by what a repair adds says nothing about the line's own request.
func TestGuard_ARepairThatIsRefused(t *testing.T) {
	for _, kind := range []provider.Kind{provider.InvalidRequest, provider.ContextExceeded, provider.ContentFiltered} {
		b := setup(t, "a", "b", "c")
		b.models["p/b"] = withContext(b.models["p/b"], 10)
		b.says("c", said(`{"n":3}`))
		for _, name := range []string{"a", "b"} {
			b.says(name, said("no"))
			reply := b.callers["p/"+name].reply
			b.callers["p/"+name].reply = func(ctx context.Context, n int, q provider.Request) (provider.Answer, error) {
				if n > 0 {
					return provider.Answer{}, &provider.Error{Kind: kind, StatusCode: 400, Message: "no"}
				}
				return reply(ctx, n, q)
			}
		}
		out := b.run(b.ladder(guarded(2, anAnswer, nil, "a", "b", "c")), line())
		wantEnd(t, out, Answered, "")
		same(t, "model", out.Answer.Model, "p/c")
		equal(t, "ruled out", out.Progress.RuledOut, []int{0, 1})
		same(t, "calls to b", b.calls("b"), 2)
		same(t, "what c was shown of b", messages(t, b.request("c", 0)), "")
	}
}

// A failure that passes is tried again as the repair that it was.
func TestGuard_ARepairIsTriedAgain(t *testing.T) {
	b := setup(t, "a")
	b.says("a", said("no"), said(""), said(`{"n":1}`))
	reply := b.callers["p/a"].reply
	b.callers["p/a"].reply = func(ctx context.Context, n int, q provider.Request) (provider.Answer, error) {
		if n == 1 {
			return provider.Answer{}, down()
		}
		return reply(ctx, n, q)
	}
	out := b.run(b.ladder(guarded(1, anAnswer, nil, "a")), line())
	wantEnd(t, out, Answered, "")
	same(t, "the same conversation", messages(t, b.request("a", 2)), messages(t, b.request("a", 1)))
}

func TestGuard_AHugeAnswerIsNotShownAgain(t *testing.T) {
	b := setup(t, "a")
	b.says("a", said(strings.Repeat("x", maxShown)))
	wantEnd(t, b.run(b.ladder(guarded(2, anAnswer, nil, "a")), line()), Final, "invalid_output")
	same(t, "calls", b.calls("a"), 1)
}

func TestGuard_SchemasOfLines(t *testing.T) {
	strict := `{"messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"array"}}}}`
	for name, tc := range map[string]struct {
		schema, body, answer string
		valid                bool
	}{
		"its own wins":             {`{"type":"array"}`, `{}`, `[]`, true},
		"the ladder's":             {``, `{}`, `[]`, false},
		"strict in the body":       {``, strict, `[]`, true},
		"strict wins too":          {``, strict, `{"n":1}`, false},
		"a hint in the body":       {``, strings.Replace(strict, "true", "false", 1), `{"n":1}`, true},
		"none of Go's expressions": {``, strings.Replace(strict, `"array"`, `"array","pattern":"(?=a)"`, 1), `{"n":1}`, true},
	} {
		b := setup(t, "a")
		b.says("a", said(tc.answer))
		r := line()
		r.Body, r.Schema = json.RawMessage(tc.body), json.RawMessage(tc.schema)
		out := b.run(b.ladder(guarded(0, anAnswer, nil, "a")), r)
		if valid := out.End == Answered; valid != tc.valid {
			t.Errorf("%s: ended in %d, %s", name, out.End, out.Message)
		}
	}
	b := setup(t, "a")
	r := line()
	r.Schema = json.RawMessage(`{"type":"text"}`)
	wantEnd(t, b.run(b.ladder(nightly(1, "a")), r), Final, "invalid_request")
	same(t, "calls", b.calls("a"), 0)
}
