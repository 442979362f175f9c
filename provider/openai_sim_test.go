package provider_test

import (
	"errors"
	"testing"
	"time"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// The simulator's faults are what they are called: tests and rehearsals rely
// on the adapter to take each for what it stands for.
func TestSimulatorsFaultsAreWhatTheySay(t *testing.T) {
	want := map[sim.Kind]provider.Error{
		sim.Unavailable:  {Kind: provider.Unavailable, StatusCode: 503},
		sim.ServerError:  {Kind: provider.Unavailable, StatusCode: 500},
		sim.Overloaded:   {Kind: provider.Unavailable, StatusCode: 529},
		sim.RateLimited:  {Kind: provider.RateLimited, StatusCode: 429, RetryAfter: 2 * time.Second},
		sim.Reset:        {Kind: provider.Unavailable},
		sim.Garbage:      {Kind: provider.Unavailable, StatusCode: 200},
		sim.HTML:         {Kind: provider.Unavailable, StatusCode: 200},
		sim.EmptyChoices: {Kind: provider.Unavailable, StatusCode: 200},
		sim.Filter:       {Kind: provider.ContentFiltered, StatusCode: 400},
		sim.Refusal:      {Kind: provider.ContentFiltered, StatusCode: 200},
		sim.Quota:        {Kind: provider.QuotaExhausted, Scope: provider.ScopeParent, StatusCode: 429},
		sim.Payment:      {Kind: provider.QuotaExhausted, Scope: provider.ScopeParent, StatusCode: 402},
		sim.SpendLimit:   {Kind: provider.QuotaExhausted, Scope: provider.ScopeParent, StatusCode: 400},
		sim.Unauthorized: {Kind: provider.Misconfigured, Scope: provider.ScopeParent, StatusCode: 401},
		sim.UnknownModel: {Kind: provider.Misconfigured, Scope: provider.ScopeModel, StatusCode: 404},
		sim.Context:      {Kind: provider.ContextExceeded, StatusCode: 400},
		sim.BadRequest:   {Kind: provider.InvalidRequest, StatusCode: 400},
		sim.Hang:         {Kind: provider.Timeout},
		sim.Slow:         {Kind: provider.Timeout},
	}
	script := sim.Script{Models: map[string]sim.Behaviour{"healthy": {}}}
	for kind := range want {
		f := sim.Fault{Kind: kind}
		if kind == sim.RateLimited {
			f.RetryAfter, f.RetryIn = sim.RetryMS, 2*time.Second
		}
		if kind == sim.Slow {
			f.Delay = time.Hour
		}
		script.Models[string(kind)] = sim.Behaviour{Faults: []sim.Fault{f}}
	}
	s := sim.New(script, sim.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: s.URL()})
	defer a.Close()
	call := func(model string) (provider.Answer, error) {
		limit := time.Minute
		if want[sim.Kind(model)].Kind == provider.Timeout {
			limit = 50 * time.Millisecond
		}
		return a.Call(t.Context(), provider.Request{
			Endpoint: "/v1/chat/completions", Model: model, Timeout: limit,
			Body: []byte(`{"messages":[{"role":"user","content":"hello"}]}`),
		})
	}
	for kind, w := range want {
		_, err := call(string(kind))
		var got *provider.Error
		if !errors.As(err, &got) || got.Kind != w.Kind || got.Scope != w.Scope || got.StatusCode != w.StatusCode || got.RetryAfter != w.RetryAfter {
			t.Errorf("%s: %+v", kind, err)
		}
	}
	if answer, err := call("healthy"); err != nil || answer.FinishReason != "stop" || answer.Usage.OutputTokens == 0 || answer.RequestID == "" {
		t.Errorf("healthy: %+v, %v", answer, err)
	}
}
