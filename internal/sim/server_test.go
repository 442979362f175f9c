package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightshift/internal/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const request = `{"model":"m","messages":[{"role":"user","content":"x"}]}`

// clock is a clock that tests move.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_770_000_000, c.ns.Load()) }
func (c *clock) set(since time.Duration) { c.ns.Store(int64(since)) }

type bundle struct {
	*sim.Server
	t      *testing.T
	clock  *clock
	client *http.Client
}

// setup starts a simulator whose clock stands still until the test moves it,
// and a client for it.
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
	b := &bundle{s, t, c, &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// response is what came back; Err where nothing did.
type response struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error
}

// call makes one call.
func (b *bundle) call(model, content string) response {
	b.t.Helper()
	return b.send(b.t.Context(), fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, content))
}

func (b *bundle) send(ctx context.Context, body string) response {
	b.t.Helper()
	return post(ctx, b.client, b.URL(), body)
}

func post(ctx context.Context, client *http.Client, base, body string) response {
	r, err := http.NewRequestWithContext(ctx, "POST", base+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return response{Err: err}
	}
	r.Header.Set("idempotency-key", "key-1")
	r.GetBody = nil // with it and the key, net/http repeats the call by itself
	res, err := client.Do(r)
	if err != nil {
		return response{Err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, text, err}
}

func (b *bundle) status(model string) int {
	b.t.Helper()
	r := b.call(model, "x")
	if r.Err != nil {
		b.t.Fatal(r.Err)
	}
	return r.Status
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

// completion is an answer, decoded.
type completion struct {
	ID, Model string
	Choices   []struct {
		Message      struct{ Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

func (r response) completion(t *testing.T) completion {
	t.Helper()
	var c completion
	if err := json.Unmarshal(r.Body, &c); err != nil || r.Status != 200 || len(c.Choices) != 1 {
		t.Fatalf("%v, %v: %d %s", err, r.Err, r.Status, r.Body)
	}
	return c
}

func TestAnswerEchoesTheLastUserMessage(t *testing.T) {
	b := setup(t, sim.Script{})
	tests := map[string]struct{ body, want, finish string }{
		"a string":     {`{"model":"m","messages":[{"role":"user","content":"one"},{"role":"assistant","content":"no"},{"role":"user","content":"two"}]}`, "echo: two", "stop"},
		"parts":        {`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"}]}]}`, "echo: a b", "stop"},
		"long":         {`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("ä", 5000) + `"}]}`, "echo: " + strings.Repeat("ä", 193) + "…", "stop"},
		"a tiny limit": {`{"model":"m","messages":[{"role":"user","content":"ping"}],"max_tokens":1}`, "echo", "length"},
		"nobody asked": {`{"model":"m","messages":[{"role":"system","content":"s"}]}`, "echo: ", "stop"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := b.send(t.Context(), tt.body)
			c := r.completion(t)
			if first := c.Choices[0]; first.Message.Content != tt.want || first.FinishReason != tt.finish {
				t.Errorf("got %+v", first)
			}
			if c.Model != "m" || c.Usage.Prompt < 1 || c.Usage.Completion < 1 || r.Header.Get("x-request-id") == "" {
				t.Errorf("got %+v, %v", c, r.Header)
			}
		})
	}
}

func TestTokensAreReportedAsScripted(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{Tokens: sim.Tokens{Min: 100, Max: 110}}})
	for range 20 {
		if n := b.call("m", "x").completion(t).Usage.Completion; n < 100 || n > 110 {
			t.Fatalf("%d tokens", n)
		}
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	b := setup(t, sim.Script{})
	for _, body := range []string{`[]`, `{}`, `{"model":"m"}`, `{"messages":[{}]}`, `{"model":"m","messages":[{}],"stream_options":{}}`, `nonsense`} {
		if r := b.send(t.Context(), body); r.Status != 400 || !strings.Contains(string(r.Body), `"invalid_request_error"`) {
			t.Errorf("%s: %d %s", body, r.Status, r.Body)
		}
	}
}

// That each kind of fault is what an adapter takes it for is a test of package
// provider.
func TestFaultsAreOfTheirModel(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{}, Models: map[string]sim.Behaviour{
		"m": {Latency: sim.Latency{Fixed: time.Hour}, Faults: []sim.Fault{{Kind: sim.Unavailable}}},
	}})
	if got := b.status("m"); got != 503 { // at once: a refusal takes no model's latency
		t.Errorf("got %d", got)
	}
	if got := b.status("other"); got != 200 {
		t.Errorf("another model: %d", got)
	}
	waitFor(t, "the end of the calls on the log", func() bool { return b.Counts().InFlight == 0 })
	if c := b.Calls()[0]; c.Fault != sim.Unavailable || c.Status != 503 || c.Cut {
		t.Errorf("on the log: %+v", c)
	}
}

func TestRetryAfterIsTold(t *testing.T) {
	for form, want := range map[sim.RetryAfter][2]string{
		sim.RetryNone: {}, "": {}, sim.RetrySeconds: {"2", ""}, sim.RetryMS: {"", "1500"},
		sim.RetryDate: {time.Unix(1_770_000_002, 0).UTC().Format(http.TimeFormat), ""},
	} {
		t.Run(string(form), func(t *testing.T) {
			b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{
				{Kind: sim.RateLimited, RetryAfter: form, RetryIn: 1500 * time.Millisecond},
			}}})
			r := b.call("m", "x")
			if got := [2]string{r.Header.Get("Retry-After"), r.Header.Get("retry-after-ms")}; got != want || r.Status != 429 {
				t.Errorf("got %d, %q, want %q", r.Status, got, want)
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
	for at, want := range map[time.Duration]int{0: 200, 3999: 200, 4000: 503, 11999: 503, 12000: 200} {
		b.clock.set(at * time.Millisecond)
		if got := b.status("time"); got != want {
			t.Errorf("after %v ms: %d, want %d", int64(at), got, want)
		}
	}
	var got []int
	for range 6 {
		got = append(got, b.status("call"))
	}
	if want := []int{200, 503, 503, 200, 400, 400}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestChanceIsOfTheSeed(t *testing.T) {
	run := func(seed uint64) (text string, failed int) {
		b := setup(t, sim.Script{Seed: seed, Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Unavailable, Share: 0.3}}}})
		for range 200 {
			status := b.status("m")
			text += fmt.Sprint(status / 100)
			if status != 200 {
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
