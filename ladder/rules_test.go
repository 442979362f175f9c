package ladder

import (
	"encoding/json"
	"testing"

	"nightshift/config"
	"nightshift/provider"
)

func TestRulesAnswerLinesThatMatch(t *testing.T) {
	rules := config.Rung{Rules: []config.Rule{
		{Match: "(?i)unsubscribe", Text: "Done, {{.custom_id}}."},
		{Match: "^hi$", Text: "Hello, {{.metadata.title}}."},
		{Match: "h", Text: "never first"},
	}}
	for _, tc := range []struct{ body, want string }{
		{`{"messages":[{"role":"user","content":"hi"}]}`, "Hello, Moby Dick."},
		{`{"messages":[{"role":"user","content":"Please UNSUBSCRIBE me, hi"}]}`, "Done, row-7."},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, "Hello, Moby Dick."},
		{`{"messages":[{"role":"user","content":[{"type":"image_url"},{"type":"text","text":"un"},{"type":"text","text":"hi"}]}]}`, "never first"},
		{`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"unsubscribe"}]}`, "Hello, Moby Dick."},
		{`{"messages":[{"role":"user","content":"hi"},{"role":"user","content":"no"}]}`, ""},
		{`{"messages":[{"role":"system","content":"hi"}]}`, ""},
		{`{"messages":[{"role":"user","content":7}]}`, ""},
		{`{"messages":7}`, ""},
	} {
		b := setup(t)
		r := line()
		r.Body = json.RawMessage(tc.body)
		c := nightly(1)
		c.Rungs = []config.Rung{rules, {Text: "other"}}
		out := b.run(b.ladder(c), r)
		wantEnd(t, out, Answered, "")
		var got struct {
			Model   string
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.Unmarshal(out.Answer.Body, &got); err != nil {
			t.Fatal(err)
		}
		want, rung := tc.want, 0
		if want == "" {
			want, rung = "other", 1
		}
		same(t, tc.body, got.Choices[0].Message.Content, want)
		same(t, "rung", out.Answer.Rung, rung)
		same(t, "model", got.Model, "nightshift/text")
		same(t, "degraded", out.Answer.Degraded, true)
		same(t, "cost", out.Progress.Cost(), 0)
	}
}

// Rules above a model answer what they match and let the rest go on.
func TestRulesAboveAModel(t *testing.T) {
	b := setup(t, "a")
	c := nightly(1)
	c.Rungs = []config.Rung{{Rules: []config.Rule{{Match: "bye", Text: "Bye."}}}, {Model: "p/a"}}
	out := b.run(b.ladder(c), line())
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, "p/a")
}

func FuzzLastInput(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"hi"}]}`)
	f.Add(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},null]}]}`)
	f.Add(`{"messages":[null,{"content":{}}]}`)
	f.Add(`{"prompt":["a",[1,2],null],"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},1]}`)
	f.Fuzz(func(_ *testing.T, body string) {
		for _, endpoint := range provider.Endpoints() {
			lastInput(endpoint, json.RawMessage(body))
		}
	})
}
