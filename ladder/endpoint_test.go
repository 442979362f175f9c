package ladder

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// to is the line as a request to another endpoint.
func to(endpoint, body string) Request {
	r := line()
	r.Endpoint, r.Body = endpoint, json.RawMessage(body)
	return r
}

// setupAPIs makes models of an Anthropic provider and, after them, of
// OpenAI's family.
func setupAPIs(t *testing.T, chatOnly, all []string) *bundle {
	b := setup(t, append(append([]string{}, chatOnly...), all...)...)
	b.providers = map[string]config.Provider{"p": {API: "openai"}, "claude": {API: "anthropic"}}
	for _, name := range chatOnly {
		m := b.models["p/"+name]
		m.Provider = "claude"
		b.models["p/"+name] = m
	}
	return b
}

func TestRungsWithoutTheEndpointAreSkipped(t *testing.T) {
	for _, endpoint := range provider.Endpoints() {
		b := setupAPIs(t, []string{"claude"}, []string{"gpt"})
		out := b.run(b.ladder(nightly(1, "claude", "gpt")), to(endpoint, `{"input":"x","prompt":"x","messages":[{"role":"user","content":"x"}]}`))
		wantEnd(t, out, Answered, "")
		same(t, endpoint+": degraded", out.Answer.Degraded, false)
		if endpoint == provider.ChatCompletions {
			same(t, "by", out.Answer.Model, "p/claude")
			continue
		}
		same(t, endpoint+": by", out.Answer.Model, "p/gpt")
		equal(t, endpoint, whys(out), []string{"p/claude: its provider claude does not have " + endpoint})
		same(t, endpoint+": calls of the other", b.calls("claude"), 0)
	}
}

func TestALineThatNoRungServes(t *testing.T) {
	b := setupAPIs(t, []string{"claude"}, nil)
	c := nightly(1, "claude")
	c.Rungs = append(c.Rungs, textRung("Sorry."))
	out := b.run(b.ladder(c), to(provider.Embeddings, `{"input":"x"}`))
	wantEnd(t, out, Final, "invalid_request")
	same(t, "message", out.Message, "no rung of the ladder can answer this line: a text cannot stand in for the answer of /v1/embeddings")
	equal(t, "reasons", whys(out), []string{
		"p/claude: its provider claude does not have /v1/embeddings",
		"nightshift/text: a text cannot stand in for the answer of /v1/embeddings",
	})
}

// A rung that comes after an outage is the first one of a line that those above
// cannot serve.
func TestAfterAnUnservedRung(t *testing.T) {
	b := setupAPIs(t, []string{"claude"}, []string{"gpt"})
	c := nightly(1, "claude", "gpt")
	c.Rungs[1].After = time.Hour
	wantEnd(t, b.run(b.ladder(c), to(provider.Responses, `{"input":"x"}`)), Answered, "")
	b.open("claude", time.Minute)
	wantEnd(t, b.run(b.ladder(c), line()), Deferred, "")
}

// A text at the deadline ends the calls of what it can stand in for alone.
func TestATextAtTheDeadlineIsNotForEmbeddings(t *testing.T) {
	b := setup(t, "a")
	c := nightly(1, "a")
	c.Rungs = append(c.Rungs, sorry)
	c.Rungs[1].AtDeadline = true
	for endpoint, want := range map[string]bool{provider.Completions: true, provider.Responses: true, provider.Embeddings: false} {
		r := to(endpoint, `{"input":"x","prompt":"x"}`)
		r.Deadline, r.Margin = b.Now().Add(30*time.Second), time.Minute
		out := b.run(b.ladder(c), r)
		wantEnd(t, out, Answered, "")
		same(t, endpoint+": a text", out.Answer.Model == TextModel, want)
		last, err := NewLastResort(c, b.Now)
		if err != nil {
			t.Fatal(err)
		}
		_, ok := last.Answer(r)
		same(t, endpoint+": of the keeper", ok, want)
	}
}

// A text comes in the shape of what was asked for. Package provider holds the
// same files to the official types.
func TestTextsInTheShapeOfTheEndpoint(t *testing.T) {
	b := setup(t, "a")
	l := b.ladder(config.Ladder{Name: "l", Rungs: []config.Rung{textRung("About {{.metadata.title}}: <later>.")}})
	for file, r := range map[string]Request{
		"text_chat": line(), "text_completion": to(provider.Completions, `{"prompt":["a","b"]}`), "text_response": to(provider.Responses, `{"input":"a"}`),
	} {
		out := b.run(l, r)
		wantEnd(t, out, Answered, "")
		same(t, "degraded", out.Answer.Degraded, true)
		want, err := os.ReadFile("testdata/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, want); err != nil {
			t.Fatal(err)
		}
		same(t, file, string(out.Answer.Body), compact.String())
	}
}

func TestRulesMatchWhatAnEndpointAsks(t *testing.T) {
	b := setup(t, "a")
	l := b.ladder(config.Ladder{Name: "l", Rungs: []config.Rung{{Rules: []config.Rule{{Match: "^first\nhi$", Text: "two"}, {Match: "^hi$", Text: "one"}}}, textRung("none")}})
	for _, tt := range []struct{ endpoint, body, want string }{
		{provider.Completions, `{"prompt":"hi"}`, "one"},
		{provider.Completions, `{"prompt":["first","hi"]}`, "two"},
		{provider.Completions, `{"prompt":[104,105]}`, "none"},
		{provider.Responses, `{"input":"hi"}`, "one"},
		{provider.Responses, `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call_output","call_id":"c","output":"x"}]}`, "one"},
		{provider.Responses, `{"input":[{"role":"system","content":"hi"}]}`, "none"},
		{provider.Responses, `{"messages":[{"role":"user","content":"hi"}]}`, "none"},
	} {
		out := b.run(l, to(tt.endpoint, tt.body))
		if !strings.Contains(string(out.Answer.Body), `"`+tt.want+`"`) {
			t.Errorf("%s %s: %s", tt.endpoint, tt.body, out.Answer.Body)
		}
	}
}

// A model that is no chat model refuses the probe; that says nothing about it.
func TestAModelWithoutChatIsNotUnknown(t *testing.T) {
	b := setup(t, "a")
	b.script("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 404, Parameter: "url"})
	got := b.prober().Probe(t.Context(), probeA)
	same(t, "outcome", got.Outcome, breaker.None)
	same(t, "hard", got.Hard, false)
	same(t, "unfit", got.Unfit, true)
	out := b.attempt(2, "a")
	wantEnd(t, out, Final, "invalid_request")
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.None})
}

func TestOnlyChatsAreShortened(t *testing.T) {
	long := strings.Repeat("word ", 400)
	for endpoint, body := range map[string]string{
		provider.Responses:   `{"input":[{"role":"user","content":"` + long + `"},{"role":"user","content":"hi"}]}`,
		provider.Completions: `{"prompt":"` + long + `"}`,
	} {
		b := setup(t, "a")
		b.models["p/a"] = withContext(b.models["p/a"], 100)
		c := nightly(1, "a")
		c.OnContext = "truncate"
		wantEnd(t, b.run(b.ladder(c), to(endpoint, body)), Final, "context_exceeded")
	}
}

func TestEstimateOfEndpoints(t *testing.T) {
	ten := strings.Repeat("abcd", 10)
	for name, tt := range map[string]struct {
		endpoint, body string
		set            map[string]any
		in, out        int64
		window         int
	}{
		"a prompt":               {provider.Completions, `{"prompt":"` + ten + `","max_tokens":7}`, nil, 10, 7, 10},
		"prompts":                {provider.Completions, `{"prompt":["` + ten + `","abcd"],"max_tokens":7,"n":2}`, nil, 11, 28, 10},
		"tokens":                 {provider.Completions, `{"prompt":[1,2,3]}`, nil, 3, UsualAnswer, 3},
		"a set limit":            {provider.Completions, `{"prompt":"a","max_tokens":7}`, map[string]any{"max_tokens": 3}, 1, 3, 1},
		"an input":               {provider.Embeddings, `{"input":"` + ten + `","max_tokens":7}`, nil, 10, 0, 10},
		"inputs":                 {provider.Embeddings, `{"input":["` + ten + `","abcd"]}`, nil, 11, 0, 10},
		"lists of tokens":        {provider.Embeddings, `{"input":[[1,2,3],[4]]}`, nil, 4, 0, 3},
		"a response":             {provider.Responses, `{"input":"` + ten + `","max_output_tokens":9}`, nil, 14, 9, 14},
		"another endpoint's":     {provider.Responses, `{"input":"` + ten + `","max_tokens":9}`, nil, 14, UsualAnswer, 14},
		"a limit set on it":      {provider.Responses, `{"input":"` + ten + `"}`, map[string]any{"max_output_tokens": 5}, 14, 5, 14},
		"items and instructions": {provider.Responses, `{"instructions":"abcd","input":[{"role":"user","content":"` + ten + `"},{"type":"function_call","arguments":"` + ten + `"}]}`, nil, 1 + 14 + 4 + 11, UsualAnswer, 30},
		"nothing":                {provider.Embeddings, `{}`, nil, 0, 0, 0},
		"no request":             {provider.Responses, `[1]`, nil, 0, UsualAnswer, 0},
	} {
		size := SizeOf(tt.endpoint, json.RawMessage(tt.body))
		in, out := size.Tokens(config.Rung{Set: tt.set}, config.Model{})
		if in != tt.in || out != tt.out || size.size.window() != tt.window {
			t.Errorf("%s: %d in, %d out, %d at a time; want %d, %d, %d", name, in, out, size.size.window(), tt.in, tt.out, tt.window)
		}
	}
	inputs := SizeOf(provider.Embeddings, json.RawMessage(`{"input":["`+ten+`","`+ten+`"]}`))
	same(t, "each fits", inputs.TooLarge(config.Rung{Model: "m"}, config.Model{Context: 10}), false)
	same(t, "one is too large", inputs.TooLarge(config.Rung{Model: "m"}, config.Model{Context: 7}), true)
}

// Where figures order the models, only those that have the endpoint count, also
// for the few choices that try another one first.
func TestGoalsAreAmongTheModelsThatHaveTheEndpoint(t *testing.T) {
	b := setupAPIs(t, []string{"claude"}, []string{"gpt"})
	dear := b.models["p/claude"]
	dear.Price = &config.Price{Input: 100, Output: 100}
	b.models["p/claude"] = dear
	c := nightly(1, "claude", "gpt")
	c.Goal = "cost"
	l := b.ladder(c)
	l.rand = func() float64 { return 0 } // every choice explores
	out := b.run(l, to(provider.Responses, `{"input":"x"}`))
	wantEnd(t, out, Answered, "")
	same(t, "degraded", out.Answer.Degraded, false)
	same(t, "a chat explores", b.run(l, line()).Answer.Model, "p/claude")
}
