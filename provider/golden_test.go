package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// goldenTexts are what is echoed: characters of one to four bytes, pairs of
// surrogates, joined emoji, combining marks, escapes, nothing at all.
var goldenTexts = []string{
	"hello", "", " ", "a", strings.Repeat("long ", 60), "Grüße aus Köln", "日本語のとても長いテキスト" + strings.Repeat("、東京", 30),
	"👩‍👩‍👧‍👦 family, 🇩🇪 flag, e\u0301 combining", strings.Repeat("🌍", 120), "\"quoted\" \\ and \t tab \n line \u2028 separator",
	"\x00\x1f control", `{"looks":"like json"}`, "data: [DONE]\n\ndata: {}", "<html>&amp;</html>",
}

// goldenFields are what is asked for beside the messages.
var goldenFields = []string{
	``,
	`"max_tokens":2`, `"max_tokens":1,"reasoning_effort":"high"`, `"max_completion_tokens":400`,
	`"n":3`, `"n":2,"max_tokens":3`, `"logprobs":true`, `"logprobs":true,"n":2,"max_tokens":2`,
	`"reasoning_effort":"low"`, `"reasoning_effort":"low","n":2`,
	`"response_format":{"type":"json_object"}`, `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}`,
	tools("", "weather"), tools("", "weather", "clock"), tools(`,"parallel_tool_calls":true`, "weather", "clock", "größe"),
	tools(`,"parallel_tool_calls":true,"n":2`, "weather", "clock"), tools(`,"tool_choice":"none"`, "weather"),
	tools(`,"tool_choice":{"type":"function","function":{"name":"clock"}}`, "weather", "clock"),
	`"stream":false`, `"stream": false , "n":1`, `"temperature":1.50e0,"unknown":{"a":[1]}`, `"model":"own"`,
}

func tools(more string, names ...string) string {
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":{"type":"object"}}}`, n))
	}
	return `"tools":[` + strings.Join(all, ",") + `]` + more
}

// golden is a body for the name of every request of the suite.
func golden() map[string]string {
	all := map[string]string{}
	add := func(name, messages, fields string) {
		if fields != "" {
			fields = "," + fields
		}
		all[fmt.Sprintf("%02d %s", len(all)+1, name)] = `{"messages":` + messages + fields + `}`
	}
	user := func(text string) string {
		b, _ := json.Marshal([]map[string]string{{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}})
		return string(b)
	}
	for _, text := range goldenTexts {
		add("text", user(text), "")
	}
	for _, fields := range goldenFields[1:] {
		add("fields", user(goldenTexts[5]), fields)
	}
	for i, fields := range goldenFields[4:12] {
		add("long", user(goldenTexts[6+i%3]), fields)
	}
	add("image", `[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]`, "")
	add("images", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}},{"type":"image_url","image_url":{"url":"https://example.com/b.png"}}]}]`, `"max_tokens":5`)
	add("after a tool", `[{"role":"user","content":"time?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"clock","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"12:00"}]`, tools("", "clock"))
	add("lone surrogate", `[{"role":"user","content":"half \ud83d of a pair"}]`, "")
	add("pair of surrogates", `[{"role":"user","content":"\ud83d\ude00 pair"}]`, "")
	for _, fault := range []sim.Kind{sim.Refusal, sim.EmptyChoices, sim.Garbage} {
		all["fault "+string(fault)] = `{"messages":` + user("x") + `}`
	}
	return all
}

// outcome is what a call came to, as far as a streamed and a plain one must agree.
type outcome struct {
	Status       int
	Kind         provider.Kind
	Body         any
	Usage        provider.Usage
	FinishReason string
}

// dice is a transport whose bodies come in pieces of random sizes, with no
// regard to lines and characters.
type dice struct {
	base *http.Transport
	rand *rand.Rand
}

func (d *dice) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := d.base.RoundTrip(r)
	if err == nil {
		res.Body = &dicedBody{res.Body, d.rand}
	}
	return res, err
}

type dicedBody struct {
	io.ReadCloser
	rand *rand.Rand
}

func (d *dicedBody) Read(p []byte) (int, error) {
	return d.ReadCloser.Read(p[:min(len(p), 1+d.rand.IntN(7))])
}

func TestStreamedAndPlainAnswersAreTheSame(t *testing.T) {
	suite := golden()
	if len(suite) < 50 {
		t.Fatalf("%d requests in the suite, want fifty", len(suite))
	}
	start := time.Unix(1_770_000_000, 0)
	s := running(t, sim.Script{}, sim.Options{Now: func() time.Time { return start }})
	transport := &dice{&http.Transport{}, rand.New(rand.NewPCG(1, 2))}
	defer transport.base.CloseIdleConnections()
	a := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: s.URL(), HTTPClient: &http.Client{Transport: transport}})
	call := func(name, body string, silence time.Duration) outcome {
		s.Reset() // the answer's ID is made of the call's number
		if kind, isFault := strings.CutPrefix(name, "fault "); isFault {
			if err := s.AddFaults("", sim.Fault{Kind: sim.Kind(kind)}); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := a.Call(t.Context(), provider.Request{
			Endpoint: "/v1/chat/completions", Model: "m", Body: []byte(body),
			Timeout: time.Minute, FirstToken: silence, Idle: silence,
		})
		if calls := s.Calls(); len(calls) != 1 || calls[0].Stream != (silence > 0) {
			t.Fatalf("%s: calls %+v", name, calls)
		}
		if streamed := answer.FirstToken > 0; err == nil && streamed != (silence > 0) {
			t.Errorf("%s: first token after %v", name, answer.FirstToken)
		}
		return read(t, answer, err)
	}
	for name, body := range suite {
		plain, streamed := call(name, body, 0), call(name, body, time.Minute)
		if plain.Kind == provider.OK && plain.Usage.OutputTokens == 0 {
			t.Errorf("%s: no usage in %+v", name, plain)
		}
		if !reflect.DeepEqual(plain, streamed) {
			t.Errorf("%s:\nplain    %+v\nstreamed %+v", name, plain, streamed)
		}
	}
}

// read returns what a call came to.
func read(t *testing.T, answer provider.Answer, err error) outcome {
	t.Helper()
	o := outcome{answer.StatusCode, provider.OK, nil, answer.Usage, answer.FinishReason}
	body := []byte(answer.Body)
	var e *provider.Error
	if errors.As(err, &e) {
		o = outcome{e.StatusCode, e.Kind, nil, e.Usage, ""}
		body = e.Body
	}
	if json.Unmarshal(body, &o.Body) != nil {
		o.Body = string(body)
	}
	return o
}
