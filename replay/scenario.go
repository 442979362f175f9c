package replay

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"nightshift/breaker"
	"nightshift/provider"
)

// Scenario is a description of traffic and of how providers answer, in YAML;
// docs/replay.md says what its keys mean.
type Scenario struct {
	About     string                    `yaml:"about"`
	Config    string                    `yaml:"config"` // relative to the scenario
	Workers   int                       `yaml:"workers"`
	Slots     map[string]int            `yaml:"concurrency"` // by queue, a worker
	Start     time.Time                 `yaml:"start"`
	Traffic   []Stream                  `yaml:"traffic"`
	Models    map[string]ModelBehaviour `yaml:"models"`
	Faults    []Fault                   `yaml:"faults"`
	Providers map[string]ModelBehaviour `yaml:"providers"` // of their models, where models says nothing
}

// Stream is a kind of batch that comes in.
type Stream struct {
	Queue     string        `yaml:"queue"`
	Producer  string        `yaml:"producer"`
	At        time.Duration `yaml:"at"`         // of the first, after the start
	For       time.Duration `yaml:"for"`        // how long they come; 0: one batch
	PerMinute float64       `yaml:"per_minute"` // batches; their gaps are even
	Poisson   bool          `yaml:"poisson"`    // their gaps are those of chance
	Lines     int           `yaml:"lines"`      // of a batch; default 1
	Deadline  time.Duration `yaml:"deadline"`   // after it came; default: the queue's
	Input     int           `yaml:"input"`      // tokens of a line, on average; default 500
	Output    int           `yaml:"output"`     // likewise; default: the model's
}

// ModelBehaviour is a [Behaviour] as a scenario writes it.
type ModelBehaviour struct {
	P50    time.Duration `yaml:"p50"`
	P95    time.Duration `yaml:"p95"`
	Output int           `yaml:"output"`
	Errors float64       `yaml:"errors"`
	RPM    int           `yaml:"rpm"`
}

// Fault is something that goes wrong for a while.
type Fault struct {
	Models     []string      `yaml:"models"`   // by key; with provider and region, all must fit
	Provider   string        `yaml:"provider"` // "": any
	Region     string        `yaml:"region"`   // "": any
	At         time.Duration `yaml:"at"`       // after the start
	For        time.Duration `yaml:"for"`
	Share      float64       `yaml:"share"`       // of calls that fail; default 1
	Kind       provider.Kind `yaml:"kind"`        // default unavailable; timeout: silent until we give up
	Latency    time.Duration `yaml:"latency"`     // of a failure; default 0.3 s
	RetryAfter time.Duration `yaml:"retry_after"` // that the failure names
	Billed     bool          `yaml:"billed"`      // the failure costs its input
	Every      time.Duration `yaml:"every"`       // flapping: on for `on` of each `every`
	On         time.Duration `yaml:"on"`
}

// maxLines bounds what a scenario may ask for.
const maxLines = 20_000_000

// ParseScenario reads a scenario; unknown keys and values that mean nothing are errors.
func ParseScenario(name string, text []byte) (*Scenario, error) {
	var s Scenario
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&s); err != nil {
		return nil, fmt.Errorf("read scenario %s: %w", name, err)
	}
	if s.Start.IsZero() {
		s.Start = time.Date(2026, 12, 1, 20, 0, 0, 0, time.UTC)
	}
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("read scenario %s: %s", name, fmt.Sprintf(format, args...)))
		}
	}
	check(len(s.Traffic) > 0, "traffic: at least one entry is needed")
	check(s.Workers >= 0 && s.Workers <= 1000, "workers: %d is not between 0 and 1000", s.Workers)
	total := 0.0
	for i := range s.Traffic {
		total += s.Traffic[i].check(func(ok bool, what string, args ...any) {
			check(ok, "traffic %d: "+what, append([]any{i + 1}, args...)...)
		})
	}
	check(total <= maxLines, "traffic: %.0f lines are more than %d", total, maxLines)
	for _, key := range slices.Sorted(maps.Keys(s.Models)) {
		b := s.Models[key]
		check(b.P50 > 0 && b.P95 >= b.P50, "models %s: p50 must be above 0 and p95 not below it", key)
		check(b.Errors >= 0 && b.Errors < 1 && b.RPM >= 0 && b.Output >= 0, "models %s: errors is a share below 1, rpm and output are not below 0", key)
	}
	for i := range s.Faults {
		s.Faults[i].check(func(ok bool, what string) { check(ok, "faults %d: %s", i+1, what) })
	}
	return &s, errors.Join(wrong...)
}

func (t *Stream) check(check func(bool, string, ...any)) (lines float64) {
	if t.Lines == 0 {
		t.Lines = 1
	}
	if t.Input == 0 {
		t.Input = 500
	}
	check(t.Lines > 0, "lines: %d is below 1", t.Lines)
	check(t.At >= 0 && t.For >= 0 && t.Deadline >= 0 && t.PerMinute >= 0, "at, for, deadline and per_minute are not below 0")
	check((t.For == 0) == (t.PerMinute == 0), "for and per_minute belong together")
	check(t.Input > 0 && t.Output >= 0, "input must be above 0 and output not below it")
	return float64(t.Lines) * max(t.PerMinute*t.For.Minutes(), 1)
}

func (f *Fault) check(check func(bool, string)) {
	if f.Share == 0 {
		f.Share = 1
	}
	if f.Kind == "" {
		f.Kind = provider.Unavailable
	}
	check(f.For > 0, "for must be above 0")
	check(f.At >= 0 && f.Latency >= 0 && f.RetryAfter >= 0, "times are not below 0")
	check(f.Share > 0 && f.Share <= 1, "share is above 0 and at most 1")
	check(kinds[f.Kind] && f.Kind != provider.OK && f.Kind != provider.Canceled, fmt.Sprintf("kind: %q is no failure", f.Kind))
	check(f.Every == 0 && f.On == 0 || f.On > 0 && f.Every > f.On, "every must be longer than on, or both be left out")
}

// Build makes traffic and model of a scenario, for the models of a configuration.
// The same seed gives the same.
func (s *Scenario) Build(keys []breaker.Key, seed uint64) (*Traffic, *Model, error) {
	m := &Model{described: map[string]*Behaviour{}}
	known := map[string]bool{}
	for _, k := range keys {
		known[k.Model] = true
		b, ok := s.Models[k.Model]
		if !ok {
			b, ok = s.Providers[k.Provider]
		}
		if ok {
			x := Behaviour(b)
			m.described[k.Model] = &x
		}
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(s.Models)) {
		if !known[name] {
			wrong = append(wrong, fmt.Errorf("scenario: models: the configuration has no %s", name))
		}
	}
	for i, f := range s.Faults {
		all := f.bind(keys, s.Start)
		if len(all) == 0 {
			wrong = append(wrong, fmt.Errorf("scenario: faults %d: no model of the configuration is meant", i+1))
		}
		m.faults = append(m.faults, all...)
	}
	t := &Traffic{Workers: max(s.Workers, 1), Slots: s.Slots}
	for i := range s.Traffic {
		t.Batches = append(t.Batches, s.Traffic[i].batches(i, s.Start, seed)...)
	}
	slices.SortStableFunc(t.Batches, func(a, b Batch) int { return a.At.Compare(b.At) })
	return t, m, errors.Join(wrong...)
}

func (f *Fault) bind(keys []breaker.Key, start time.Time) []boundFault {
	from := start.Add(f.At)
	return bind(keys, func(k breaker.Key) bool {
		return (len(f.Models) == 0 || slices.Contains(f.Models, k.Model)) && (f.Provider == "" || f.Provider == k.Provider) && (f.Region == "" || f.Region == k.Region)
	}, boundFault{
		from: from, to: from.Add(f.For), share: f.Share, kind: f.Kind, latency: f.Latency, retryAfter: f.RetryAfter,
		billed: f.Billed, every: f.Every, on: f.On,
	})
}

// batches are those of a stream.
func (t *Stream) batches(n int, start time.Time, seed uint64) (all []Batch) {
	at := start.Add(t.At)
	if t.PerMinute == 0 {
		return []Batch{t.batch(n, 0, at, seed)}
	}
	first, end, gap := at, at.Add(t.For), float64(time.Minute)/t.PerMinute
	passed := 0.0 // ns; it is not rounded, so that as many come as were asked for
	for i := 0; at.Before(end); i++ {
		all = append(all, t.batch(n, i, at, seed))
		step := gap
		if t.Poisson {
			d := newDraw(seed, uint64(n), uint64(i), 1)
			step = -math.Log(1-d.next()) * gap
		}
		passed += step
		at = first.Add(time.Duration(math.Round(passed)))
	}
	return all
}

func (t *Stream) batch(n, i int, at time.Time, seed uint64) Batch {
	b := Batch{ID: fmt.Sprintf("s%d-%d", n+1, i+1), Producer: t.Producer, Queue: t.Queue, At: at}
	if b.Producer == "" {
		b.Producer = fmt.Sprintf("producer-%d", n+1)
	}
	if t.Deadline > 0 {
		b.Deadline = at.Add(t.Deadline)
	}
	b.Lines = make([]Line, t.Lines)
	d := newDraw(seed, uint64(n), uint64(i), 2)
	for k := range b.Lines {
		b.Lines[k] = Line{Number: int64(k + 1), Input: spread(t.Input, &d), Output: spread(t.Output, &d)}
	}
	return b
}

// spread is between half of a figure and one and a half of it.
func spread(mean int, d *draw) int32 {
	if mean == 0 {
		return 0
	}
	return int32(max(math.Round(float64(mean)*(.5+d.next())), 1))
}
