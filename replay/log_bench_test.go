package replay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"nightshift/ladder"
	"nightshift/provider"
)

// logging is a world that keeps a record of every call of a simulation.
type logging struct {
	world
	m   *machine
	all []Record
}

// outcome implements world.
func (l *logging) outcome(model string, at time.Time, d draw, c callSize) outcome {
	o := l.world.outcome(model, at, d, c)
	f := l.m.running
	r := Record{
		V: Version, Type: TypeCall, Time: at, Worker: fmt.Sprintf("night-%d-4711-a1b2c3", f.worker+1),
		Model: model, Provider: l.m.tally.keys[model].Provider, Purpose: ladder.ForProbe, Kind: o.kind, Status: cmp.Or(statuses[o.kind], 200),
		LatencyMS: o.latency.Milliseconds(), FirstTokenMS: o.firstToken.Milliseconds(), Input: o.size.input, Output: o.size.output, Breaker: "half_open",
	}
	if o.hangs {
		r.LatencyMS, r.Status = 30_000, 0
	}
	if b := f.line; b != nil {
		r.Purpose, r.Breaker = ladder.ForLine, "closed"
		r.Queue, r.Producer, r.Batch, r.Line, r.Ladder = b.batch.Queue, b.batch.Producer, b.batch.ID, b.number, "nightly"
		r.Cost = provider.USD(2500*r.Input + 10_000*r.Output)
	} else {
		r.Probe, r.Scope = true, "model"
	}
	l.all = append(l.all, r)
	return o
}

// recordsOf is what a simulation's calls are as a log, in the order in which they end,
// and what they came to.
func recordsOf(tb testing.TB, r Run) ([]byte, *Figures) {
	tb.Helper()
	var l *logging
	build := r.Policy.build
	r.Policy.build = func(m *machine) doors {
		l = &logging{world: m.world, m: m}
		m.world = l
		return build(m)
	}
	figures, err := Simulate(r)
	if err != nil {
		tb.Fatal(err)
	}
	slices.SortStableFunc(l.all, func(a, b Record) int { return a.end().Compare(b.end()) })
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	seqs := map[string]int64{}
	for i := range l.all {
		seqs[l.all[i].Worker]++
		l.all[i].Seq = seqs[l.all[i].Worker]
		if err := enc.Encode(&l.all[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return out.Bytes(), figures
}

// built puts a scenario together, under the configuration of the benchmarks.
func built(tb testing.TB, scenario string) (Run, Setup) {
	tb.Helper()
	s, err := ParseScenario("built", []byte(scenario))
	if err != nil {
		tb.Fatal(err)
	}
	setup := setupOf(tb, benchConfig)
	traffic, model, err := s.Build(setup.Keys, 1)
	if err != nil {
		tb.Fatal(err)
	}
	ours, _ := PickPolicies(Ours)
	return Run{Setup: setup, Policy: ours[0], Traffic: traffic, World: model, Seed: 1}, setup
}

// someDays is a scenario of a hundred calls a minute, through two outages.
func someDays(tb testing.TB, span time.Duration) (Run, Setup) {
	tb.Helper()
	return built(tb, fmt.Sprintf(`
workers: 4
traffic:
  - {queue: q, for: %s, per_minute: 10, lines: 10}
models:
  a/one: {p50: 2s, p95: 8s, errors: 0.01}
  b/two: {p50: 2s, p95: 8s, errors: 0.01}
faults:
  - {models: [a/one], at: 3h, for: 1h}
  - {models: [a/one], at: 5h, for: 20m, kind: timeout}
`, span))
}

// BenchmarkReadLog reads a log of 170,000 records, and makes traffic and a model of it:
// what a replay of one does before it simulates.
func BenchmarkReadLog(b *testing.B) {
	run, setup := someDays(b, 28*time.Hour)
	plain, _ := recordsOf(b, run)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(plain)
	_ = z.Close()
	for name, text := range map[string][]byte{"jsonl": plain, "gz": packed.Bytes()} {
		b.Run(name, func(b *testing.B) {
			records := 0
			for b.Loop() {
				c := NewCollector()
				r := NewReader(c.Add)
				if err := r.Read("log", bytes.NewReader(text)); err != nil {
					b.Fatal(err)
				}
				if _, _, _, err := c.Build(setup.Keys, ArriveBatch); err != nil {
					b.Fatal(err)
				}
				records = r.Records()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
		})
	}
}
