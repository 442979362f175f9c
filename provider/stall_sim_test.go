package provider_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// running is a simulator that is started.
func running(t *testing.T, script sim.Script, o sim.Options) *sim.Server {
	t.Helper()
	s := sim.New(script, o)
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// simulated is a simulator and an adapter for its chat completions.
func simulated(t *testing.T, script sim.Script) (*sim.Server, *provider.OpenAI) {
	t.Helper()
	s := running(t, script, sim.Options{})
	a := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: s.URL()})
	t.Cleanup(a.Close)
	return s, a
}

// limited is a request with a timeout that no test waits for.
func limited(first, idle time.Duration) provider.Request {
	return provider.Request{
		Endpoint: "/v1/chat/completions", Model: "m", Timeout: time.Hour, FirstToken: first, Idle: idle,
		Body: []byte(`{"messages":[{"role":"user","content":"a text of some length, so that there are tokens"}]}`),
	}
}

const (
	short = 100 * time.Millisecond
	never = time.Hour
)

// Each ends by the limit that it names, long before the others would.
func TestSilenceIsNoticedByItsOwnLimit(t *testing.T) {
	keepAlive := 5 * time.Millisecond
	tests := map[string]struct {
		fault       sim.Fault
		first, idle time.Duration
		says        string
		status      int
	}{
		"before the head":             {sim.Fault{Kind: sim.Hang}, short, never, "first_token", 0},
		"after the head":              {sim.Fault{Kind: sim.Stall}, short, never, "first_token", 200},
		"keep-alives for a token":     {sim.Fault{Kind: sim.Stall, KeepAlive: keepAlive}, short, never, "first_token", 200},
		"after one token":             {sim.Fault{Kind: sim.Stall, AfterTokens: 1}, never, short, "idle", 200},
		"keep-alives after one token": {sim.Fault{Kind: sim.Stall, AfterTokens: 1, KeepAlive: keepAlive}, never, short, "idle", 200},
		"after five tokens":           {sim.Fault{Kind: sim.Stall, AfterTokens: 5}, never, short, "idle", 200},
		"after the last token":        {sim.Fault{Kind: sim.Stall, AfterTokens: 1000}, never, short, "idle", 200},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, a := simulated(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{tt.fault}}})
			_, err := a.Call(t.Context(), limited(tt.first, tt.idle))
			var e *provider.Error
			if !errors.As(err, &e) || e.Kind != provider.Timeout || e.StatusCode != tt.status ||
				!strings.Contains(e.Message, tt.says) || !errors.Is(err, provider.ErrStalled) {
				t.Fatalf("got %+v", err)
			}
			if n := s.Counts().Calls; n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// A call that is not streamed may take as long as a first token in all, and
// keep-alives do not lengthen it.
func TestAPlainCallMayTakeAFirstTokensTime(t *testing.T) {
	for _, kind := range []sim.Kind{sim.Hang, sim.Stall} {
		_, a := simulated(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: kind, KeepAlive: time.Millisecond}}}})
		r := limited(short, never)
		r.Body = []byte(`{"messages":[{"role":"user","content":"x"}],"modalities":["text","audio"],"audio":{"voice":"alloy"}}`)
		_, err := a.Call(t.Context(), r)
		if e := new(provider.Error); !errors.As(err, &e) || e.Kind != provider.Timeout || !strings.Contains(e.Message, "not streamed") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// The answer takes several times as long as it may be silent.
func TestAHealthyLongAnswerIsNotCut(t *testing.T) {
	_, a := simulated(t, sim.Script{Default: sim.Behaviour{Stream: sim.Stream{FirstToken: 50 * time.Millisecond, TokensPerSecond: 20}}})
	started := time.Now()
	const silence = 400 * time.Millisecond
	answer, err := a.Call(t.Context(), limited(silence, silence))
	if err != nil || answer.FinishReason != "stop" {
		t.Fatalf("got %+v, %v", answer, err)
	}
	if took := time.Since(started); took < silence+silence/2 || answer.FirstToken < 50*time.Millisecond || answer.FirstToken > took-silence {
		t.Errorf("first token after %v of %v", answer.FirstToken, took)
	}
}

func TestCase15_AStreamThatDiesIsAFailure(t *testing.T) {
	for _, kind := range []sim.Kind{sim.CutOff, sim.Unfinished, sim.StreamError} {
		for _, tokens := range []int{0, 1, 5, 1000} {
			s, a := simulated(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: kind, AfterTokens: tokens}}}})
			for _, silence := range []time.Duration{never, 0} { // streamed, plain
				_, err := a.Call(t.Context(), limited(silence, silence))
				if e := new(provider.Error); !errors.As(err, &e) || e.Kind != provider.Unavailable || e.StatusCode != 200 {
					t.Errorf("%s after %d tokens: %+v", kind, tokens, err)
				}
			}
			if n := s.Counts().Calls; n != 2 {
				t.Errorf("%s: %d calls, want 2", kind, n)
			}
		}
	}
}

func TestSimulatorsRefusalsOfStreams(t *testing.T) {
	for kind, want := range map[sim.Kind]provider.Usage{
		sim.NoStream:      {InputTokens: 12, OutputTokens: 14},
		sim.NoStreamUsage: {},
	} {
		s, a := simulated(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{{Kind: kind}}}})
		for range 3 {
			answer, err := a.Call(t.Context(), limited(never, never))
			if err != nil || answer.Usage != want {
				t.Errorf("%s: %+v, %v", kind, answer, err)
			}
		}
		if n := s.Counts().Calls; n != 4 { // one refused, and remembered
			t.Errorf("%s: %d requests", kind, n)
		}
	}
}
