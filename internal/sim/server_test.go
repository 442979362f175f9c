package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightshift/internal/sim"
	"nightshift/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is longer than any test takes.
const patient = time.Minute

// clock is a clock that tests move.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_770_000_000, c.ns.Load()) }
func (c *clock) set(since time.Duration) { c.ns.Store(int64(since)) }

type bundle struct {
	*sim.Server
	t      *testing.T
	clock  *clock
	client *provider.OpenAI
}

// setup starts a simulator whose clock stands still until the test moves it,
// and an adapter for it.
func setup(t *testing.T, script sim.Script, change ...func(*sim.Options)) *bundle {
	t.Helper()
	c := &clock{}
	o := sim.Options{Now: c.now}
	for _, f := range change {
		f(&o)
	}
	s := sim.New(script, o)
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	b := &bundle{s, t, c, provider.NewOpenAI(provider.OpenAIOptions{BaseURL: s.URL()})}
	t.Cleanup(func() {
		b.client.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// call makes one call and returns the answer, or the classified error.
func (b *bundle) call(model, content string) (provider.Answer, *provider.Error) {
	b.t.Helper()
	return b.send(b.t.Context(), model, fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, content), patient)
}

func (b *bundle) send(ctx context.Context, model, body string, timeout time.Duration) (provider.Answer, *provider.Error) {
	b.t.Helper()
	answer, err := b.client.Call(ctx, provider.Request{
		Endpoint: "/v1/chat/completions", Model: model, Body: []byte(body), Timeout: timeout, IdempotencyKey: "key-1",
	})
	var e *provider.Error
	if err != nil && !errors.As(err, &e) {
		b.t.Fatalf("an error that is not classified: %v", err)
	}
	return answer, e
}

func (b *bundle) kind(model string) provider.Kind {
	b.t.Helper()
	if _, e := b.call(model, "x"); e != nil {
		return e.Kind
	}
	return provider.OK
}

// waitFor polls until the condition holds.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// content returns the text of an answer.
func content(t *testing.T, a provider.Answer) string {
	t.Helper()
	var c struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal(a.Body, &c); err != nil || len(c.Choices) != 1 {
		t.Fatalf("%v: %s", err, a.Body)
	}
	return c.Choices[0].Message.Content
}

func TestAnswerEchoesTheLastUserMessage(t *testing.T) {
	b := setup(t, sim.Script{})
	tests := map[string]struct{ body, want, finish string }{
		"a string":     {`{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"no"},{"role":"user","content":"two"}]}`, "echo: two", "stop"},
		"parts":        {`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"}]}]}`, "echo: a b", "stop"},
		"long":         {`{"messages":[{"role":"user","content":"` + strings.Repeat("ä", 5000) + `"}]}`, "echo: " + strings.Repeat("ä", 193) + "…", "stop"},
		"a tiny limit": {`{"messages":[{"role":"user","content":"ping"}],"max_tokens":1}`, "echo", "length"},
		"nobody asked": {`{"messages":[{"role":"system","content":"s"}]}`, "echo: ", "stop"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, e := b.send(t.Context(), "m", tt.body, patient)
			if e != nil {
				t.Fatal(e)
			}
			if got := content(t, a); got != tt.want || a.FinishReason != tt.finish || a.RequestID == "" {
				t.Errorf("got %q, %+v", got, a)
			}
			if a.Usage.InputTokens < 1 || a.Usage.OutputTokens < 1 {
				t.Errorf("usage %+v", a.Usage)
			}
		})
	}
}

func TestTokensAreReportedAsScripted(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Tokens: sim.Tokens{Min: 100, Max: 110}}})
	for range 20 {
		if a, e := b.call("m", "x"); e != nil || a.Usage.OutputTokens < 100 || a.Usage.OutputTokens > 110 {
			t.Fatalf("%+v, %v", a.Usage, e)
		}
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	b := setup(t, sim.Script{})
	for _, body := range []string{`[]`, `{}`, `{"model":"m"}`, `{"messages":[{}]}`, `{"model":"m","messages":[{}],"stream":true}`, `nonsense`} {
		res, err := http.Post(b.URL()+"/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != 400 || !strings.Contains(string(text), `"invalid_request_error"`) {
			t.Errorf("%s: %d %s", body, res.StatusCode, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Every fault is what the adapter takes it for.
func TestFaultsAreWhatTheySay(t *testing.T) {
	want := map[sim.Kind]struct {
		kind   provider.Kind
		scope  provider.Scope
		status int
	}{
		sim.Unavailable:  {provider.Unavailable, "", 503},
		sim.ServerError:  {provider.Unavailable, "", 500},
		sim.Overloaded:   {provider.Unavailable, "", 529},
		sim.RateLimited:  {provider.RateLimited, "", 429},
		sim.Reset:        {provider.Unavailable, "", 0},
		sim.Garbage:      {provider.Unavailable, "", 200},
		sim.HTML:         {provider.Unavailable, "", 200},
		sim.EmptyChoices: {provider.Unavailable, "", 200},
		sim.Filter:       {provider.ContentFiltered, "", 400},
		sim.Refusal:      {provider.ContentFiltered, "", 200},
		sim.Quota:        {provider.QuotaExhausted, provider.ScopeParent, 429},
		sim.Unauthorized: {provider.Misconfigured, provider.ScopeParent, 401},
		sim.UnknownModel: {provider.Misconfigured, provider.ScopeModel, 404},
		sim.Context:      {provider.ContextExceeded, "", 400},
		sim.BadRequest:   {provider.InvalidRequest, "", 400},
	}
	for kind, w := range want {
		t.Run(string(kind), func(t *testing.T) {
			b := setup(t, sim.Script{Models: map[string]sim.Behaviour{"m": {Faults: []sim.Fault{{Kind: kind}}}}})
			_, e := b.call("m", "x")
			if e == nil || e.Kind != w.kind || e.Scope != w.scope || e.StatusCode != w.status {
				t.Fatalf("got %+v", e)
			}
			if k := b.kind("other"); k != provider.OK {
				t.Errorf("another model: %s", k)
			}
			waitFor(t, "the end of the call on the log", func() bool { return b.Calls()[0].Done })
			if c := b.Calls()[0]; c.Fault != kind || c.Status != w.status || c.Cut {
				t.Errorf("on the log: %+v", c)
			}
		})
	}
}

func TestRetryAfterIsTold(t *testing.T) {
	for form, want := range map[sim.RetryAfter]time.Duration{
		sim.RetryNone: 0, "": 0, sim.RetrySeconds: 2 * time.Second, sim.RetryDate: 2 * time.Second, sim.RetryMS: 1500 * time.Millisecond,
	} {
		t.Run(string(form), func(t *testing.T) {
			// The header Date is of the real clock, and so must a date be.
			b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{
				{Kind: sim.RateLimited, RetryAfter: form, RetryIn: 1500 * time.Millisecond},
			}}}, func(o *sim.Options) { o.Now = time.Now })
			_, e := b.call("m", "x")
			if e == nil || e.RetryAfter < want || e.RetryAfter > want+time.Second || want == 0 && e.RetryAfter != 0 {
				t.Errorf("got %+v, want %v", e, want)
			}
		})
	}
}

func TestFaultsByTimeAndByCall(t *testing.T) {
	b := setup(t, sim.Script{
		Models: map[string]sim.Behaviour{
			"time": {Faults: []sim.Fault{{Kind: sim.Unavailable, From: 4 * time.Second, To: 12 * time.Second}}},
			"call": {Faults: []sim.Fault{{Kind: sim.Unavailable, FirstCall: 2, LastCall: 3}, {Kind: sim.Filter, FirstCall: 5}}},
		},
	})
	for at, want := range map[time.Duration]provider.Kind{
		0: provider.OK, 3999: provider.OK, 4000: provider.Unavailable, 11999: provider.Unavailable, 12000: provider.OK,
	} {
		b.clock.set(at * time.Millisecond)
		if got := b.kind("time"); got != want {
			t.Errorf("after %v ms: %s, want %s", int64(at), got, want)
		}
	}
	var got []provider.Kind
	for range 6 {
		got = append(got, b.kind("call"))
	}
	want := []provider.Kind{provider.OK, provider.Unavailable, provider.Unavailable, provider.OK, provider.ContentFiltered, provider.ContentFiltered}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestChanceIsOfTheSeed(t *testing.T) {
	run := func(seed uint64) (text string, failed int) {
		b := setup(t, sim.Script{Seed: seed, Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Unavailable, Share: 0.3}}}})
		for range 200 {
			k := b.kind("m")
			text += string(k[0])
			if k != provider.OK {
				failed++
			}
		}
		return text, failed
	}
	first, failed := run(7)
	if again, _ := run(7); first != again {
		t.Errorf("the same seed gave\n%s\n%s", first, again)
	}
	if other, _ := run(8); first == other {
		t.Error("another seed gave the same faults")
	}
	if failed < 30 || failed > 90 {
		t.Errorf("%d of 200 failed at a share of 0.3", failed)
	}
}

func TestHiddenLimit(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Limit: sim.Limit{RPM: 60, Burst: 3, RetryAfter: sim.RetryMS}}})
	admitted := func() (n int) {
		for range 5 {
			if b.kind("m") == provider.OK {
				n++
			}
		}
		return n
	}
	if n := admitted(); n != 3 {
		t.Errorf("%d calls at once, want the burst of 3", n)
	}
	_, e := b.call("m", "x")
	if e == nil || e.Kind != provider.RateLimited || e.RetryAfter != time.Second {
		t.Errorf("got %+v, want to wait a second", e)
	}
	b.clock.set(2 * time.Second)
	if n := admitted(); n != 2 {
		t.Errorf("%d calls after two seconds, want 2", n)
	}
	b.clock.set(time.Hour)
	if n := admitted(); n != 3 {
		t.Errorf("%d calls after an hour, want the burst of 3", n)
	}
}

func TestHangEndsWithTheClient(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Hang}}}})
	_, e := b.send(t.Context(), "m", `{"messages":[{}]}`, 100*time.Millisecond)
	if e == nil || e.Kind != provider.Timeout {
		t.Fatalf("got %+v", e)
	}
	waitFor(t, "the hang to end", func() bool { return b.Counts().InFlight == 0 })
	if c := b.Calls()[0]; !c.Cut || !c.Done || c.Status != 0 || c.Fault != sim.Hang {
		t.Errorf("on the log: %+v", c)
	}
}

func TestCloseEndsHangsAndLatencies(t *testing.T) {
	for name, behaviour := range map[string]sim.Behaviour{
		"hang":    {Faults: []sim.Fault{{Kind: sim.Hang}}},
		"latency": {Latency: sim.Latency{Fixed: time.Hour}},
		"slow":    {Faults: []sim.Fault{{Kind: sim.Slow, Delay: time.Hour}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, sim.Script{Default: behaviour})
			done := make(chan *provider.Error, 1)
			go func() { _, e := b.call("m", "x"); done <- e }()
			waitFor(t, "the call", func() bool { return b.Counts().InFlight == 1 })
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if c := b.Counts(); c.InFlight != 0 || c.Cut != 1 {
				t.Errorf("after Close: %+v", c)
			}
			if e := <-done; e == nil || e.Kind != provider.Unavailable {
				t.Errorf("the client got %+v", e)
			}
		})
	}
}

func TestServesAsAHandler(t *testing.T) {
	s := sim.New(sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Hang, FirstCall: 2}}}}, sim.Options{})
	srv := httptest.NewServer(s)
	defer srv.Close()
	client := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: srv.URL + "/v1"})
	defer client.Close()
	r := provider.Request{Endpoint: "/v1/chat/completions", Model: "m", Body: []byte(`{"messages":[{}]}`), Timeout: patient}
	if _, err := client.Call(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := client.Call(t.Context(), r); done <- err }()
	waitFor(t, "the hang", func() bool { return s.Counts().InFlight == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the hang ended in an answer")
	}
	if _, err := client.Call(t.Context(), r); err == nil {
		t.Error("a closed simulator answered")
	}
}

func TestStartRefuses(t *testing.T) {
	bad := sim.New(sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: "fire"}}}}, sim.Options{})
	if err := bad.Start("127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "fire") {
		t.Errorf("got %v", err)
	}
	b := setup(t, sim.Script{})
	if err := b.Start("127.0.0.1:0"); err == nil {
		t.Error("it was started twice")
	}
	taken := strings.TrimSuffix(strings.TrimPrefix(b.URL(), "http://"), "/v1")
	if err := sim.New(sim.Script{}, sim.Options{}).Start(taken); err == nil {
		t.Error("an address was used twice")
	}
}

func TestLogAndCounts(t *testing.T) {
	b := setup(t, sim.Script{Models: map[string]sim.Behaviour{"bad": {Faults: []sim.Fault{{Kind: sim.Unavailable}}}}},
		func(o *sim.Options) { o.KeepCalls = 8 })
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			b.call([]string{"good", "bad"}[i%2], fmt.Sprint(i))
		})
	}
	wg.Wait()
	waitFor(t, "all calls to end", func() bool { return b.Counts().InFlight == 0 })
	c := b.Counts()
	if c.Calls != 20 || c.Cut != 0 || c.MaxInFlight < 1 || c.Models["good"].Statuses[200] != 10 || c.Models["bad"].Statuses[503] != 10 {
		t.Errorf("counts: %+v", c)
	}
	calls := b.Calls()
	if len(calls) != 8 {
		t.Fatalf("%d calls kept, want 8", len(calls))
	}
	for i, call := range calls {
		if call.N != int64(13+i) || call.IdempotencyKey != "key-1" || len(call.Digest) != 16 || !call.Done {
			t.Errorf("call %d: %+v", i, call)
		}
	}
	b.Reset()
	if c := b.Counts(); c.Calls != 0 || len(b.Calls()) != 0 {
		t.Errorf("after Reset: %+v", c)
	}
}

func TestResetBeginsTheScriptAnew(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Unavailable, From: time.Second}, {Kind: sim.Filter, FirstCall: 2}}}})
	b.call("m", "x")
	b.clock.set(5 * time.Second)
	b.Reset()
	if k := b.kind("m"); k != provider.OK {
		t.Errorf("the first call after Reset: %s", k)
	}
}

func TestRehearsalHasItsOutage(t *testing.T) {
	script := sim.Rehearsal()
	if err := script.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, m := range script.Models { // the latencies are not what is tested
		m.Latency = sim.Latency{Fixed: time.Nanosecond}
		script.Models[name] = m
	}
	b := setup(t, script)
	for at, want := range map[int]provider.Kind{1: provider.OK, 5: provider.Unavailable, 11: provider.Unavailable, 13: provider.OK} {
		b.clock.set(time.Duration(at) * time.Second)
		if got := b.kind("large"); got != want {
			t.Errorf("large after %d s: %s, want %s", at, got, want)
		}
	}
	b.clock.set(9 * time.Second)
	kinds := map[provider.Kind]int{}
	for range 40 {
		kinds[b.kind("small")]++
	}
	if kinds[provider.OK] == 0 || kinds[provider.RateLimited] == 0 || len(kinds) != 2 {
		t.Errorf("small in its spell: %v", kinds)
	}
}
