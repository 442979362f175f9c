package sim_test

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"

	"nightshift/internal/sim"
)

const streamRequest = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"0123456789"}]}`

// dataOf returns the data of a stream's events.
func dataOf(body []byte) (data []string) {
	for line := range strings.SplitSeq(string(body), "\n") {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			data = append(data, text)
		}
	}
	return data
}

func TestStreamHasTheSimulatorsWords(t *testing.T) {
	b := setup(t, sim.Script{})
	r := b.send(t.Context(), streamRequest)
	data := dataOf(r.Body)
	const head = `{"id":"chatcmpl-sim-1","object":"chat.completion.chunk","created":1770000000,"model":"m","choices":[`
	want := []string{
		head + `{"index":0,"delta":{"content":"","refusal":null,"role":"assistant"},"logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"delta":{"content":"echo"},"logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"delta":{"content":": 01"},"logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"delta":{"content":"2345"},"logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"delta":{"content":"6789"},"logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`,
		head + `],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`,
		"[DONE]",
	}
	if got := strings.Join(data, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
	if ct := r.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %q", ct)
	}
	b.send(t.Context(), request)
	if c := b.Calls(); len(c) != 2 || !c[0].Stream || c[0].Status != 200 || c[0].Cut || c[1].Stream {
		t.Errorf("on the log: %+v", c)
	}
}

func TestStreamWithoutUsage(t *testing.T) {
	b := setup(t, sim.Script{})
	r := b.send(t.Context(), `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	if strings.Contains(string(r.Body), "usage") || !strings.HasSuffix(string(r.Body), "data: [DONE]\n\n") {
		t.Errorf("got %s", r.Body)
	}
}

func TestFaultsOfStreams(t *testing.T) {
	tests := map[sim.Kind]struct {
		events int    // of a stream after which it happens
		last   string // what the last of them has
		clean  bool   // the response ends as it should
	}{
		sim.CutOff:      {3, `": 01"`, false},
		sim.Unfinished:  {3, `": 01"`, true},
		sim.StreamError: {4, `"error"`, true},
	}
	for kind, want := range tests {
		b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: kind, AfterTokens: 2}}}})
		r := b.send(t.Context(), streamRequest)
		data := dataOf(r.Body)
		if len(data) != want.events || !strings.Contains(data[len(data)-1], want.last) || (r.Err == nil) != want.clean {
			t.Errorf("%s: %d events, %v:\n%s", kind, len(data), r.Err, r.Body)
		}
		waitFor(t, "the call's end", func() bool { return b.Counts().InFlight == 0 })
		if c := b.Calls()[0]; c.Fault != kind || c.Status != 200 || c.Cut {
			t.Errorf("%s on the log: %+v", kind, c)
		}
	}
}

func TestStallEndsWithTheServer(t *testing.T) {
	for body, keepAlive := range map[string]string{streamRequest: ": keep-alive\n", request: "\n"} {
		b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: sim.Stall, AfterTokens: 1, KeepAlive: time.Millisecond}}}})
		res, err := b.client.Post(b.URL()+"/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		r := bufio.NewReader(res.Body)
		var came strings.Builder
		for kept := 0; kept < 3; {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("ended by itself after %q: %v", came.String(), err)
			}
			came.WriteString(line)
			if line == keepAlive {
				kept++
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		rest, err := io.ReadAll(r)
		data := dataOf([]byte(came.String() + string(rest)))
		if streamed := body == streamRequest; err == nil || streamed && len(data) != 2 || !streamed && strings.Trim(came.String()+string(rest), "\n") != "" {
			t.Errorf("got %q and %q, %v", came.String(), rest, err)
		}
		if c := b.Calls()[0]; !c.Cut || c.Status != 200 {
			t.Errorf("on the log: %+v", c)
		}
	}
}

func TestRefusalsOfStreamsMeetOnlyStreams(t *testing.T) {
	const bareStream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`
	for kind, want := range map[sim.Kind][3]int{sim.NoStream: {400, 400, 200}, sim.NoStreamUsage: {400, 200, 200}} {
		b := setup(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: kind}}}})
		for i, body := range []string{streamRequest, bareStream, request} {
			if r := b.send(t.Context(), body); r.Status != want[i] {
				t.Errorf("%s, request %d: %d %s", kind, i, r.Status, r.Body)
			}
		}
	}
}

// The pace is a lower bound: four tokens at 20 a second after a first one.
func TestStreamHasItsPace(t *testing.T) {
	b := setup(t, sim.Script{Default: sim.Behaviour{
		Latency: sim.Latency{Fixed: time.Hour}, // which the pace replaces
		Stream:  sim.Stream{FirstToken: 50 * time.Millisecond, TokensPerSecond: 20},
	}})
	started := time.Now()
	if r := b.send(t.Context(), streamRequest); r.Status != 200 || r.Err != nil {
		t.Fatalf("got %+v", r)
	}
	if took := time.Since(started); took < 200*time.Millisecond {
		t.Errorf("took %v", took)
	}
}
