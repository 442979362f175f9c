package app

import (
	"context"
	"runtime/debug"
	"strings"
	"testing"

	"nightshift/config"
	"nightshift/internal/redistest"
	"nightshift/internal/sim"
)

// found returns what a report says of one thing.
func found(t *testing.T, r Report, what, name string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.What == what && f.Name == name {
			return f
		}
	}
	t.Fatalf("the report has no %s %s: %+v", what, name, r.Findings)
	return Finding{}
}

func checkConfig(t *testing.T, redisURL, base string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(`
redis: {url: "`+redisURL+`"}
providers:
  sim: {base_url: "`+base+`"}
models:
  sim/well: {}
  sim/odd: {}
  sim/locked: {}
  sim/out: {}
  sim/asked: {probe: {body: {messages: [{role: user, content: up?}]}}}
  sim/healthy: {probe: {get: /health}}
  sim/lost: {probe: {get: /nowhere}}
ladders:
  bare: {rungs: [{model: sim/well}]}
  safe: {rungs: [{model: sim/well}, {text: "No answer.", at_deadline: true}]}
queues:
  overnight: {ladder: bare}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestCheckLooksAtRedis(t *testing.T) {
	for _, c := range []struct {
		name        string
		args        []string
		persistence Grade
		eviction    Grade
	}{
		{"as it should be", []string{"--appendonly", "yes"}, Good, Good},
		{"in memory", nil, Warning, Good},
		{"snapshots alone", []string{"--save", "3600 1"}, Warning, Good},
		{"a service that forbids CONFIG", []string{"--rename-command", "CONFIG", ""}, Warning, Good},
		{"evicting", []string{"--maxmemory-policy", "allkeys-lru"}, Warning, Bad},
	} {
		t.Run(c.name, func(t *testing.T) {
			redis := redistest.Start(t, c.args...)
			r, err := Check(t.Context(), checkConfig(t, redis.URL(), "http://127.0.0.1:1/v1"), CheckOptions{NoProbe: true})
			if err != nil {
				t.Fatal(err)
			}
			if f := found(t, r, "redis", "version"); f.Grade != Good {
				t.Errorf("version: %+v", f)
			}
			if f := found(t, r, "redis", "persistence"); f.Grade != c.persistence {
				t.Errorf("persistence: %+v, want %s", f, c.persistence)
			}
			if f := found(t, r, "redis", "eviction"); f.Grade != c.eviction {
				t.Errorf("eviction: %+v, want %s", f, c.eviction)
			}
			if want := c.eviction == Bad; r.Failed() != want {
				t.Errorf("failed: %v, want %v", r.Failed(), want)
			}
		})
	}
}

func TestCheckProbesEveryModelOnce(t *testing.T) {
	s := sim.New(sim.Script{Models: map[string]sim.Behaviour{
		"odd":    {Faults: []sim.Fault{{Kind: sim.BadRequest}}},
		"locked": {Faults: []sim.Fault{{Kind: sim.Unauthorized}}},
		"out":    {Faults: []sim.Fault{{Kind: sim.Unavailable}}},
	}}, sim.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := Check(t.Context(), checkConfig(t, redistest.Start(t).URL(), s.URL()), CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]struct {
		grade  Grade
		detail string
	}{
		"sim/well": {Good, "answers in"}, "sim/odd": {Warning, "refuses the probe"},
		"sim/locked": {Bad, "401"}, "sim/out": {Bad, "503"}, "sim/asked": {Good, "answers in"},
		"sim/healthy": {Good, "answers GET /health in"}, "sim/lost": {Warning, "404"},
	} {
		if f := found(t, r, "model", model); f.Grade != want.grade || !strings.Contains(f.Detail, want.detail) {
			t.Errorf("%s: %+v, want %+v", model, f, want)
		}
	}
	if n := s.Counts().Calls; n != 5 {
		t.Errorf("%d calls for five models that are called", n)
	}
	if f := found(t, r, "ladder", "bare"); f.Grade != Note {
		t.Errorf("a ladder without a last resort: %+v", f)
	}
	if f := found(t, r, "ladder", "safe"); f.Grade != Good {
		t.Errorf("a ladder with a last resort: %+v", f)
	}
}

func TestCheckSaysThatRedisIsAway(t *testing.T) {
	r, err := Check(t.Context(), checkConfig(t, "redis://user:secret@127.0.0.1:1/0", "http://127.0.0.1:1/v1"), CheckOptions{NoProbe: true})
	if err != nil {
		t.Fatal(err)
	}
	f := r.Findings[0]
	if f.What != "redis" || f.Grade != Bad || strings.Contains(f.Name+f.Detail, "secret") {
		t.Errorf("got %+v", f)
	}
}

func TestCheckOnlyWarnsWhereNoRedisIsNamed(t *testing.T) {
	cfg := checkConfig(t, "redis://127.0.0.1:1/0", "http://127.0.0.1:1/v1")
	cfg.Redis.Source = config.FromDefault
	r, err := Check(t.Context(), cfg, CheckOptions{NoProbe: true})
	if err != nil {
		t.Fatal(err)
	}
	f := found(t, r, "redis", "default")
	if f.Grade != Warning || r.Failed() || !strings.Contains(f.Detail, "none answers at redis://127.0.0.1:1/0: `enqueue run` embeds one") {
		t.Errorf("got %+v, failed: %v", f, r.Failed())
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, checkConfig(t, "redis://127.0.0.1:1/0", "http://127.0.0.1:1/v1"), CheckOptions{}); err == nil {
		t.Error("no error")
	}
}

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"6.2.0": true, "6.10.1": true, "7.0.15": true, "10.0": true, "6.0.16": false, "5.0.7": false, "": false, "seven": false,
	} {
		if got := atLeast(version, 6, 2); got != want {
			t.Errorf("atLeast(%q) = %v", version, got)
		}
	}
}

func TestVersionOf(t *testing.T) {
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":             built("v1.2.3"),
		"devel":              built("(devel)"),
		"0123456789ab":       built("(devel)", commit),
		"0123456789ab+dirty": built("", commit, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
	} {
		if got := versionOf(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Probes go out in the shape of each provider's API.
func TestCheckProbesAnthropicModels(t *testing.T) {
	s := sim.New(sim.Script{Models: map[string]sim.Behaviour{"locked": {Faults: []sim.Fault{{Kind: sim.Unauthorized}}}}}, sim.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cfg, err := config.Parse("test.yaml", []byte(`
redis: {url: embedded}
providers:
  claude: {api: anthropic, base_url: "`+s.URL()+`"}
models:
  claude/well: {}
  claude/locked: {}
  claude/healthy: {probe: {get: /health}}
ladders:
  l: {rungs: [{model: claude/well}]}
queues:
  q: {ladder: l}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Check(t.Context(), cfg, CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]Grade{"claude/well": Good, "claude/locked": Bad, "claude/healthy": Good} {
		if f := found(t, r, "model", model); f.Grade != want {
			t.Errorf("%s: %+v, want %s", model, f, want)
		}
	}
	if n := s.Counts().Calls; n != 2 {
		t.Errorf("%d calls for two models that are called", n)
	}
}
