package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// The simulator's faults are what they are called, in the shape of either API:
// tests and rehearsals rely on the adapters to take each for what it stands for.
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
	s, openai := simulated(t, script)
	s2, anthropic := simulatedMessages(t, script)
	for _, family := range []struct {
		name string
		*sim.Server
		call func(context.Context, provider.Request) (provider.Answer, error)
	}{{"openai", s, openai.Call}, {"anthropic", s2, anthropic.Call}} {
		t.Run(family.name, func(t *testing.T) {
			for kind, w := range want {
				r := chat(string(kind), `{"messages":[{"role":"user","content":"hello"}]}`)
				if w.Kind == provider.Timeout {
					r.Timeout = 50 * time.Millisecond
				}
				_, err := family.call(t.Context(), r)
				var got *provider.Error
				if !errors.As(err, &got) || got.Kind != w.Kind || got.Scope != w.Scope || got.StatusCode != w.StatusCode || got.RetryAfter != w.RetryAfter {
					t.Errorf("%s: %+v", kind, err)
				}
				if w.StatusCode != 0 && w.StatusCode != 200 && got != nil && !strings.HasPrefix(got.RequestID, "sim-") {
					t.Errorf("%s: request ID %q", kind, got.RequestID)
				}
			}
			answer, err := family.call(t.Context(), chat("healthy", `{"messages":[{"role":"user","content":"hello"}]}`))
			if err != nil || answer.FinishReason != "stop" || answer.Usage.OutputTokens == 0 || answer.RequestID == "" {
				t.Errorf("healthy: %+v, %v", answer, err)
			}
			if n := family.Counts().Calls; n != int64(len(want))+1 {
				t.Errorf("%d calls for %d", n, len(want)+1)
			}
		})
	}
}
