package ladder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"nightshift/config"
	"nightshift/internal/packer"
	"nightshift/internal/redistest"
	"nightshift/provider"
)

// The second of two equal requests costs nothing, asks no breaker, and has the
// answer as it came, whoever sends it.
func TestCache_AHitCostsNothing(t *testing.T) {
	b := setupCached(t, redisClient(t), "a")
	l := b.ladder(kept("a"))
	first := b.run(l, line())
	same(t, "the first is no hit", first.Answer.Cached, false)

	b.open("a", time.Hour)
	r := line()
	r.Batch, r.Line, r.CustomID, r.Metadata = "other", 99, "row-99", nil
	out := b.run(l, r)
	wantEnd(t, out, Answered, "")
	got := out.Answer
	same(t, "calls", b.calls("a"), 1)
	same(t, "calls on record", len(out.Progress.Calls), 0)
	same(t, "avoided", len(b.avoided), 0)
	same(t, "cost", out.Progress.Cost(), 0)
	same(t, "cached", got.Cached, true)
	same(t, "usage", got.Usage, provider.Usage{})
	same(t, "body", string(got.Body), whole)
	got.Cached, got.Usage, got.Body = false, first.Answer.Usage, first.Answer.Body
	if want := first.Answer; got.Model != want.Model || got.Provider != want.Provider || got.Tier != want.Tier ||
		got.RequestID != want.RequestID || got.StatusCode != want.StatusCode || got.Degraded {
		t.Errorf("cached %+v, first %+v", got, want)
	}
	if key := b.one(); !regexp.MustCompile(`^nightshift:\{c:[0-9a-f]{64}\}$`).MatchString(key) {
		t.Errorf("key %s", key)
	}
}

// What a line paid before stays on its record.
func TestCache_AHitKeepsWhatWasPaidBefore(t *testing.T) {
	b := setupCached(t, redisClient(t), "a")
	l := b.ladder(kept("a"))
	b.run(l, line())
	r := line()
	r.Progress.Calls = []provider.Call{{Model: "p/a", Kind: provider.Unavailable, Cost: 7}}
	r.Progress.Deferrals = 2
	out := b.run(l, r)
	same(t, "cached", out.Answer.Cached, true)
	same(t, "cost", out.Progress.Cost(), 7)
	same(t, "deferrals", out.Progress.Deferrals, 2)
}

// A repaired answer is as good as any, and its value is kept with it.
func TestCache_KeepsTheValueOfARepairedAnswer(t *testing.T) {
	b := setupCached(t, redisClient(t), "a")
	c := kept("a")
	c.Output = config.Output{SchemaText: []byte(`{"type":"object","required":["n"]}`), Repairs: 2}
	said := []string{`no`, "```json\n{\"n\": 1.50}\n```"}
	b.callers["p/a"].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		ans, err := answers(ctx, n, r)
		text, _ := json.Marshal(said[n])
		ans.Body = fmt.Appendf(nil, `{"choices":[{"message":{"content":%s},"finish_reason":"stop"}]}`, text)
		return ans, err
	}
	l := b.ladder(c)
	first := b.run(l, line())
	wantEnd(t, first, Answered, "")
	out := b.run(l, line())
	same(t, "cached", out.Answer.Cached, true)
	same(t, "calls", b.calls("a"), 2)
	same(t, "value", string(out.Answer.Output), `{"n":1.50}`)
	same(t, "body", string(out.Answer.Body), string(first.Answer.Body))
}

func TestCache_Expires(t *testing.T) {
	b := setupCached(t, redisClient(t), "a")
	c := kept("a")
	b.run(b.ladder(c), line())
	if ttl := b.rdb.PTTL(t.Context(), b.one()).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("kept for %s, want an hour", ttl)
	}
	if err := b.rdb.PExpire(t.Context(), b.one(), time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(b.keys()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not expire")
		}
	}
	same(t, "a hit after its time", b.answered(b.ladder(c), line()), false)
	same(t, "calls", b.calls("a"), 2)
}

func TestCache_OnlyWhereItIsAskedFor(t *testing.T) {
	b := setupCached(t, redisClient(t), "a")
	l := b.ladder(nightly(1, "a"))
	b.run(l, line())
	same(t, "a hit", b.answered(l, line()), false)
	equal(t, "kept", b.keys(), nil)
}

// What can change the answer makes another request of it; what cannot does not.
func TestCache_WhatCounts(t *testing.T) {
	b := setupCached(t, redisClient(t), "a", "b")
	base := func() (config.Ladder, Request) { return kept("a", "b"), line() }
	c, r := base()
	b.run(b.ladder(c), r)
	for name, change := range map[string]func(*config.Ladder, *Request){
		"ladder":          func(c *config.Ladder, _ *Request) { c.Name = "weekly" },
		"model":           func(c *config.Ladder, _ *Request) { c.Rungs[0].Model = "p/b" },
		"a model fewer":   func(c *config.Ladder, _ *Request) { c.Rungs = c.Rungs[:1] },
		"set":             func(c *config.Ladder, _ *Request) { c.Rungs[0].Set = map[string]any{"temperature": 1} },
		"drop":            func(c *config.Ladder, _ *Request) { c.Rungs[0].Drop = []string{"top_p"} },
		"deny":            func(c *config.Ladder, _ *Request) { c.Output.Deny = []string{"zzz"} },
		"ladder's schema": func(c *config.Ladder, _ *Request) { c.Output.SchemaText = []byte(`{"type":"string"}`) },
		"line's schema":   func(_ *config.Ladder, r *Request) { r.Schema = json.RawMessage(`{"type":"integer"}`) },
		"ladder's goal":   func(c *config.Ladder, _ *Request) { c.Goal = "cost" },
		"weights":         func(c *config.Ladder, _ *Request) { c.Weights.Cost = 1 },
		"line's goal":     func(_ *config.Ladder, r *Request) { r.Goal = "speed" },
		"starting rung":   func(_ *config.Ladder, r *Request) { r.Rung = 1 },
		"endpoint":        func(_ *config.Ladder, r *Request) { r.Endpoint = "/v1/completions" },
		"rehearsal":       func(_ *config.Ladder, r *Request) { r.Rehearsal = true },
		"body":            func(_ *config.Ladder, r *Request) { r.Body = json.RawMessage(`{"messages":[]}`) },
		"a number's zero": func(_ *config.Ladder, r *Request) {
			r.Body = json.RawMessage(`{"messages":[{"role":"user","content":"hi"}],"seed":0}`)
		},
	} {
		c, r := base()
		change(&c, &r)
		if b.run(b.ladder(c), r).Answer.Cached {
			t.Errorf("another %s hits", name)
		}
	}
	for name, change := range map[string]func(*config.Ladder, *Request){
		"nothing":  func(*config.Ladder, *Request) {},
		"tries":    func(c *config.Ladder, _ *Request) { c.Rungs[0].Tries = 5 },
		"price":    func(c *config.Ladder, _ *Request) { c.Rungs[0].Price = &config.Price{Input: 9} },
		"patience": func(c *config.Ladder, _ *Request) { c.Patience = time.Second },
		"time":     func(c *config.Ladder, _ *Request) { c.Cache = time.Minute },
		"retries":  func(_ *config.Ladder, r *Request) { r.Retries = 0 },
		"caller's": func(_ *config.Ladder, r *Request) {
			r.Body = json.RawMessage(`{"user":"u1","metadata":{"a":1},"stream":false,"messages":[{"content":"hi","role":"user"}]}`)
		},
	} {
		c, r := base()
		change(&c, &r)
		if !b.answered(b.ladder(c), r) {
			t.Errorf("%s: no hit", name)
		}
	}
}

// A model that is sent elsewhere, or under another name, is another.
func TestCache_WhatAModelIs(t *testing.T) {
	for name, change := range map[string]func(*config.Model){
		"name":    func(m *config.Model) { m.Name = "a-2026" },
		"address": func(m *config.Model) { m.BaseURL = "http://127.0.0.1:1/v1" },
	} {
		b := setupCached(t, redisClient(t), "a")
		b.run(b.ladder(kept("a")), line())
		m := b.models["p/a"]
		change(&m)
		b.models["p/a"] = m
		if b.answered(b.ladder(kept("a")), line()) {
			t.Errorf("another %s of the model hits", name)
		}
	}
}

// Headers can choose another version of an API.
func TestCache_WhatAProviderIs(t *testing.T) {
	print := func(p config.Provider) sum {
		o := Options{Ladder: kept("a"), Models: map[string]config.Model{"p/a": {Provider: "p"}}, Providers: map[string]config.Provider{"p": p}}
		s, err := fingerprint(o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if print(config.Provider{}) == print(config.Provider{Headers: config.Headers{"api-version": "2"}}) {
		t.Error("another header is the same")
	}
	if print(config.Provider{}) == print(config.Provider{API: "anthropic"}) {
		t.Error("another API is the same")
	}
}

func finish(reasons ...string) string {
	var choices []string
	for _, r := range reasons {
		choices = append(choices, `{"message":{"content":"x"},"finish_reason":`+r+`}`)
	}
	return `{"choices":[` + strings.Join(choices, ",") + `]}`
}

// Only whole answers of the first choice are kept: whatever is less would be
// handed out when better is to be had.
func TestCache_NeverKeeps(t *testing.T) {
	rdb := redisClient(t)
	for name, c := range map[string]struct {
		set    func(*cached, *config.Ladder)
		end    End
		checks func(Outcome) bool
	}{
		"failed":   {func(b *cached, _ *config.Ladder) { b.script("a", down()); b.script("b", down()) }, Failed, nil},
		"degraded": {func(b *cached, _ *config.Ladder) { b.script("a", down()) }, Answered, func(o Outcome) bool { return o.Answer.Degraded }},
		"deferred": {func(b *cached, _ *config.Ladder) { b.open("a", time.Hour); b.open("b", time.Hour) }, Deferred, nil},
		"refused": {func(b *cached, _ *config.Ladder) {
			b.script("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Body: []byte(whole)})
		}, Final, nil},
		"filtered": {func(b *cached, _ *config.Ladder) {
			b.script("a", &provider.Error{Kind: provider.ContentFiltered, StatusCode: 200, Body: []byte(whole)})
		}, Final, nil},
		"text": {
			func(_ *cached, c *config.Ladder) { c.Rungs = []config.Rung{{Text: "no"}} }, Answered,
			func(o Outcome) bool { return o.Answer.Model == TextModel },
		},
		"rules": {func(_ *cached, c *config.Ladder) {
			c.Rungs = append([]config.Rung{{Rules: []config.Rule{{Match: "hi", Text: "no"}}}}, c.Rungs...)
		}, Answered, func(o Outcome) bool { return o.Answer.Model == TextModel }},
		"cut off":         {func(b *cached, _ *config.Ladder) { b.says("a", finish(`"length"`)) }, Answered, nil},
		"a choice is cut": {func(b *cached, _ *config.Ladder) { b.says("a", finish(`"stop"`, `"length"`)) }, Answered, nil},
		"a choice is filtered": {func(b *cached, _ *config.Ladder) {
			b.says("a", finish(`"stop"`, `"content_filter"`))
		}, Answered, nil},
		"no reason":    {func(b *cached, _ *config.Ladder) { b.says("a", finish(`null`)) }, Answered, nil},
		"an odd one":   {func(b *cached, _ *config.Ladder) { b.says("a", finish(`3`)) }, Answered, nil},
		"no choice":    {func(b *cached, _ *config.Ladder) { b.says("a", `{"choices":[]}`) }, Answered, nil},
		"no object":    {func(b *cached, _ *config.Ladder) { b.says("a", `[]`) }, Answered, nil},
		"not 200":      {func(b *cached, _ *config.Ladder) { b.status("a", 203) }, Answered, nil},
		"invalid":      {func(_ *cached, c *config.Ladder) { c.Output.SchemaText = []byte(`{"type":"integer"}`) }, Final, nil},
		"too large":    {func(b *cached, _ *config.Ladder) { b.says("a", noise(2<<20)) }, Answered, nil},
		"the messages": {func(b *cached, c *config.Ladder) { b.tooLong(c) }, Answered, func(o Outcome) bool { return o.Answer.Truncated > 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupCached(t, rdb, "a", "b")
			ladder, r := kept("a", "b"), line()
			c.set(b, &ladder)
			if name == "the messages" {
				r = asking(`{"messages":[{"role":"user","content":"first"},{"role":"user","content":"last"}]}`)
			}
			out := b.run(b.ladder(ladder), r)
			same(t, "end", out.End, c.end)
			if c.checks != nil && !c.checks(out) {
				t.Fatalf("it is another case: %+v", out)
			}
			equal(t, "kept", b.keys(), nil)
		})
	}
}

// status makes a model answer with another status than 200.
func (b *cached) status(name string, code int) {
	reply := b.callers["p/"+name].reply
	b.callers["p/"+name].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		ans, err := reply(ctx, n, r)
		ans.StatusCode = code
		return ans, err
	}
}

// tooLong has the only model of the ladder refuse the line as too long, once.
func (b *cached) tooLong(c *config.Ladder) {
	c.Rungs, c.OnContext = c.Rungs[:1], "truncate"
	reply := b.callers["p/a"].reply
	b.callers["p/a"].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		if n == 0 {
			return provider.Answer{}, &provider.Error{Kind: provider.ContextExceeded, StatusCode: 400}
		}
		return reply(ctx, n, r)
	}
}

// noise is an answer that no compression makes shorter than a half.
func noise(n int) string {
	text, rnd := make([]byte, n), rand.New(rand.NewPCG(1, 2))
	for i := range text {
		text[i] = byte('0' + rnd.IntN(64))
	}
	js, _ := json.Marshal(string(text))
	return `{"choices":[{"message":{"content":` + string(js) + `},"finish_reason":"stop"}]}`
}

// What is damaged is no answer: the call is made, and its answer takes the place.
func TestCache_DamagedValues(t *testing.T) {
	rdb, p := redisClient(t), packer.New(maxUnpacked)
	b := setupCached(t, rdb, "a")
	l := b.ladder(kept("a"))
	b.run(l, line())
	good, err := rdb.Get(t.Context(), b.one()).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 0x10
	answer := func(body string) []byte {
		return p.Pack([]byte(`{"status_code":200,"model":"p/a","provider":"p"}` + "\n" + body))
	}
	for name, value := range map[string][]byte{
		"empty": {}, "noise": []byte("not compressed"), "cut": good[:len(good)-3], "a bit flipped": flipped,
		"no JSON": p.Pack([]byte("{\n" + whole)), "nothing": p.Pack([]byte("{}")), "null": p.Pack([]byte("null")),
		"no body": p.Pack([]byte(`{"status_code":200,"model":"p/a"}`)), "cut off": answer(finish(`"length"`)),
		"no model": p.Pack([]byte(`{"status_code":200}` + "\n" + whole)),
	} {
		if err := rdb.Set(t.Context(), b.one(), value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		b.script("a", down()) // nothing good takes its place
		b.log.Reset()
		wantEnd(t, b.run(l, line()), Failed, string(provider.Unavailable))
		if len(b.keys()) > 0 || !strings.Contains(b.log.String(), "damaged") {
			t.Errorf("%s: it is still there, or nobody is told: %s", name, b.log.String())
		}
		b.says("a", whole)
		same(t, name+": a hit", b.answered(l, line()), false)
		same(t, name+": a hit of the new one", b.answered(l, line()), true)
	}
}

// Without Redis every line is called for, soon, and the log is not flooded.
func TestCache_RedisAway(t *testing.T) {
	for name, gone := range map[string]func(*redistest.Server){
		"silent":  func(s *redistest.Server) { s.Freeze(t) },
		"refused": func(s *redistest.Server) { s.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			b := setupCached(t, server.Client(t), "a")
			b.rdb.Options().ContextTimeoutEnabled = true
			l := b.ladder(kept("a"))
			b.run(l, line())
			gone(server)
			if name == "silent" {
				defer server.Thaw(t)
			}
			began := time.Now()
			for range 3 {
				same(t, "a hit", b.answered(l, line()), false)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("three lines took %s", took)
			}
			same(t, "calls", b.calls("a"), 4)
			same(t, "complaints", strings.Count(b.log.String(), "the cache of answers cannot be used"), 1)
			b.pass(complainEvery)
			b.answered(l, line())
			same(t, "complaints a minute later", strings.Count(b.log.String(), "the cache of answers cannot be used"), 2)
		})
	}
}

// A worker that stops while it asks is no fault of the cache's.
func TestCache_StoppedMeanwhile(t *testing.T) {
	b := setupCached(t, redisClient(t), "a")
	l := b.ladder(kept("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantEnd(t, l.whole(ctx, line(), b.journal), Interrupted, "")
	same(t, "log", b.log.String(), "")
}
