package provider_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// The golden suite through the Messages API: what it carries over comes out of a
// stream as it does plain.
func TestStreamedAndPlainMessagesAreTheSame(t *testing.T) {
	start := time.Unix(1_770_000_000, 0)
	s := running(t, sim.Script{}, sim.Options{Now: func() time.Time { return start }})
	transport := &dice{&http.Transport{}, rand.New(rand.NewPCG(3, 4))}
	defer transport.base.CloseIdleConnections()
	a := provider.NewAnthropic(provider.AnthropicOptions{BaseURL: s.URL(), HTTPClient: &http.Client{Transport: transport}})
	call := func(name, body string, silence time.Duration) (outcome, bool) {
		s.Reset() // the answer's ID is made of the call's number
		if kind, isFault := strings.CutPrefix(name, "fault "); isFault {
			if err := s.AddFaults("", sim.Fault{Kind: sim.Kind(kind)}); err != nil {
				t.Fatal(err)
			}
		}
		r := chat("m", body)
		r.FirstToken, r.Idle = silence, silence
		answer, err := a.Call(t.Context(), r)
		var e *provider.Error
		if errors.As(err, &e) && e.Parameter != "" && len(s.Calls()) == 0 {
			return outcome{}, false
		}
		if calls := s.Calls(); len(calls) != 1 || calls[0].Stream != (silence > 0) {
			t.Fatalf("%s: calls %+v", name, calls)
		}
		if streamed := answer.FirstToken > 0; err == nil && streamed != (silence > 0) {
			t.Errorf("%s: first token after %v", name, answer.FirstToken)
		}
		o := read(t, answer, err)
		if body, ok := o.Body.(map[string]any); ok {
			delete(body, "created") // the server's clock, which nobody can stop
		}
		return o, true
	}
	carried := 0
	for name, body := range golden() {
		plain, ok := call(name, body, 0)
		if !ok {
			continue
		}
		carried++
		streamed, _ := call(name, body, time.Minute)
		if kind, isFault := strings.CutPrefix(name, "fault "); isFault { // the bodies kept are of two shapes
			plain.Body, streamed.Body = nil, nil
			if plain.Kind == provider.OK {
				t.Errorf("%s passed for an answer", kind)
			}
		} else if plain.Kind != provider.OK || plain.Usage.OutputTokens == 0 {
			t.Errorf("%s: %+v", name, plain)
		}
		if !reflect.DeepEqual(plain, streamed) {
			t.Errorf("%s:\nplain    %+v\nstreamed %+v", name, plain, streamed)
		}
	}
	if carried < 35 {
		t.Errorf("only %d requests of the suite are carried over", carried)
	}
}

// The same stalls as TestSilenceIsNoticedByItsOwnLimit, where keep-alives are
// pings.
func TestSilenceInMessagesIsNoticedByItsOwnLimit(t *testing.T) {
	tests := map[string]struct {
		fault       sim.Fault
		first, idle time.Duration
		says        string
	}{
		"before the head":       {sim.Fault{Kind: sim.Hang}, short, never, "first_token"},
		"after the head":        {sim.Fault{Kind: sim.Stall}, short, never, "first_token"},
		"pings for a token":     {sim.Fault{Kind: sim.Stall, KeepAlive: 5 * time.Millisecond}, short, never, "first_token"},
		"after one token":       {sim.Fault{Kind: sim.Stall, AfterTokens: 1}, never, short, "idle"},
		"pings after one token": {sim.Fault{Kind: sim.Stall, AfterTokens: 1, KeepAlive: 5 * time.Millisecond}, never, short, "idle"},
		"after the last token":  {sim.Fault{Kind: sim.Stall, AfterTokens: 1000}, never, short, "idle"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, a := simulatedMessages(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{tt.fault}}})
			_, err := a.Call(t.Context(), limited(tt.first, tt.idle))
			var e *provider.Error
			if !errors.As(err, &e) || e.Kind != provider.Timeout || !errors.Is(err, provider.ErrStalled) || !strings.Contains(e.Message, tt.says) {
				t.Errorf("got %+v", err)
			}
			if n := s.Counts().Calls; n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// TestCase15_41_MessagesThatBreakOff is cases 15 and 41 against the simulator.
func TestCase15_41_MessagesThatBreakOff(t *testing.T) {
	for _, f := range []sim.Fault{
		{Kind: sim.CutOff, AfterTokens: 2},
		{Kind: sim.Unfinished, AfterTokens: 2},
		{Kind: sim.StreamError, AfterTokens: 2},
		{Kind: sim.StreamError},
	} {
		_, a := simulatedMessages(t, sim.Script{Default: sim.Behaviour{Faults: []sim.Fault{f}}})
		for _, limit := range []time.Duration{0, never} {
			_, err := a.Call(t.Context(), limited(limit, limit))
			var e *provider.Error
			if !errors.As(err, &e) || e.Kind != provider.Unavailable || e.StatusCode != 200 {
				t.Errorf("%s after %d tokens, silence %v: %+v", f.Kind, f.AfterTokens, limit, err)
			}
		}
	}
}

// What the simulator streams is what the API's own SDK can put together.
func TestSimulatorStreamsTheMessagesAPI(t *testing.T) {
	s, _ := simulatedMessages(t, sim.Script{})
	client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithAPIKey("k"),
		option.WithBaseURL(strings.TrimSuffix(s.URL(), "/v1")), option.WithMaxRetries(0))
	stream := client.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
		Model: "m", MaxTokens: 100, OutputConfig: anthropic.OutputConfigParam{Effort: anthropic.OutputConfigEffortLow},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
	})
	defer stream.Close()
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(m.Content) != 2 || m.Content[0].Type != "thinking" || m.Content[0].Signature == "" || m.Content[1].Text != "echo: hello" ||
		m.StopReason != anthropic.StopReasonEndTurn || m.Usage.InputTokens == 0 || m.Usage.OutputTokens < 2 {
		t.Errorf("got %+v", m)
	}
}
