package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"nightshift/internal/sim"
	"nightshift/provider"
)

// An endpoint of the simulator, asked plainly and as a stream.
func TestSimulatorsEndpoints(t *testing.T) {
	_, openai := simulated(t, sim.Script{Models: map[string]sim.Behaviour{"m": {}}})
	for _, tt := range []struct{ endpoint, body, finish string }{
		{provider.Completions, `{"prompt":"Grüße"}`, "stop"},
		{provider.Completions, `{"prompt":["a","b"],"n":2}`, "stop"},
		{provider.Completions, `{"prompt":"a long one","max_tokens":1}`, "length"},
		{provider.Embeddings, `{"input":["a","b"]}`, ""},
		{provider.Embeddings, `{"input":[1,2]}`, ""},
		{provider.Responses, `{"input":"Grüße"}`, "stop"},
		{provider.Responses, `{"instructions":"Be brief.","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"max_output_tokens":1}`, "length"},
		{provider.Responses, `{"input":"hi","tools":[{"type":"function","name":"clock","parameters":{}}]}`, "tool_calls"},
		{provider.Responses, `{"input":"hi","text":{"format":{"type":"json_schema","name":"a","schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}}}`, "stop"},
	} {
		var bodies [2]map[string]any
		for i, silence := range []time.Duration{0, time.Minute} {
			r := provider.Request{Endpoint: tt.endpoint, Model: "m", Body: json.RawMessage(tt.body), Timeout: time.Minute, FirstToken: silence, Idle: silence}
			answer, err := openai.Call(t.Context(), r)
			if err != nil || answer.FinishReason != tt.finish || answer.Usage.InputTokens == 0 || (answer.Usage.OutputTokens == 0) != (tt.endpoint == provider.Embeddings) {
				t.Fatalf("%s %s: %+v, %v", tt.endpoint, tt.body, answer, err)
			}
			if err := json.Unmarshal(answer.Body, &bodies[i]); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range bodies {
			for _, field := range []string{"id", "created", "created_at"} {
				delete(b, field)
			}
		}
		if tt.endpoint != provider.Responses && !reflect.DeepEqual(bodies[0], bodies[1]) || fmt.Sprint(bodies[0]["usage"]) != fmt.Sprint(bodies[1]["usage"]) {
			t.Errorf("%s %s:\nplain    %v\nstreamed %v", tt.endpoint, tt.body, bodies[0], bodies[1])
		}
	}
}

// The faults mean at every endpoint what they mean to a chat.
func TestSimulatorsFaultsAtEveryEndpoint(t *testing.T) {
	want := map[sim.Kind]provider.Kind{
		sim.Unavailable: provider.Unavailable, sim.RateLimited: provider.RateLimited, sim.Garbage: provider.Unavailable, sim.HTML: provider.Unavailable,
		sim.EmptyChoices: provider.Unavailable, sim.Quota: provider.QuotaExhausted, sim.Unauthorized: provider.Misconfigured, sim.UnknownModel: provider.Misconfigured,
		sim.Context: provider.ContextExceeded, sim.Filter: provider.ContentFiltered, sim.BadRequest: provider.InvalidRequest, sim.Reset: provider.Unavailable,
		sim.CutOff: provider.Unavailable, sim.Unfinished: provider.Unavailable, sim.StreamError: provider.Unavailable, sim.Refusal: provider.ContentFiltered,
	}
	script := sim.Script{Models: map[string]sim.Behaviour{}}
	for kind := range want {
		script.Models[string(kind)] = sim.Behaviour{Faults: []sim.Fault{{Kind: kind}}}
	}
	_, openai := simulated(t, script)
	for _, endpoint := range []string{provider.Completions, provider.Embeddings, provider.Responses} {
		for kind, w := range want {
			if kind == sim.Refusal && endpoint == provider.Embeddings {
				continue // nothing is said that could be refused
			}
			for _, silence := range []time.Duration{0, time.Minute} {
				_, err := openai.Call(t.Context(), provider.Request{
					Endpoint: endpoint, Model: string(kind), Body: json.RawMessage(`{"prompt":"a","input":"a"}`), Timeout: time.Minute, FirstToken: silence,
				})
				var e *provider.Error
				if !errors.As(err, &e) || e.Kind != w {
					t.Errorf("%s %s, silence %s: %v, want %s", endpoint, kind, silence, err, w)
				}
			}
		}
	}
}
