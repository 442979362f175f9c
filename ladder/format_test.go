package ladder

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"nightshift/config"
	"nightshift/provider"
)

func format(r provider.Request) string {
	v, ok := r.Set["response_format"]
	if !ok {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

const formatOfAnAnswer = `{"json_schema":{"name":"answer","schema":` + anAnswer + `},"type":"json_schema"}`

func TestFormat_TellsTheSchema(t *testing.T) {
	own := func(c *config.Rung) { c.Set = map[string]any{"response_format": map[string]any{"type": "json_object"}} }
	for name, tc := range map[string]struct {
		body string
		rung func(*config.Rung)
		want string
	}{
		"plain":            {`{"messages":[]}`, nil, formatOfAnAnswer},
		"null":             {`{"messages":[],"response_format":null}`, nil, formatOfAnAnswer},
		"in a message":     {`{"messages":["\"response_format\""]}`, nil, formatOfAnAnswer},
		"the line's own":   {`{"messages":[],"response_format":{"type":"json_object"}}`, nil, ""},
		"the rung's own":   {`{"messages":[]}`, own, `{"type":"json_object"}`},
		"the rung drops":   {`{"messages":[]}`, func(c *config.Rung) { c.Drop = []string{"response_format"} }, ""},
		"the rung sets on": {`{"messages":[]}`, func(c *config.Rung) { c.Set = map[string]any{"seed": 1} }, formatOfAnAnswer},
	} {
		b := setup(t, "a")
		b.says("a", said(`{"n":1}`))
		c := guarded(0, anAnswer, nil, "a")
		if tc.rung != nil {
			tc.rung(&c.Rungs[0])
		}
		r := line()
		r.Body = json.RawMessage(tc.body)
		wantEnd(t, b.run(b.ladder(c), r), Answered, "")
		same(t, name, format(b.request("a", 0)), tc.want)
		if _, ok := c.Rungs[0].Set["messages"]; ok {
			t.Error("the rung's own fields were changed")
		}
	}
}

// refusing makes a model refuse every request with a response_format.
func (b *bundle) refusing(name string, e *provider.Error, body string) {
	b.callers["p/"+name].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		if format(r) != "" {
			return provider.Answer{}, e
		}
		ans, err := answers(ctx, n, r)
		ans.Body = json.RawMessage(body)
		return ans, err
	}
}

// A model that does not take the field is asked without it, at once and from
// then on; the refusal cost nothing and breaks nothing.
func TestFormat_FallsBackAndRemembers(t *testing.T) {
	for name, e := range map[string]*provider.Error{
		"named":       {Kind: provider.InvalidRequest, StatusCode: 400, Parameter: "response_format"},
		"in the text": {Kind: provider.InvalidRequest, StatusCode: 400, Body: []byte(`{"error":{"message":"Invalid schema for response_format 'answer'"}}`)},
		"no word":     {Kind: provider.InvalidRequest, StatusCode: 422, Body: []byte(`{"detail":"bad"}`)},
		"any field":   {Kind: provider.InvalidRequest, StatusCode: 400, Parameter: "body"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "a")
			b.refusing("a", e, said(`{"n":1}`))
			l := b.ladder(guarded(0, anAnswer, nil, "a"))
			r := line()
			r.Retries = 0
			out := b.run(l, r)
			wantEnd(t, out, Answered, "")
			equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.InvalidRequest, provider.OK})
			same(t, "slept", len(b.slept), 0)
			wantEnd(t, b.run(l, r), Answered, "")
			same(t, "calls", b.calls("a"), 3)
			if a, z := b.request("a", 0), b.request("a", 2); a.IdempotencyKey == z.IdempotencyKey {
				t.Error("the first call of a line has one key with the field and without")
			}
			if a, z := b.request("a", 0), b.request("a", 1); a.IdempotencyKey == z.IdempotencyKey {
				t.Error("two bodies under one key")
			}
		})
	}
}

// A model that took a schema before is not doubted for a refusal that says
// nothing of it, and one that refuses both ways fails the line by its own word.
func TestFormat_OtherRefusalsAreTheLines(t *testing.T) {
	e := &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Message: "bad", Body: []byte(`{"error":"bad"}`)}
	b := setup(t, "a")
	b.says("a", said(`{"n":1}`))
	l := b.ladder(guarded(0, anAnswer, nil, "a"))
	wantEnd(t, b.run(l, line()), Answered, "")
	b.script("a", e)
	wantEnd(t, b.run(l, line()), Final, "invalid_request")
	same(t, "calls", b.calls("a"), 2)

	b = setup(t, "a")
	b.script("a", e)
	l = b.ladder(guarded(0, anAnswer, nil, "a"))
	wantEnd(t, b.run(l, line()), Final, "invalid_request")
	same(t, "calls", b.calls("a"), 2)
	same(t, "format of a doubted model", format(b.request("a", 1)), "")
	b.says("a", said(`{"n":1}`))
	wantEnd(t, b.run(l, line()), Answered, "")
	same(t, "format afterwards", format(b.request("a", 2)), formatOfAnAnswer)
}

// A refusal can quote its line. Words of a prompt must not keep the schema from
// the lines after it.
func TestFormat_AQuotedPromptTeachesNothing(t *testing.T) {
	b := setup(t, "a")
	b.script("a", &provider.Error{
		Kind: provider.InvalidRequest, StatusCode: 400,
		Body: []byte(`{"detail":[{"msg":"bad role","input":{"role":"x","content":"check my grammar"}}]}`),
	})
	l := b.ladder(guarded(0, anAnswer, nil, "a"))
	wantEnd(t, b.run(l, line()), Final, "invalid_request")
	b.says("a", said(`{"n":1}`))
	wantEnd(t, b.run(l, line()), Answered, "")
	same(t, "format of the next line", format(b.request("a", b.calls("a")-1)), formatOfAnAnswer)
}

// A model without the field learns the schema from the first repair.
func TestFormat_ARepairTellsTheSchema(t *testing.T) {
	b := setup(t, "a")
	b.refusing("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Parameter: "response_format"}, said("no"))
	b.run(b.ladder(guarded(1, anAnswer, nil, "a")), line())
	same(t, "calls", b.calls("a"), 3)
	if asked := messages(t, b.request("a", 2)); !strings.Contains(asked, `It must be JSON that satisfies this schema:\n{\"type\":\"object\"`) {
		t.Errorf("asked again with %s", asked)
	}
}

// Schemas of lines: one that is refused says little about the next; three do.
func TestFormat_ManySchemas(t *testing.T) {
	b := setup(t, "a")
	b.refusing("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Parameter: "response_format"}, said(`[]`))
	l := b.ladder(nightly(1, "a"))
	for i := range 6 {
		r := line()
		r.Schema = fmt.Appendf(nil, `{"title":"%d","type":"array"}`, i)
		wantEnd(t, b.run(l, r), Answered, "")
	}
	same(t, "calls", b.calls("a"), 3*2+3)
	f := l.output.formats
	for range maxRefused {
		f.refuse("at once", [32]byte{})
	}
	if !f.taken("at once", [32]byte{1}) {
		t.Error("one schema that many calls were refused for counts as many")
	}
	for i := range 2 * maxRemembered {
		f.refuse("m", [32]byte{byte(i), byte(i >> 8)})
	}
	if len(f.schemas) > maxRemembered {
		t.Errorf("it remembers %d schemas", len(f.schemas))
	}
	f.accept("m")
	if !f.taken("m", [32]byte{9, 9, 9}) || !f.known("m") {
		t.Error("a model that takes schemas is not sent them")
	}
}
