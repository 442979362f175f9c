package provider_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// What headers tell stands on answers and on errors, plain and streamed, of both
// families.
func TestRateLimitStandsOnEveryResponse(t *testing.T) {
	limit := func(h sim.Headers) sim.Behaviour {
		return sim.Behaviour{Limit: sim.Limit{RPM: 60, Burst: 2, Headers: h}}
	}
	script := sim.Script{Models: map[string]sim.Behaviour{
		"openai": limit(sim.HeadersOpenAI), "anthropic": limit(sim.HeadersAnthropic), "ietf": limit(sim.HeadersIETF),
	}}
	s, openai := simulated(t, script)
	s2, anthropic := simulatedMessages(t, script)
	for _, family := range []struct {
		name string
		*sim.Server
		call func(context.Context, provider.Request) (provider.Answer, error)
	}{{"openai", s, openai.Call}, {"anthropic", s2, anthropic.Call}} {
		for _, headers := range []string{"openai", "anthropic", "ietf"} {
			for _, streamed := range []bool{false, true} {
				family.Reset()
				r := chat(headers, `{"messages":[{"role":"user","content":"hello"}]}`)
				if streamed {
					r.FirstToken, r.Idle = never, never
				}
				for left := int64(1); left >= 0; left-- {
					answer, err := family.call(t.Context(), r)
					if got := answer.RateLimit.Requests; err != nil || !got.Known || got.Limit != 60 || got.Remaining != left || got.Reset <= 0 {
						t.Errorf("%s, headers %s, streamed %v: %+v, %v; want %d of 60 left", family.name, headers, streamed, got, err, left)
					}
				}
				_, err := family.call(t.Context(), r)
				var e *provider.Error
				if !errors.As(err, &e) || e.Kind != provider.RateLimited {
					t.Fatalf("%s, headers %s: %v, want a refusal", family.name, headers, err)
				}
				if got := e.RateLimit.Requests; got.Limit != 60 || got.Remaining != 0 || got.Reset <= 0 || got.Reset > 3*time.Second {
					t.Errorf("%s, headers %s, streamed %v: %+v of a refusal", family.name, headers, streamed, got)
				}
			}
		}
	}
}
