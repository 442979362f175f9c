package ladder

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/provider"
)

func TestCandidates(t *testing.T) {
	const fence = "```"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"bare":                    {`{"a":1}`, []string{`{"a":1}`}},
		"bare number":             {" 12e3\n", []string{"12e3"}},
		"byte order mark":         {"\ufeff {\"a\":1}\r\n", []string{`{"a":1}`}},
		"space before the mark":   {"\n\ufeff[]", []string{`[]`}},
		"fenced":                  {fence + "json\n{\"a\": 1}\n" + fence, []string{`{"a": 1}`}},
		"without a label":         {fence + "\r\n[1]\r\n" + fence + "\r\n", []string{`[1]`}},
		"another label":           {fence + "JSON title=\"x\"\n[1]\n" + fence, []string{`[1]`}},
		"tildes":                  {"~~~\n[1]\n~~~", []string{`[1]`}},
		"a longer fence":          {"````json\n\"```\"\n````", []string{"\"```\""}},
		"closed by a longer one":  {fence + "\n[1]\n`````", []string{`[1]`}},
		"indented":                {"1. Here:\n   " + fence + "json\n   [1,\n   2]\n   " + fence, []string{"[1,\n   2]"}},
		"prose around":            {"Sure!\n\n" + fence + "json\n[1]\n" + fence + "\nThat is {all}.", []string{`[1]`}},
		"never closed":            {"Sure:\n" + fence + "json\n[1]\n", []string{`[1]`}},
		"in one line":             {fence + "json {\"a\":1}" + fence, []string{`{"a":1}`}},
		"other blocks beside":     {fence + "sh\nls\n" + fence + "\n" + fence + "json\n[1]\n" + fence, []string{`[1]`}},
		"several":                 {fence + "\n[1]\n" + fence + "\nor\n" + fence + "\n[2]\n" + fence, []string{`[1]`, `[2]`}},
		"fences within a value":   {"{\"a\":\"" + `\n` + fence + `json\n[1]\n` + fence + "\"}", []string{"{\"a\":\"" + `\n` + fence + `json\n[1]\n` + fence + "\"}"}},
		"prose alone":             {`The answer is {"a":1}.`, nil},
		"two values":              {`{"a":1} {"a":2}`, nil},
		"half a value":            {`{"a":1`, nil},
		"half in a fence":         {fence + "json\n{\"a\":\n" + fence, nil},
		"nothing":                 {" \n", nil},
		"empty block":             {fence + fence + fence, nil},
		"JSON5":                   {`{a:1,}`, nil},
		"more blocks than looked": {strings.Repeat(fence+"\nx\n"+fence+"\n", maxBlocks) + fence + "\n[1]\n" + fence, nil},
	} {
		got := candidates(tc.text)
		if strings.Join(got.texts, "|") != strings.Join(tc.want, "|") || len(got.texts) != len(tc.want) {
			t.Errorf("%s: %q, want %q", name, got.texts, tc.want)
		}
		if (got.why == "") != (len(tc.want) > 0) || len(got.why) > 200 {
			t.Errorf("%s: %q", name, got.why)
		}
	}
}

// Of several blocks the one that satisfies the schema counts; two leave it open.
func TestGuard_SeveralBlocks(t *testing.T) {
	block := func(text string) string { return "```json\n" + text + "\n```\n" }
	for text, want := range map[string]string{
		block(`{"n":"example"}`) + "so:\n" + block(`{"n":1}`): `{"n":1}`,
		block(`{"n":1}`) + "or\n" + block(`{"n":2}`):          "",
	} {
		b := setup(t, "a")
		b.says("a", said(text))
		out := b.run(b.ladder(guarded(0, anAnswer, nil, "a")), line())
		if want == "" {
			wantEnd(t, out, Final, "invalid_output")
			continue
		}
		wantEnd(t, out, Answered, "")
		same(t, "output", string(out.Answer.Output), want)
	}
}

// drawValue is any JSON value, written with white space here and there.
func drawValue(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", " ", "\n", "\r\n\t"}).Draw(t, "space")
	kinds := 5
	if depth == 0 {
		kinds = 3
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"1", "-0.10", "1e-7", "9007199254740993", "true", "null"}).Draw(t, "scalar")
	case 1, 2:
		b, err := json.Marshal(rapid.StringOf(rapid.SampledFrom([]rune("a`~\n{}[]\"\\ü\ufeff"))).Draw(t, "text"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	case 3:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawValue(t, depth-1))
		}
		return "[" + space + strings.Join(items, ","+space) + space + "]"
	}
	var members []string
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		members = append(members, rapid.SampledFrom([]string{`"a"`, `"b c"`, "\"```\""}).Draw(t, "key")+":"+space+drawValue(t, depth-1))
	}
	return "{" + space + strings.Join(members, ","+space) + "}"
}

// Any JSON value is found, as it is written, bare or as the one block of an
// answer, whatever prose without a fence stands around it.
func TestProperty_AValueIsFound(t *testing.T) {
	prose := rapid.StringOf(rapid.SampledFrom([]rune("ab {}[]\"1,:.\n`ü")))
	rapid.Check(t, func(rt *rapid.T) {
		value := drawValue(rt, 3)
		mark := rapid.SampledFrom([]string{"```", "~~~~", "``````"}).Draw(rt, "mark")
		text := value
		if rapid.Bool().Draw(rt, "fenced") {
			before := strings.ReplaceAll(prose.Draw(rt, "before"), "``", "")
			after := strings.ReplaceAll(prose.Draw(rt, "after"), "``", "")
			text = before + "\n" + mark + rapid.SampledFrom([]string{"", "json", " json5"}).Draw(rt, "label") + "\n" + value + "\n" + mark + "\n" + after
		}
		text = rapid.SampledFrom([]string{"", "\ufeff", " \n"}).Draw(rt, "start") + text + rapid.SampledFrom([]string{"", "\n "}).Draw(rt, "end")
		got := candidates(text)
		if len(got.texts) != 1 || got.texts[0] != value {
			rt.Fatalf("%q: found %q, want %q", text, got.texts, value)
		}
	})
}

func FuzzGuard(f *testing.F) {
	f.Add([]byte(said("```json\n{\"n\":1}\n```")), anAnswer)
	f.Add([]byte(cutOff("{")), `{"type":"object"}`)
	f.Add([]byte(`{"choices":[{"message":{"content":[{"text":1},{"text":"[]"}],"tool_calls":[{"id":1}],"function_call":[]},"finish_reason":7}]}`), `{}`)
	f.Add([]byte(`{"choices":null}`), `{"$ref":"#"}`)
	f.Add([]byte(`{"choices":[null,{}]}`), `{"not":{}}`)
	f.Fuzz(func(t *testing.T, body []byte, schema string) {
		b := setup(t, "a")
		l := b.ladder(guarded(0, "", []string{"x+y"}, "a"))
		g, err := l.guardOf(Request{Schema: json.RawMessage(schema), Body: body, Endpoint: provider.ChatCompletions})
		if err != nil || g == nil {
			return
		}
		started := time.Now()
		value, bad := g.check(provider.Answer{StatusCode: 200, Body: body})
		if bad == nil && value != nil && !json.Valid(value) {
			t.Fatalf("found %q in %q", value, body)
		}
		if bad != nil {
			if bad.why == "" || !bad.cut && bad.text == "" {
				t.Fatalf("%+v", bad)
			}
			for _, m := range bad.ask(json.RawMessage(schema)) {
				if !json.Valid(m) {
					t.Fatalf("asks with %q", m)
				}
			}
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Fatalf("it took %s", took)
		}
	})
}
