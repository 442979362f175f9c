package ladder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/config"
	"nightshift/provider"
)

func TestTokens(t *testing.T) {
	for text, want := range map[string]int{
		"":                       0,
		"hi":                     1,
		strings.Repeat("a", 400): 100,
		"Ünïcödé":                3, // three ASCII, four others
		"Привет":                 3,
		"为这款登山背包写一句":             10,
		"한국어":                    3,
		"😀":                      1,
		"\xff":                   1,
	} {
		same(t, text, tokens([]byte(text)), want)
	}
}

// windows gives models their contexts, by name.
func windows(b *bundle, tokens map[string]int) {
	for name, n := range tokens {
		m := b.models["p/"+name]
		m.Context = n
		b.models["p/"+name] = m
	}
}

// talk is a line with messages "role:text"; a text of digits is that many tokens.
func talk(more string, messages ...string) Request {
	var all []string
	for _, m := range messages {
		role, text, _ := strings.Cut(m, ":")
		var n int
		if _, err := fmt.Sscanf(text, "%d", &n); err == nil {
			text = strings.Repeat("abc ", n-perMessage)
		}
		extra := ""
		switch role {
		case "call":
			role = "assistant"
			extra = `,"tool_calls":[{"id":"1"}]`
		case "tool":
			extra = `,"tool_call_id":"1"`
		}
		all = append(all, fmt.Sprintf(`{"role":%q,"content":%q%s}`, role, text, extra))
	}
	r := line()
	r.Body = json.RawMessage(fmt.Sprintf(`{"temperature":0.70,"messages":[%s]%s}`, strings.Join(all, ","), more))
	return r
}

func TestCase19_SmallerWindowsAreSkippedBeforeTheCall(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    Request
		by   string
	}{
		{"fits", talk("", "user:100"), "p/small"},
		{"in doubt the provider decides", talk("", "user:1200"), "p/small"},
		{"clearly too large", talk("", "user:1300"), "p/large"},
		{"with the answer it asks for", talk(`,"max_tokens":900`, "user:200"), "p/large"},
		{"by its newer name", talk(`,"max_completion_tokens":900`, "user:200"), "p/large"},
		{"ideographs", talk("", "user:"+strings.Repeat("背", 1300)), "p/large"},
		{"images count nothing", talk(`,"x":"`+strings.Repeat("A", 1e5)+`"`, "user:hi"), "p/small"},
		{"tools count", talk(`,"tools":[{"d":"`+strings.Repeat("abc ", 1400)+`"}]`, "user:hi"), "p/large"},
	} {
		b := setup(t, "small", "large")
		windows(b, map[string]int{"small": 1000, "large": 8000})
		out := b.run(b.ladder(nightly(1, "small", "large")), tc.r)
		wantEnd(t, out, Answered, "")
		same(t, tc.name, out.Answer.Model, tc.by)
		if tc.by == "p/large" {
			same(t, tc.name+": skips", len(out.Progress.Skipped), 1)
			same(t, tc.name+": ruled out", len(out.Progress.RuledOut), 0)
		}
	}
}

func TestCase19_TooLongForEveryModelIsFinalWithoutACall(t *testing.T) {
	b := setup(t, "a", "b")
	windows(b, map[string]int{"a": 1000, "b": 2000})
	r := talk(`,"max_tokens":100`, "user:3000")
	out := b.run(b.ladder(nightly(1, "a", "b")), r)
	wantEnd(t, out, Final, "context_exceeded")
	same(t, "message", out.Message, "context_exceeded: the request has about 3000 tokens and asks for an answer of 100; its context is 2000")
	same(t, "calls", len(out.Progress.Calls), 0)
	equal(t, "skips", whys(out)[:1], []string{"p/a: the request has about 3000 tokens and asks for an answer of 100; its context is 1000"})

	c := nightly(1, "a", "b")
	c.Rungs = append(c.Rungs, config.Rung{Text: "Too long."})
	out = b.run(b.ladder(c), r)
	wantEnd(t, out, Answered, "")
	same(t, "a text answers", out.Answer.Model, TextModel)
}

func TestARungMayAskForAShorterAnswer(t *testing.T) {
	b := setup(t, "a")
	windows(b, map[string]int{"a": 1000})
	c := nightly(1, "a")
	r := talk(`,"max_tokens":2000`, "user:100")
	wantEnd(t, b.run(b.ladder(c), r), Final, "context_exceeded")
	c.Rungs[0].Set = map[string]any{"max_tokens": 500}
	wantEnd(t, b.run(b.ladder(c), r), Answered, "")
}

// A rung that comes later is the first in fact, where those above are too small.
func TestCase19_ALargerRungDoesNotWaitForSmallOnes(t *testing.T) {
	b := setup(t, "small", "large")
	windows(b, map[string]int{"small": 1000})
	c := nightly(1, "small", "large")
	c.Rungs[1].After = time.Hour
	out := b.run(b.ladder(c), talk("", "user:3000"))
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, "p/large")
}

// truncating is a ladder that truncates.
func truncating(tries int, names ...string) config.Ladder {
	c := nightly(tries, names...)
	c.OnContext = "truncate"
	return c
}

// sent is the roles and sizes of the messages of a model's last call.
func (b *bundle) sent(name string) string {
	all := b.callers["p/"+name].requests
	var c chat
	if err := json.Unmarshal(all[len(all)-1].Body, &c); err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for i, n := range measure(provider.ChatCompletions, all[len(all)-1].Body).messages {
		var m message
		if err := json.Unmarshal(c.Messages[i], &m); err != nil {
			b.t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s:%d", m.Role, n))
	}
	return strings.Join(out, " ")
}

func TestCase19_TruncateDropsTheOldestMessages(t *testing.T) {
	for _, tc := range []struct {
		name     string
		messages []string
		sent     string
		dropped  int
	}{
		{"oldest first, as few as needed", []string{"system:100", "user:500", "assistant:500", "user:500", "assistant:500", "user:100"}, "system:100 assistant:500 user:100", 3},
		{"calls go with their results", []string{"system:50", "user:50", "call:700", "tool:700", "tool:700", "user:500", "assistant:200", "user:50"}, "system:50 user:500 assistant:200 user:50", 4},
		{"never the last of the user", []string{"user:700", "assistant:700"}, "", 0},
		{"nor what is to be answered", []string{"user:600", "call:100", "tool:1500", "call:10", "tool:200"}, "user:600 assistant:13 tool:200", 2},
		{"never the system's", []string{"system:900", "developer:500", "user:10"}, "", 0},
		{"fits", []string{"user:900", "assistant:50", "user:10"}, "user:900 assistant:50 user:10", 0},
	} {
		b := setup(t, "a")
		windows(b, map[string]int{"a": 1000})
		out := b.run(b.ladder(truncating(1, "a")), talk("", tc.messages...))
		if tc.sent == "" {
			wantEnd(t, out, Final, "context_exceeded")
			continue
		}
		wantEnd(t, out, Answered, "")
		same(t, tc.name, b.sent("a"), tc.sent)
		same(t, tc.name+": truncated", out.Answer.Truncated, tc.dropped)
		if body := string(b.callers["p/a"].requests[0].Body); !strings.HasPrefix(body, `{"temperature":0.70,"messages":[{`) {
			t.Errorf("the rest of the body changed: %.60s", body)
		}
	}
}

// It is the largest window that decides, wherever it stands, and the others are
// not tried with less than they were given.
func TestCase19_TruncateIsForTheLargestWindow(t *testing.T) {
	b := setup(t, "small", "large", "middle")
	windows(b, map[string]int{"small": 1000, "large": 4000, "middle": 2000})
	r := talk("", "user:3000", "assistant:3000", "user:100")
	out := b.run(b.ladder(truncating(1, "small", "large", "middle")), r)
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, "p/large")
	same(t, "sent", b.sent("large"), "assistant:3000 user:100")

	b.open("large", time.Minute)
	out = b.run(b.ladder(truncating(1, "small", "large", "middle")), r)
	wantEnd(t, out, Deferred, "")
	same(t, "calls of the smaller ones", b.calls("small")+b.calls("middle"), 0)

	// One whose window nobody told might take it whole, and is asked first.
	delete(b.breakers.open, "p/large")
	windows(b, map[string]int{"middle": 0})
	out = b.run(b.ladder(truncating(1, "small", "large", "middle")), r)
	wantEnd(t, out, Answered, "")
	same(t, "by", out.Answer.Model, "p/middle")
	same(t, "truncated", out.Answer.Truncated, 0)
}

// Where the provider counts more than we do, its refusals shorten on.
func TestCase19_TruncateOnAProvidersRefusal(t *testing.T) {
	tooLong := &provider.Error{Kind: provider.ContextExceeded, StatusCode: 400, Body: []byte(`{}`)}
	messages := []string{"user:100", "assistant:100", "user:100", "assistant:100", "user:100", "assistant:100", "user:100"}
	b := setup(t, "a")
	b.script("a", tooLong, tooLong, nil)
	out := b.run(b.ladder(truncating(1, "a")), talk("", messages...))
	wantEnd(t, out, Answered, "")
	same(t, "sent", b.sent("a"), "user:100 assistant:100 user:100")
	same(t, "truncated", out.Answer.Truncated, 4)
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.ContextExceeded, provider.ContextExceeded, provider.OK})

	b = setup(t, "a")
	b.script("a", tooLong)
	out = b.run(b.ladder(truncating(1, "a")), talk("", messages...))
	wantEnd(t, out, Final, "context_exceeded")
	if out.Response == nil || b.calls("a") > maxShortenings+1 {
		t.Errorf("response %v after %d calls", out.Response, b.calls("a"))
	}
}

func TestDropOldestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		roles := rapid.SliceOfN(rapid.SampledFrom([]string{"system", "user", "assistant", "call", "tool"}), 1, 12).Draw(rt, "roles")
		var messages []string
		for _, role := range roles {
			messages = append(messages, fmt.Sprintf("%s:%d", role, rapid.IntRange(5, 300).Draw(rt, "tokens")))
		}
		r := talk("", messages...)
		var c chat
		if err := json.Unmarshal(r.Body, &c); err != nil {
			rt.Fatal(err)
		}
		s := measure(r.Endpoint, r.Body)
		target := rapid.IntRange(1, 1500).Draw(rt, "target")
		drop := map[int]bool{}
		left, last := s.prompt(), -1
		for _, i := range dropOldest(c.Messages, s, target) {
			drop[i] = true
			left -= s.messages[i]
			if i <= last || roles[i] == "system" || i == len(roles)-1 {
				rt.Fatalf("dropped %d of %v after %d", i, roles, last)
			}
			last = i
		}
		for i, role := range roles {
			if role == "user" && drop[i] && !strings.Contains(strings.Join(roles[i+1:], " "), "user") {
				rt.Fatalf("dropped the last user message of %v", roles)
			}
			if role == "call" && i+1 < len(roles) && roles[i+1] == "tool" && drop[i] != drop[i+1] {
				rt.Fatalf("parted a call from its result in %v: %v", roles, drop)
			}
		}
		if s.prompt() <= target && len(drop) > 0 {
			rt.Fatalf("dropped %v of what fits", drop)
		}
	})
}

func FuzzMeasure(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{}]},{"role":"tool","content":[{"text":"x"}]}]}`)
	f.Add(`{"messages":[1,null,{"content":{}}],"tools":7,"max_tokens":"many"}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, endpoint := range allEndpoints {
			if got, want := sizeText(measure(endpoint, json.RawMessage(body))), sizeText(decoded(endpoint, body)); got != want {
				t.Errorf("%s: %s, want %s", endpoint, got, want)
			}
		}
		s := measure(provider.ChatCompletions, json.RawMessage(body))
		var c chat
		if json.Unmarshal([]byte(body), &c) != nil {
			return
		}
		for _, i := range dropOldest(c.Messages, s, 1) {
			if i < 0 || i >= len(c.Messages) {
				t.Errorf("dropped %d of %d", i, len(c.Messages))
			}
		}
	})
}
