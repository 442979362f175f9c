package ladder

import (
	"encoding/json"
	"maps"
	"slices"

	"nightshift/provider"
)

// guarding is what an attempt knows of its line's guard.
type guarding struct {
	guard *guard // nil: every answer will do
	// fault is what is wrong with the last answer of this rung, once the model
	// is to be asked again.
	fault *fault
	// plain says that this rung's calls go without a response_format of ours.
	plain bool
	// doubted says that a call with it was refused, maybe for something else.
	doubted bool
}

// arm looks up the guard of the line. A schema that does not compile was refused
// when the line was submitted, unless by another version.
func (a *attempt) arm() move {
	g, err := a.l.guardOf(a.r)
	if err != nil {
		return a.final(string(provider.InvalidRequest), err.Error(), nil)
	}
	a.guard = g
	return proceed
}

// extraCalls is what a guard adds to the calls of full passes: its repairs, and
// a call that finds out that a model takes no response_format.
func (a *attempt) extraCalls() int {
	if a.guard == nil || a.l.maxCalls > 0 {
		return 0
	}
	models := 0
	for i := range a.l.rungs {
		if a.l.rungs[i].caller != nil {
			models++
		}
	}
	return models * (a.l.output.repairs + 1) * (max(a.r.Retries, 0) + 1)
}

// enter forgets what concerns the rung before.
func (g *guarding) enter() { *g = guarding{guard: g.guard} }

const (
	// maxShown is the longest answer that a model is shown again, in bytes; a
	// longer one is not repaired.
	maxShown = 256 << 10
	// maxToldSchema is the longest schema that stands in a repair.
	maxToldSchema = 8 << 10
)

// variant says how a request departs from the plain one; the values are part of
// idempotency keys.
type variant struct{ format, repair bool }

// shape makes a request one that the guard's line needs: with the schema as its
// response_format where the line has none of its own, and with the model's own
// answer and what is wrong with it where it is asked again.
func (a *attempt) shape(r *rung, req *provider.Request) variant {
	v := variant{format: a.wantsFormat(r), repair: a.fault != nil}
	if !v.format && !v.repair {
		return v
	}
	req.Set = maps.Clone(req.Set)
	if req.Set == nil {
		req.Set = map[string]any{}
	}
	if v.format {
		req.Set["response_format"] = responseFormat(a.guard.text)
	}
	if v.repair {
		a.repair(req, v.format)
	}
	req.IdempotencyKey = a.idempotencyKey(r, v)
	return v
}

// purpose is what the next call of the rung is for.
func (a *attempt) purpose() Purpose {
	if a.fault != nil {
		return ForRepair
	}
	return ForLine
}

// repair sets the conversation with the model's own answer and what is wrong with
// it. Only the last answer is in it: each round costs as much as the one before.
func (a *attempt) repair(req *provider.Request, told bool) {
	var body struct {
		Messages []json.RawMessage `json:"messages"`
		Input    json.RawMessage   `json:"input"`
	}
	_ = json.Unmarshal(req.Body, &body) // it was read when the line was submitted
	schema := a.schemaToTell(told)
	if a.r.Endpoint == provider.Responses {
		req.Set["input"] = append(itemsOf(body.Input), a.fault.askItems(schema)...)
		return
	}
	req.Set["messages"] = append(body.Messages, a.fault.ask(schema)...)
}

// schemaToTell is the schema where the model has not been told of it otherwise.
func (a *attempt) schemaToTell(told bool) json.RawMessage {
	if told || len(a.guard.text) > maxToldSchema {
		return nil
	}
	return a.guard.text
}

// ask is the model's message and the request to correct it. Tool calls are
// answered as tools answer, which the APIs insist on.
func (f *fault) ask(schema json.RawMessage) []json.RawMessage {
	said := map[string]any{"role": "assistant", "content": f.message.text()}
	text := f.askText(schema)
	calls := f.message.calls()
	if len(calls) == 0 {
		return encodeAll(said, map[string]any{"role": "user", "content": text})
	}
	said["tool_calls"] = f.message.ToolCalls
	all := []any{said}
	for _, c := range calls {
		all = append(all, map[string]any{"role": "tool", "tool_call_id": c.ID, "content": text})
	}
	return encodeAll(all...)
}

// askItems is ask as items of a response's input.
func (f *fault) askItems(schema json.RawMessage) []json.RawMessage {
	var all []any
	text := f.askText(schema)
	if said := f.message.text(); said != "" {
		all = append(all, map[string]any{"role": "assistant", "content": said})
	}
	calls := f.message.calls()
	for _, c := range calls {
		arguments := "arguments"
		if c.Type == "custom_tool_call" {
			arguments = "input"
		}
		all = append(all, map[string]any{"type": c.Type, "call_id": c.ID, "name": c.Function.Name, arguments: c.Function.Arguments})
	}
	for _, c := range calls {
		all = append(all, map[string]any{"type": c.Type + "_output", "call_id": c.ID, "output": text})
	}
	if len(calls) == 0 {
		all = append(all, map[string]any{"role": "user", "content": text})
	}
	return encodeAll(all...)
}

func (f *fault) askText(schema json.RawMessage) string {
	text := "This answer cannot be used: " + f.text + "\nGive the whole answer again, corrected, and nothing else."
	if len(schema) > 0 {
		text += "\nIt must be JSON that satisfies this schema:\n" + string(schema)
	}
	return text
}

func encodeAll(messages ...any) []json.RawMessage {
	var all []json.RawMessage
	for _, m := range messages {
		b, err := encode(m)
		if err == nil { // texts and what was JSON before always encode
			all = append(all, b)
		}
	}
	return all
}

// inspect has the guard look at an answer: the value that satisfies the schema,
// or what is wrong with it.
func (a *attempt) inspect(ans provider.Answer) (json.RawMessage, *fault) {
	if a.guard == nil {
		return nil, nil
	}
	return a.guard.check(ans)
}

// unfit is what becomes of a line whose answer is not valid: the model is asked
// again while the line's repairs for it last, then the rung is out. An answer
// that was cut off is not asked for again: it would be cut off again. Nor is the
// completion of a text, which is no conversation.
func (a *attempt) unfit(r *rung, f *fault, e *provider.Error) move {
	f.last, a.fault = e, nil
	repairable := !f.cut && a.r.Endpoint != provider.Completions && len(f.message.Content)+len(f.message.ToolCalls) <= maxShown
	if !repairable || a.invalidAnswers(r) > a.l.output.repairs {
		return a.ruleOut(e, r.index)
	}
	a.fault = f
	return again
}

// invalidAnswers counts the model's invalid answers to this line, in earlier
// attempts too, so that a deferral does not buy them anew.
func (a *attempt) invalidAnswers(r *rung) int {
	n := 0
	for _, c := range a.out.Progress.Calls {
		if c.Model == r.key.Model && c.Kind == provider.InvalidOutput {
			n++
		}
	}
	return n
}

// repairRefused says that a call failed by what a repair added to the line's own
// request, which is longer, and shows the model what it said itself.
func (a *attempt) repairRefused(v variant, e *provider.Error) bool {
	return v.repair && slices.Contains([]verdict{refused, tooLong, filtered}, meanings[e.Kind].verdict)
}
