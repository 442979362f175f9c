package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const sample = `
seed: 7
default:
  latency: {p50: 400ms, p99: 2s}
models:
  large:
    tokens: {min: 10, max: 20}
    stream: {first_token: 200ms, tokens_per_second: 12.5}
    limit: {rpm: 60, burst: 5, retry_after: ms, headers: openai, in_flight: 4, steps: [{from: 10s, rpm: 30}]}
    faults:
      - {kind: 503, from: 4s, to: 12s}
      - {kind: "429", retry_after: date, retry_in: 2s, share: 0.25, first_call: 3, last_call: 9}
      - {kind: slow, delay: 3s}
      - {kind: stall, after_tokens: 3, keep_alive: 1s}
`

func TestLoad(t *testing.T) {
	want := Script{
		Seed:    7,
		Default: Behaviour{Latency: Latency{P50: 400 * time.Millisecond, P99: 2 * time.Second}},
		Models: map[string]Behaviour{"large": {
			Tokens: Tokens{10, 20},
			Stream: Stream{FirstToken: 200 * time.Millisecond, TokensPerSecond: 12.5},
			Limit:  Limit{RPM: 60, Burst: 5, RetryAfter: RetryMS, Headers: HeadersOpenAI, InFlight: 4, Steps: []Step{{From: 10 * time.Second, RPM: 30}}},
			Faults: []Fault{
				{Kind: Unavailable, From: 4 * time.Second, To: 12 * time.Second},
				{Kind: RateLimited, RetryAfter: RetryDate, RetryIn: 2 * time.Second, Share: 0.25, FirstCall: 3, LastCall: 9},
				{Kind: Slow, Delay: 3 * time.Second},
				{Kind: Stall, AfterTokens: 3, KeepAlive: time.Second},
			},
		}},
	}
	got, err := Load(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if b := got.of("large"); b.Latency != want.Default.Latency || len(b.Faults) != 4 {
		t.Errorf("large does not have the default's latency: %+v", b)
	}
	asJSON, err := Load(strings.NewReader(`{"seed":7,"models":{"a":{"faults":[{"kind":"hang","from":"1s"}]}}}`))
	if err != nil || asJSON.Models["a"].Faults[0] != (Fault{Kind: Hang, From: time.Second}) {
		t.Errorf("JSON: %+v, %v", asJSON, err)
	}
	if empty, err := Load(strings.NewReader("")); err != nil || !reflect.DeepEqual(empty, Script{}) {
		t.Errorf("empty: %+v, %v", empty, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := map[string]string{
		`seeds: 1`:                              "seeds",
		`models: {a: {faults: [{kind: fire}]}}`: `models.a.faults[0].kind: "fire"`,
		`default: {faults: [{kind: 503, from: 5s, to: 4s}]}`:            "from < to",
		`default: {faults: [{kind: 503, first_call: 5, last_call: 4}]}`: "first_call",
		`default: {faults: [{kind: 503, share: 1.5}]}`:                  "share",
		`default: {faults: [{kind: 503, share: .nan}]}`:                 "share",
		`default: {faults: [{kind: 503, retry_after: soon}]}`:           "retry_after",
		`default: {faults: [{kind: 503, delay: -1s}]}`:                  "negative",
		`default: {faults: [{kind: slow}]}`:                             "delay",
		`default: {faults: [{kind: 503, from: soon}]}`:                  "soon",
		`default: {latency: {fixed: 1s, p50: 1s, p99: 2s}}`:             "one of",
		`default: {latency: {p50: 2s, p99: 1s}}`:                        "p50 <= p99",
		`default: {latency: {min: 2s}}`:                                 "min <= max",
		`default: {tokens: {min: 3, max: 2}}`:                           "tokens",
		`default: {stream: {first_token: -1s}}`:                         "first_token",
		`default: {stream: {tokens_per_second: .nan}}`:                  "tokens_per_second",
		`default: {stream: {tokens_per_second: 0.0001}}`:                "tokens_per_second",
		`default: {faults: [{kind: stall, after_tokens: -1}]}`:          "after_tokens",
		`default: {faults: [{kind: stall, keep_alive: -1s}]}`:           "negative",
		`default: {limit: {rpm: -1}}`:                                   "limit",
		`default: {limit: {rpm: 1, retry_after: never}}`:                "never",
		`default: {limit: {in_flight: -1}}`:                             "limit",
		`default: {limit: {headers: azure}}`:                            "azure",
		`default: {limit: {steps: [{from: 2s}, {from: 1s}]}}`:           "earlier",
		`default: {limit: {steps: [{from: -1s}]}}`:                      "from 0",
		`default: {limit: {steps: [{rpm: -1}]}}`:                        "limit",
	}
	for text, want := range tests {
		if _, err := Load(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a word about %q", text, err, want)
		}
	}
	for _, text := range []string{`default: {latency: {max: 25h}}`, `default: {tokens: {max: 1000000001}}`, `default: {limit: {rpm: 60000000000}}`} {
		if _, err := Load(strings.NewReader(text)); err == nil {
			t.Errorf("%s: a value that is too large was taken", text)
		}
	}
	_, err := Load(strings.NewReader(`{default: {tokens: {min: 3}, faults: [{kind: a}]}, models: {m: {faults: [{kind: b}]}}}`))
	for _, want := range []string{"tokens", `"a"`, `"b"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not everything at once: %v", err)
		}
	}
	if _, err := LoadFile("testdata/none.yaml"); err == nil {
		t.Error("a missing file was loaded")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(sample)
	f.Add(`{"seed":7}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Load(strings.NewReader(text))
		if err != nil {
			return
		}
		for name := range s.Models { // whatever loads can be run
			b := s.of(name)
			r := s.chance(name, 1)
			if b.Latency.draw(r) < 0 || b.Tokens.draw(r) < 0 {
				t.Fatalf("a negative draw of %+v", b)
			}
			for _, fault := range b.Faults {
				fault.applies(time.Second, 1, r)
			}
		}
	})
}

func TestLatencyHasItsShape(t *testing.T) {
	draws := func(l Latency) []time.Duration {
		r := rand.New(rand.NewPCG(1, 2))
		all := make([]time.Duration, 20_000)
		for i := range all {
			all[i] = l.draw(r)
		}
		slices.Sort(all)
		return all
	}
	near := func(got, want time.Duration) bool {
		return got > want*9/10 && got < want*11/10
	}
	logn := draws(Latency{P50: 400 * time.Millisecond, P99: 2 * time.Second})
	if p50, p99 := logn[10_000], logn[19_800]; !near(p50, 400*time.Millisecond) || !near(p99, 2*time.Second) {
		t.Errorf("lognormal: p50 %v, p99 %v", p50, p99)
	}
	uni := draws(Latency{Min: time.Second, Max: 3 * time.Second})
	if uni[0] < time.Second || uni[19_999] > 3*time.Second || !near(uni[10_000], 2*time.Second) {
		t.Errorf("uniform: %v, %v, %v", uni[0], uni[10_000], uni[19_999])
	}
	for _, l := range []Latency{{Fixed: time.Second}, {P50: time.Second, P99: time.Second}, {Min: time.Second, Max: time.Second}} {
		if d := draws(l); d[0] != time.Second || d[19_999] != time.Second {
			t.Errorf("%+v drew %v to %v", l, d[0], d[19_999])
		}
	}
}
