package config

import (
	"errors"
	"strings"
	"testing"
)

// FuzzParse: whatever the file, the loader returns a configuration that can be
// used or an error with problems that can be printed, and it never panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add(Sample())
	for _, s := range []string{"a: &a [*a]", "<<: {a: 1}", "<<: 1", "? a\n: b", "a: |\n  b\n", "models: {a/b: !!x}", "\xef\xbb\xbfredis: {}", "&a *a : b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("nightshift.yaml", data, env)
		if err == nil {
			useConfig(t, cfg)
			return
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || len(e.Problems) == 0 {
			t.Fatalf("error %T: %v", err, err)
		}
		for _, p := range e.Problems {
			if p.Line < 1 || p.Column < 1 || p.What == "" {
				t.Errorf("problem without a place or a text: %#v", p)
			}
		}
	})
}

// useConfig does what every caller does with a configuration.
func useConfig(t *testing.T, cfg *Config) {
	t.Helper()
	cfg.DefaultQueue()
	cfg.Location()
	if _, err := cfg.Redis.Target(); err != nil {
		t.Errorf("redis: %v", err)
	}
	for _, q := range cfg.Queues {
		for _, r := range cfg.Ladders[q.Ladder].Rungs {
			if _, ok := cfg.Models[r.Model]; !ok && r.Text == "" {
				t.Errorf("queue %s has a rung without model or text", q.Name)
			}
		}
	}
	again, err := Parse("nightshift.yaml", []byte(cfg.Redacted()), env, WithoutKeys())
	if err != nil && !strings.Contains(cfg.Redacted(), hidden) {
		t.Errorf("%v\nin\n%s", err, cfg.Redacted())
	}
	if err == nil && again.Hash() != cfg.Hash() {
		t.Error("equal configurations, different hashes")
	}
}

// FuzzRedisTarget: no URL panics, and what is printed of a good one is a good one.
func FuzzRedisTarget(f *testing.F) {
	for _, s := range []string{"embedded", "redis://a:1/2", "redis-socket:///a?db=1", "redis-sentinel://a,b/1?master=m", "rediss://u:p@[::1]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		r := Redis{URL: url}
		if _, err := r.Target(); err != nil {
			return
		}
		if _, err := (Redis{URL: r.String()}).Target(); err != nil {
			t.Errorf("%q is printed as %q: %v", url, r.String(), err)
		}
	})
}
