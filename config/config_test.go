package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// env is an environment with the one key that the fixtures name.
func env(name string) (string, bool) {
	if name == "OPENAI_API_KEY" {
		return "test-key", true
	}
	return "", false
}

const minimal = `
providers:
  openai: {api_key_env: OPENAI_API_KEY}
models:
  openai/gpt-4o: {}
ladders:
  nightly: {rungs: [{model: openai/gpt-4o}]}
queues:
  overnight: {ladder: nightly}
`

func mustParse(t *testing.T, text string, opts ...Option) *Config {
	t.Helper()
	cfg, err := Parse("nightshift.yaml", []byte(text), env, opts...)
	if err != nil {
		t.Fatalf("parse:\n%v\nof:\n%s", err, text)
	}
	return cfg
}

func TestParse_AddressOfAnAPI(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`api: anthropic`: "https://api.anthropic.com",
		`api: anthropic, base_url: "https://gw.example/v1"`: "https://gw.example/v1",
	} {
		for _, name := range []string{"anthropic", "claude", "openai"} {
			text := "providers: {" + name + ": {" + fields + "}}\nmodels: {" + name + "/m: {}}\nladders: {l: {rungs: [{model: " + name + "/m}]}}\nqueues: {q: {ladder: l}}\n"
			if got := mustParse(t, text).Models[name+"/m"].BaseURL; got != want {
				t.Errorf("%s %s: %s, want %s", name, fields, got, want)
			}
		}
	}
}

func TestParse_FillsInEveryDefault(t *testing.T) {
	t.Parallel()
	breaker := Breaker{
		Window: 20, Failures: 11, Cooldown: 30 * time.Second, MaxCooldown: 5 * time.Minute,
		Probes: 1, ProbeSuccesses: 1, Probe: "synthetic",
	}
	want := &Config{
		Redis:    Redis{URL: "redis://127.0.0.1:6379/0", Source: FromDefault},
		Timezone: "Local",
		Providers: map[string]Provider{"openai": {
			Name: "openai", API: "openai", BaseURL: "https://api.openai.com/v1", APIKeyEnv: "OPENAI_API_KEY",
		}},
		Models: map[string]Model{"openai/gpt-4o": {
			Key: "openai/gpt-4o", Provider: "openai", Name: "gpt-4o", Tier: "standard",
			BaseURL: "https://api.openai.com/v1", APIKeyEnv: "OPENAI_API_KEY",
			Timeout: 10 * time.Minute, FirstToken: 20 * time.Second, Idle: 20 * time.Second, Breaker: breaker,
		}},
		Ladders: map[string]Ladder{"nightly": {
			Name: "nightly", Goal: "order", Patience: 5 * time.Minute, OnFilter: "fail", OnContext: "fail",
			Rungs:   []Rung{{Model: "openai/gpt-4o", Tries: 2}},
			Output:  Output{Repairs: 2},
			Quality: Quality{Invalid: 25, Action: "warn"},
		}},
		Queues:    []Queue{{Name: "overnight", Ladder: "nightly", Concurrency: 10, Retries: 5, Deadline: 24 * time.Hour}},
		Breaker:   breaker,
		Guard:     Guard{CallsPerHour: 5000, Over: "defer"},
		Batches:   Batches{Keep: 168 * time.Hour},
		Alerts:    Alerts{BreakerOpen: 15 * time.Minute, DeadlineSlack: 15 * time.Minute, DeadlineFor: 5 * time.Minute, GuardQuiet: 15 * time.Minute},
		Worker:    Worker{ShutdownTimeout: time.Minute},
		CallLog:   CallLog{Keep: 200_000},
		Dashboard: Dashboard{Addr: "127.0.0.1:8080", Queues: "read"},
		Metrics:   Metrics{Addr: "127.0.0.1:9464"},
	}
	if diff := cmp.Diff(want, mustParse(t, minimal)); diff != "" {
		t.Errorf("resolved configuration (-want +got):\n%s", diff)
	}
}

func TestParse_Inherits(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, `
providers:
  cloud: {base_url: https://cloud.example/v1, api_key_env: OPENAI_API_KEY, headers: {X-Team: night}}
models:
  cloud/a/b:  {tier: premium, breaker: {cooldown: 10s, failures: 3}}
  cloud/east: {tier: economy, name: a, region: eastus, base_url: https://east.example/v1, idle: 1m}
  cloud/last: {tier: fallback}
  cloud/short: {tier: premium, timeout: 5s}
ladders: {l: {rungs: [{model: cloud/a/b, tries: 1, price: {input: 1}}, {text: Sorry.}]}}
queues:
  second-in-the-alphabet: {ladder: l, retries: 0, deadline: 0s}
  first: {ladder: l}
breaker: {window: 40, stale: 2m}
`)
	a, east, last := cfg.Models["cloud/a/b"], cfg.Models["cloud/east"], cfg.Models["cloud/last"]
	checks := []struct {
		what      string
		got, want any
	}{
		{"name behind the first slash", a.Name, "a/b"},
		{"own name", east.Name, "a"},
		{"provider's address", a.BaseURL, "https://cloud.example/v1"},
		{"own address", east.BaseURL, "https://east.example/v1"},
		{"provider's key", a.APIKeyEnv, "OPENAI_API_KEY"},
		{"premium silence", a.FirstToken, 30 * time.Second},
		{"economy silence", east.FirstToken, 15 * time.Second},
		{"fallback silence", last.FirstToken, 10 * time.Second},
		{"own idle", east.Idle, time.Minute},
		{"own cooldown", a.Breaker.Cooldown, 10 * time.Second},
		{"block's window", a.Breaker.Window, 40},
		{"block's stale", a.Breaker.Stale, Auto(2 * time.Minute)},
		{"default of the block", last.Breaker.Failures, 11},
		{"order of the queues", cfg.QueueNames(), []string{"second-in-the-alphabet", "first"}},
		{"default queue", cfg.DefaultQueue().Name, "second-in-the-alphabet"},
		{"explicit zero", cfg.DefaultQueue().Retries, 0},
		{"silence within a short timeout", cfg.Models["cloud/short"].FirstToken, 5 * time.Second},
		{"no deadline", cfg.DefaultQueue().Deadline, time.Duration(0)},
		{"model keys", cfg.ModelKeys(), []string{"cloud/a/b", "cloud/east", "cloud/last", "cloud/short"}},
		{"tries of a text", cfg.Ladders["l"].Rungs[1].Tries, 0},
	}
	for _, c := range checks {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestParse_AnchorsAndMergeKeys(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, minimal+`
breaker: &b {window: 30, failures: 5}
dashboard: {addr: ""}
`)
	if cfg.Breaker.Window != 30 || cfg.Dashboard.Addr != "" {
		t.Errorf("breaker %+v, dashboard %+v", cfg.Breaker, cfg.Dashboard)
	}
	cfg = mustParse(t, `
providers:
  openai: {api_key_env: OPENAI_API_KEY}
models:
  openai/a: &a {tier: economy, context: 1000}
  openai/b: *a
  openai/c: {<<: *a, tier: premium}
ladders: {l: {rungs: [{model: openai/a}]}}
queues: {q: {ladder: l}}
`)
	b, c := cfg.Models["openai/b"], cfg.Models["openai/c"]
	if b.Tier != "economy" || b.Name != "b" || c.Tier != "premium" || c.Context != 1000 {
		t.Errorf("b %+v, c %+v", b, c)
	}
}

func TestParse_SetTakesPlainValues(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, strings.Replace(minimal, "{model: openai/gpt-4o}",
		"{model: openai/gpt-4o, set: {n: 1, temperature: 0.5, stop: [a, null], response_format: {type: json_object}}, drop: [user]}", 1))
	want := map[string]any{
		"n": int64(1), "temperature": 0.5, "stop": []any{"a", nil},
		"response_format": map[string]any{"type": "json_object"},
	}
	rung := cfg.Ladders["nightly"].Rungs[0]
	if diff := cmp.Diff(want, rung.Set); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"user"}, rung.Drop); diff != "" {
		t.Errorf("drop (-want +got):\n%s", diff)
	}
}

func badFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 90 {
		t.Fatalf("found %d files: %v", len(files), err)
	}
	return files
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestParse_BadFiles loads every file of testdata/bad. Each ends with the
// problems that are expected of it, all of them and no others.
func TestParse_BadFiles(t *testing.T) {
	t.Parallel()
	for _, file := range badFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			text, want, _ := strings.Cut(string(readFile(t, file)), "#want\n")
			_, err := Parse("nightshift.yaml", []byte(text), env)
			if err == nil {
				t.Fatal("it loads")
			}
			var got strings.Builder
			for line := range strings.Lines(err.Error() + "\n") {
				got.WriteString("# " + line)
			}
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("the error is %T", err)
			}
		})
	}
}

// TestParse_DesignExample: the design's own example is accepted as it stands.
func TestParse_DesignExample(t *testing.T) {
	t.Parallel()
	data := readFile(t, "testdata/design.yaml")
	_, err := Parse("testdata/nightshift.yaml", data, func(string) (string, bool) { return "embedded", true })
	if err != nil {
		t.Errorf("the design's own example is refused: %v", err)
	}
}

func TestLoad_MissingFile(t *testing.T) {
	t.Parallel()
	_, err := Load(filepath.Join(t.TempDir(), "nightshift.yaml"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error: %v", err)
	}
}

func TestLoad_RefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:         "read configuration: " + dir + " is a directory; name the file in it",
		"/dev/zero": "the file is larger than 1048576 bytes",
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestLoad_ReadsTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nightshift.yaml")
	if err := os.WriteFile(file, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(file, WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := cfg.Queue("overnight"); !ok {
		t.Error("the queue is missing")
	}
	if _, ok := cfg.Queue("other"); ok {
		t.Error("a queue that is not there was found")
	}
}

func TestLoad_KeylessCommands(t *testing.T) {
	t.Parallel()
	if _, err := Parse("n.yaml", []byte(minimal), nil); err == nil {
		t.Error("a missing key is accepted")
	}
	if _, err := Parse("n.yaml", []byte(minimal), nil, WithoutKeys()); err != nil {
		t.Errorf("a command that needs no key: %v", err)
	}
}

func TestRedisURL_Precedence(t *testing.T) {
	t.Parallel()
	const file, environment, flagURL = "redis://file:1/0", "redis://environment:2/0", "redis://flag:3/0"
	withEnv := WithEnv(func(name string) (string, bool) {
		if name == RedisEnv {
			return environment, true
		}
		return env(name)
	})
	text := minimal + "redis: {url: \"" + file + "\"}\n"
	for _, c := range []struct {
		name string
		text string
		opts []Option
		want Redis
	}{
		{"default", minimal, nil, Redis{"redis://127.0.0.1:6379/0", FromDefault}},
		{"file", text, nil, Redis{file, FromFile}},
		{"environment over file", text, []Option{withEnv}, Redis{environment, FromEnvironment}},
		{"flag over all", text, []Option{withEnv, WithRedis(flagURL)}, Redis{flagURL, FromFlag}},
		{"empty flag", text, []Option{WithRedis("")}, Redis{file, FromFile}},
	} {
		if got := mustParse(t, c.text, c.opts...).Redis; got.URL != c.want.URL || got.Source != c.want.Source {
			t.Errorf("%s: %s from %s", c.name, got.URL, got.Source)
		}
	}
	_, err := Parse("n.yaml", []byte(minimal), env, WithRedis("redis:/nowhere"))
	if want := `--redis: not a Redis URL; write it as in redis://127.0.0.1:6379/0, or "embedded"`; err == nil || err.Error() != want {
		t.Errorf("bad flag: %v", err)
	}
}
