package ladder

import (
	"encoding/json"
	"strings"
	"testing"

	"nightshift/config"
)

func textOf(t *testing.T, r Request, text string) (Outcome, string) {
	t.Helper()
	b := setup(t)
	out := b.run(b.ladder(config.Ladder{Name: "n", Rungs: []config.Rung{{Text: text}}}), r)
	if out.End != Answered {
		return out, ""
	}
	var body struct {
		Choices []struct {
			Message struct{ Role, Content string } `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(out.Answer.Body, &body); err != nil || len(body.Choices) != 1 {
		t.Fatalf("body %s: %v", out.Answer.Body, err)
	}
	return out, body.Choices[0].Message.Content
}

func TestTextsOverTheLine(t *testing.T) {
	r := line()
	r.Body = json.RawMessage(`{"n":1000000,"x":[1,{"a":"<b>"}],"no":null}`)
	for _, tc := range []struct{ text, want string }{
		{"No answer.", "No answer."},
		{"{{.custom_id}}: {{.metadata.title}}, {{.metadata.year}}", "row-7: Moby Dick, 1851"},
		{"{{.body.n}} {{.body.x}}", `1000000 [1,{"a":"<b>"}]`},
		{"<{{.metadata.none}}|{{.none}}|{{.body.no}}>", "<||>"},
		{"{{if .metadata.none}}yes{{else}}no {{.metadata.none}}{{end}}", "no "},
		{"{{with .metadata.title}}{{.}}{{end}}{{range .body.x}}-{{.}}{{end}}", `Moby Dick-1-{"a":"<b>"}`},
		{"{{with .custom_id}}<{{$.metadata.none}}>{{else}}{{end}}", "<>"},
		{"{{range .body.x}}{{$.none}}.{{else}}{{end}}", ".."},
		{"{{if .custom_id}}<{{.none}}>{{end}}", "<>"},
		{"{{if .none}}{{else}}<{{.none}}>{{end}}", "<>"},
		{`{{$x := .body.x}}{{len $x}}`, "2"},
		{`{{$t := .metadata.title}}{{printf "%.4s" $t}}`, "Moby"},
		{`{{define "x"}}[{{.none}}]{{end}}{{template "x" .metadata}}`, "[]"},
		{"a <b> & \"c\"\n", "a <b> & \"c\"\n"},
	} {
		if _, got := textOf(t, r, tc.text); got != tc.want {
			t.Errorf("%s\n got %q\nwant %q", tc.text, got, tc.want)
		}
	}
	r.Body, r.Metadata = nil, nil
	if _, got := textOf(t, r, "<{{.metadata.title}}>"); got != "<>" {
		t.Errorf("without metadata: %q", got)
	}
}

func TestTextAnswerIsAChatCompletion(t *testing.T) {
	out, _ := textOf(t, line(), "<Hello>")
	a := out.Answer
	if a.Provider != "nightshift" || a.Model != "nightshift/text" || a.Tier != "" || !a.Degraded || a.StatusCode != 200 {
		t.Errorf("answer %+v", a)
	}
	want := `{"id":"nightshift-b1:7.0","object":"chat.completion","created":1772402400,"model":"nightshift/text",` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":"<Hello>"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`
	same(t, "body", string(a.Body), want)
	same(t, "cost", out.Progress.Cost(), 0)
	same(t, "calls", len(out.Progress.Calls), 0)
}

func TestATextThatDoesNotFitIsRuledOut(t *testing.T) {
	out, _ := textOf(t, line(), "{{.metadata.title.deeper}}")
	wantEnd(t, out, Final, "invalid_output")

	b := setup(t, "a")
	b.open("a", 0)
	c := nightly(1, "a")
	c.Rungs = append(c.Rungs, config.Rung{Text: "{{index .metadata.year 5}}"})
	out = b.run(b.ladder(c), line())
	wantEnd(t, out, Deferred, "")
	equal(t, "ruled out", out.Progress.RuledOut, []int{1})
	equal(t, "a breaker without a time", out.Waits, []Wait{{Model: "p/a", Reason: ReasonBreaker}})
	if log := b.log.String(); !strings.Contains(log, "does not fit the line") || strings.Contains(log, "Moby") {
		t.Errorf("log: %s", log)
	}
}

func FuzzText(f *testing.F) {
	f.Add("{{.metadata.title}}", `{"title":"x"}`)
	f.Add("{{range .metadata}}{{.}}{{end}}", `[1,2,{}]`)
	f.Add("{{with $x := .body}}{{$x}}{{else with .metadata}}{{.}}{{end}}", `null`)
	f.Add("{{block \"b\" .}}{{break}}{{end}}", `0`)
	f.Fuzz(func(t *testing.T, text, metadata string) {
		if strings.Contains(text, "{{") && (strings.Contains(text, "template") || strings.Contains(text, "block") || strings.Contains(text, "range")) {
			return // may recurse or run long, which the author of a configuration would notice
		}
		b := setup(t)
		l, err := New(Options{
			Ladder: config.Ladder{Rungs: []config.Rung{{Text: text}}},
			Gate:   b.gate(b.breakers), Sleeper: b,
		})
		if err != nil {
			return
		}
		r := line()
		r.Metadata = json.RawMessage(metadata)
		out := b.run(l, r)
		if out.End == Answered && !json.Valid(out.Answer.Body) {
			t.Errorf("body %q is no JSON", out.Answer.Body)
		}
	})
}
