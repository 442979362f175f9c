package app

import (
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"nightshift/config"
	"nightshift/provider"
	"nightshift/replay"
)

// reality is what a fleet's calls came to.
type reality struct{ calls, wasted, probes int }

// span is what a figure comes to under several seeds: one outage is one draw of
// chance, for real as well.
type span struct{ least, most int }

func (s *span) add(n int) { s.least, s.most = min(s.least, n), max(s.most, n) }

// has says whether a figure lies in the span or within 10% of it, or so many where
// 10% is less.
func (s *span) has(n int, least float64) bool {
	slack := func(of int) float64 { return max(float64(of)/10, least) }
	return float64(n) >= float64(s.least)-slack(s.least) && float64(n) <= float64(s.most)+slack(s.most)
}

// TestReplayAgreesWithReality: two worker processes with a real Redis before a real
// provider, through an outage. The same scenario in virtual time, and the replay of
// the log of it, make as many calls, wasted calls and probes.
func TestReplayAgreesWithReality(t *testing.T) {
	t.Parallel()
	const lines = 600
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: 4, retries: 5, cooldown: "3s", maxCooldown: "3s"})
	f.up.hold(100 * time.Millisecond)
	one, two := f.start(), f.start()
	f.submit("b", lines)
	f.until(time.Minute, "a quarter is done", func() bool { return f.status("b").Succeeded >= lines/4 })
	down := time.Now()
	f.up.set(true)
	f.until(2*time.Minute, "ten probes are sent", func() bool { _, probes := f.up.counts(); return probes >= 10 })
	up := time.Now()
	f.up.set(false)
	f.done("b", 2*time.Minute)
	_, _ = one.Process.Signal(syscall.SIGTERM), two.Process.Signal(syscall.SIGTERM)
	_, _ = one.Wait(), two.Wait()

	var real reality
	var began time.Time // the first call
	var answers, failures []time.Duration
	log := replay.NewCollector()
	if err := f.conn.Calls(t.Context(), replay.Exporting{Each: func(r replay.Record) error {
		if began.IsZero() || r.Time.Before(began) {
			began = r.Time
		}
		took := time.Duration(r.LatencyMS) * time.Millisecond
		switch {
		case r.Type != replay.TypeCall:
		case r.Kind == provider.OK:
			answers = append(answers, took)
		default:
			real.wasted++
			failures = append(failures, took)
		}
		return log.Add(&r)
	}}); err != nil {
		t.Fatal(err)
	}
	real.calls, real.probes = f.up.counts()

	cfg, err := config.Load(f.file)
	if err != nil {
		t.Fatal(err)
	}
	setup := ReplaySetup(cfg, "real")
	slices.Sort(answers)
	slices.Sort(failures)
	s := replay.Scenario{
		Workers: 2, Start: began, Traffic: []replay.Stream{{Queue: "q", Lines: lines}},
		Models: map[string]replay.ModelBehaviour{"a/one": {P50: answers[len(answers)/2], P95: answers[len(answers)*95/100]}},
		Faults: []replay.Fault{{Models: []string{"a/one"}, Share: 1, Kind: "unavailable", At: down.Sub(began), For: up.Sub(down), Latency: failures[len(failures)/2]}},
	}
	traffic, model, err := s.Build(setup.Keys, 1)
	if err != nil {
		t.Fatal(err)
	}
	agrees(t, "scenario", setup, traffic, model, real, 0)
	traffic, model, _, err = log.Build(setup.Keys, replay.ArriveBatch)
	if err != nil {
		t.Fatal(err)
	}
	agrees(t, "log", setup, traffic, model, real, 2) // when the outage ended is a guess, from probes 3 s apart
}

func agrees(t *testing.T, what string, setup replay.Setup, traffic *replay.Traffic, model *replay.Model, real reality, least float64) {
	t.Helper()
	ours, _ := replay.PickPolicies(replay.Ours)
	calls, wasted, probes := span{least: math.MaxInt}, span{least: math.MaxInt}, span{least: math.MaxInt}
	for seed := range uint64(10) {
		f, err := replay.Simulate(replay.Run{Setup: setup, Policy: ours[0], Traffic: traffic, World: model, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		calls.add(f.Calls)
		wasted.add(f.Wasted)
		probes.add(f.Probes)
	}
	t.Logf("%s: calls %v, wasted %v, probes %v; for real %+v", what, calls, wasted, probes, real)
	if !calls.has(real.calls, 0) || !wasted.has(real.wasted, 2) || !probes.has(real.probes, least) {
		t.Errorf("%s: calls %v, wasted %v, probes %v; for real %+v; outages %v", what, calls, wasted, probes, real, model.Outages())
	}
}
