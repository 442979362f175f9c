package ladder

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"nightshift/breaker"
	"nightshift/internal/sim"
	"nightshift/provider"
)

// setupFamilies is a ladder of a rung at OpenAI's API and one at Anthropic's,
// each provider being a simulator of its own.
func setupFamilies(t *testing.T) (b *bundle, l *Ladder, openai, anthropic *sim.Server) {
	b = setup(t, "gpt", "claude")
	servers := map[string]*sim.Server{}
	for _, name := range []string{"gpt", "claude"} {
		s := sim.New(sim.Script{}, sim.Options{})
		if err := s.Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		servers[name] = s
	}
	first := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: servers["gpt"].URL()})
	second := provider.NewAnthropic(provider.AnthropicOptions{BaseURL: servers["claude"].URL()})
	t.Cleanup(first.Close)
	t.Cleanup(second.Close)
	l, err := New(Options{
		Ladder: nightly(1, "gpt", "claude"), Models: b.models, Callers: map[string]Caller{"p/gpt": first, "p/claude": second},
		Gate:    b.gate(breaker.NewMemory(func(breaker.Key) breaker.Settings { return breaker.Settings{Window: 20, Failures: 10} }, b.Now)),
		Sleeper: b, Now: b.Now, Observer: b,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b, l, servers["gpt"], servers["claude"]
}

// The same line goes to either family, and its answer has one shape.
func TestALineFallsFromOneFamilyToTheOther(t *testing.T) {
	b, l, openai, anthropic := setupFamilies(t)
	if err := openai.AddFaults("", sim.Fault{Kind: sim.Unavailable}); err != nil {
		t.Fatal(err)
	}
	r := line()
	r.Body = json.RawMessage(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"grüß dich"}],"temperature":0.2,"max_tokens":50,"metadata":{"k":"v"}}`)
	out := l.whole(context.Background(), r, b.journal)
	wantEnd(t, out, Answered, "")
	var body struct {
		Object, Model string
		Choices       []struct {
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(out.Answer.Response.Body, &body); err != nil || len(body.Choices) != 1 {
		t.Fatalf("%v: %s", err, out.Answer.Response.Body)
	}
	same(t, "object", body.Object, "chat.completion")
	same(t, "content", body.Choices[0].Message.Content, "echo: grüß dich")
	same(t, "finish reason", body.Choices[0].FinishReason, "stop")
	same(t, "model", out.Answer.Model, "p/claude")
	same(t, "degraded", out.Answer.Degraded, true)
	same(t, "calls", len(out.Progress.Calls), 2)
	same(t, "first call", out.Progress.Calls[0].Kind, provider.Unavailable)
	if out.Progress.Calls[1].Cost <= 0 {
		t.Errorf("the answer cost %v", out.Progress.Calls[1].Cost)
	}
	same(t, "requests to Anthropic's API", anthropic.Counts().Calls, int64(1))
}

// A field that Anthropic's API has no counterpart for rules that rung out,
// without a call; it does not end the line.
func TestAFieldOfOneFamilyRulesOutARungOfTheOther(t *testing.T) {
	b, _, openai, anthropic := setupFamilies(t)
	first := provider.NewAnthropic(provider.AnthropicOptions{BaseURL: anthropic.URL()})
	second := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: openai.URL()})
	t.Cleanup(first.Close)
	t.Cleanup(second.Close)
	l, err := New(Options{
		Ladder: nightly(1, "claude", "gpt"), Models: b.models, Callers: map[string]Caller{"p/claude": first, "p/gpt": second},
		Gate:    b.gate(breaker.NewMemory(func(breaker.Key) breaker.Settings { return breaker.Settings{Window: 20, Failures: 10} }, b.Now)),
		Sleeper: b, Now: b.Now, Observer: b,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := line()
	r.Body = json.RawMessage(`{"messages":[{"role":"user","content":"x"}],"seed":7}`)
	out := l.whole(context.Background(), r, b.journal)
	wantEnd(t, out, Answered, "")
	same(t, "model", out.Answer.Model, "p/gpt")
	same(t, "requests to Anthropic's API", anthropic.Counts().Calls, int64(0))
	if detail := out.Progress.Calls[0].Detail; !strings.Contains(detail, "seed") {
		t.Errorf("the attempt says %q, and not which field", detail)
	}
}
