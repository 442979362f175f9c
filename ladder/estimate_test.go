package ladder

import (
	"encoding/json"
	"strings"
	"testing"

	"nightshift/config"
	"nightshift/provider"
)

func TestEstimate(t *testing.T) {
	ask := func(more string) string {
		return `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 80) + `"}]` + more + `}`
	}
	const input = perMessage + 100
	tests := []struct {
		name, body string
		rung       config.Rung
		model      config.Model
		in, out    int64
	}{
		{"no bound", ask(""), config.Rung{}, config.Model{}, input, UsualAnswer},
		{"its own bound", ask(`,"max_tokens":40`), config.Rung{}, config.Model{}, input, 40},
		{"the newer name wins", ask(`,"max_tokens":40,"max_completion_tokens":60`), config.Rung{}, config.Model{}, input, 60},
		{"the rung's bound", ask(`,"max_tokens":40`), config.Rung{Set: map[string]any{"max_tokens": 7}}, config.Model{}, input, 7},
		{"choices", ask(`,"max_tokens":40,"n":3`), config.Rung{}, config.Model{}, input, 120},
		{"the rung's choices", ask(`,"max_tokens":40,"n":3`), config.Rung{Set: map[string]any{"n": 2}}, config.Model{}, input, 80},
		{"no more than the context leaves", ask(""), config.Rung{}, config.Model{Context: 204}, input, 100},
		{"a context that is too small", ask(""), config.Rung{}, config.Model{Context: 50}, input, 1},
		{"nonsense", ask(`,"max_tokens":-4,"n":"many"`), config.Rung{}, config.Model{}, input, UsualAnswer},
		{"huge", ask(`,"max_tokens":9000000000000000000,"n":9000000000000000000`), config.Rung{}, config.Model{}, input, maxEstimate},
		{"no chat", `{"input":"x"}`, config.Rung{}, config.Model{}, 0, UsualAnswer},
		{"no JSON", `{`, config.Rung{}, config.Model{}, 0, UsualAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, out := SizeOf(provider.ChatCompletions, json.RawMessage(tt.body)).Tokens(tt.rung, tt.model)
			if in != tt.in || out != tt.out {
				t.Errorf("got %d in, %d out; want %d and %d", in, out, tt.in, tt.out)
			}
		})
	}
}

func TestEstimatedCost(t *testing.T) {
	m := config.Model{Price: &config.Price{Input: 2.5, Output: 10, PerCall: 0.01}}
	if got, want := EstimatedCost(config.Rung{}, m, 1000, 500), provider.Dollars(0.0175); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := EstimatedCost(config.Rung{Price: &config.Price{}}, m, 1000, 500); got != 0 {
		t.Errorf("%v at the rung's own price of nothing", got)
	}
	if got := EstimatedCost(config.Rung{}, config.Model{}, 1000, 500); got != 0 {
		t.Errorf("%v without a price", got)
	}
}

func FuzzEstimate(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"content":"x"}],"max_tokens":5}`, `{"n":1e99}`, `{"max_tokens":-1}`, `{"max_tokens":9223372036854775807,"n":1000}`, `[]`, ``,
	} {
		f.Add(s, 0)
		f.Add(s, 4096)
	}
	f.Fuzz(func(t *testing.T, body string, window int) {
		in, out := SizeOf(provider.ChatCompletions, json.RawMessage(body)).Tokens(config.Rung{}, config.Model{Context: window})
		if in < 0 || in > maxEstimate || out < 1 || out > maxEstimate {
			t.Fatalf("%d in, %d out of %q", in, out, body)
		}
	})
}
