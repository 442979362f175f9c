package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const canary = "canary-7f3a"

// printed is everything that code might write of a value.
func printed(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&b, verb+"\n", v)
	}
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		t.Errorf("encode %T: %v", v, err)
	}
	slog.New(slog.NewJSONHandler(&b, nil)).Info("loaded", "value", v)
	slog.New(slog.NewTextHandler(&b, nil)).Info("loaded", "value", v)
	return b.String()
}

func TestSecrets_NeverPrinted(t *testing.T) {
	t.Parallel()
	cfg, err := Parse("nightshift.yaml", []byte(`
redis: {url: "redis-sentinel://user:`+canary+`@a:1,b:2/0?master=m&sentinel_password=`+canary+`"}
providers:
  openai: {api_key_env: THE_KEY, headers: {X-Token: `+canary+`}}
models:
  openai/gpt-4o: {}
ladders:
  nightly: {rungs: [{model: openai/gpt-4o}]}
queues:
  overnight: {ladder: nightly}
notify: [{url: "https://user:`+canary+`@hooks.example.com/`+canary+`?token=`+canary+`", secret_env: THE_KEY}]
`), func(name string) (string, bool) {
		if name == "THE_KEY" {
			return canary, true
		}
		return "", false
	})
	if err != nil {
		t.Fatal(err)
	}
	target, err := cfg.Redis.Target()
	if err != nil || target.Password != canary || target.SentinelPassword != canary {
		t.Fatalf("the canary is not there to be found: %v", err)
	}
	provider := cfg.Providers["openai"]
	if provider.Headers["X-Token"] != canary {
		t.Fatal("the canary is not there to be found")
	}
	receiver := cfg.Notify[0]
	if target, err := receiver.Target(nil); err != nil || strings.Count(target, canary) != 3 {
		t.Fatal("the canary is not there to be found")
	}
	for _, v := range []any{
		receiver, &receiver, receiver.URL, cfg.Notify,
		cfg, *cfg, cfg.Redis, &cfg.Redis, target, &target, provider, &provider, provider.Headers,
		cfg.Providers, cfg.Models, cfg.Redacted(), cfg.Hash(),
		struct{ C *Config }{cfg},
		struct{ R Redis }{cfg.Redis},
		map[string]RedisTarget{"r": target},
	} {
		if out := printed(t, v); strings.Contains(out, canary) {
			t.Errorf("%T prints the secret:\n%s", v, out)
		}
	}
	if redacted := cfg.Redacted(); !strings.Contains(redacted, "X-Token: "+hidden) || !strings.Contains(redacted, "user:"+hidden+"@a:1,b:2") ||
		!strings.Contains(redacted, "https://hooks.example.com/"+hidden) {
		t.Errorf("the rest is hidden too:\n%s", redacted)
	}
}

// TestSecrets_NotInErrors puts a secret where people put one by mistake.
func TestSecrets_NotInErrors(t *testing.T) {
	t.Parallel()
	with := func(provider string) string {
		return strings.Replace(minimal, "{api_key_env: OPENAI_API_KEY}", provider, 1)
	}
	for name, text := range map[string]string{
		"key in place of its name":  with("{api_key_env: sk-" + canary + "}"),
		"key as an identifier":      with("{api_key_env: gsk_" + strings.ReplaceAll(canary, "-", "_") + "}"),
		"key in place of a file":    with("{api_key_file: " + canary + "}"),
		"unknown key":               with("{api_key: " + canary + "}"),
		"address with a password":   with(`{base_url: "https://u:` + canary + `@example.com/v1"}`),
		"address that is none":      with(`{base_url: "https://u:` + canary + `@exa mple.com:x/v1"}`),
		"address with a query":      with(`{base_url: "https://example.com/v1?key=` + canary + `"}`),
		"authorization":             with("{headers: {Authorization: Bearer " + canary + "}}"),
		"header with a line break":  with(`{headers: {X-Token: "` + canary + `\n"}}`),
		"headers as a text":         with("{headers: " + canary + "}"),
		"header as a list":          with("{headers: {X-Token: [" + canary + "]}}"),
		"provider as a text":        with(canary),
		"redis scheme":              minimal + `redis: {url: "http://:` + canary + `@a/0"}`,
		"redis port":                minimal + `redis: {url: "redis://:` + canary + `@a:b/0"}`,
		"redis password with slash": minimal + `redis: {url: "redis://:x/` + canary + `@a:1/0"}`,
		"redis escape":              minimal + `redis: {url: "redis://:%zz` + canary + `@a:1/0"}`,
		"redis parameter":           minimal + `redis: {url: "redis://a:1/0?password=` + canary + `"}`,
		"redis as a text":           minimal + `redis: "redis://:` + canary + `@a:1/0"`,
		"secret of messages":        minimal + "batches: {notify: {secret_env: whsec_" + canary + "}}",
		"receiver without a scheme": minimal + "notify: [{url: hooks.example.com/" + canary + "}]",
		"receiver that is no URL":   minimal + `notify: [{url: "https://u:` + canary + `@exa mple.com:x/"}]`,
		"receiver in url_env":       minimal + "notify: [{url_env: https://example.com/" + canary + "}]",
		"receiver as a text":        minimal + "notify: [https://example.com/" + canary + "]",
		"dashboard token":           minimal + "dashboard: {token_env: " + canary + "}",
		"broken below a secret":     with(`{headers: {X-Token: "` + canary + `}}`),
		"broken beside a secret":    with("{headers: {X-Token: " + canary + "} ]}"),
		"secret as an alias":        with("{headers: {X-Token: [*x, " + canary + "]}}"),
	} {
		_, err := Parse("nightshift.yaml", []byte(text), nil)
		if err == nil {
			t.Errorf("%s: it loads", name)
			continue
		}
		underscored := strings.ReplaceAll(canary, "-", "_")
		if out := printed(t, err) + err.Error(); strings.Contains(out, canary) || strings.Contains(out, underscored) {
			t.Errorf("%s: the secret is printed:\n%v", name, err)
		}
	}
	for _, opt := range []Option{
		WithRedis("nonsense://" + canary + "@a"),
		WithEnv(func(name string) (string, bool) { return "redis://:" + canary + "@:x", true }),
	} {
		if _, err := Parse("nightshift.yaml", []byte(minimal), env, opt); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("override: %v", err)
		}
	}
}

func TestAPIKey_FromTheEnvironment(t *testing.T) {
	t.Parallel()
	m := mustParse(t, minimal).Models["openai/gpt-4o"]
	key, err := m.APIKey(func(string) (string, bool) { return "test-key\n", true })
	if key != "test-key" || err != nil {
		t.Errorf("key %q, %v", key, err)
	}
	if _, err := m.APIKey(func(string) (string, bool) { return "", false }); err == nil {
		t.Error("a variable that vanished is no error")
	}
}

func TestAPIKey_NoneNamed(t *testing.T) {
	t.Parallel()
	m := mustParse(t, strings.Replace(minimal, "{api_key_env: OPENAI_API_KEY}", "{}", 1)).Models["openai/gpt-4o"]
	if key, err := m.APIKey(env); key != "" || err != nil {
		t.Errorf("key %q, %v", key, err)
	}
}

func TestAPIKey_FileIsReadAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "key"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	text := strings.Replace(minimal, "api_key_env: OPENAI_API_KEY", "api_key_file: key", 1)
	cfg, err := Parse(filepath.Join(dir, "nightshift.yaml"), []byte(text), nil)
	if err != nil {
		t.Fatalf("a path beside the configuration: %v", err)
	}
	m := cfg.Models["openai/gpt-4o"]
	for _, want := range []string{"first", "second"} {
		write(want + "\n")
		if got, err := m.APIKey(nil); got != want || err != nil {
			t.Errorf("key %q, %v; want %q", got, err, want)
		}
	}
	for _, bad := range []string{"", "\n", "two\nlines"} {
		write(bad)
		if _, err := m.APIKey(nil); err == nil {
			t.Errorf("a file with %q gives a key", bad)
		}
	}
}

func TestAPIKey_OfTheModelWins(t *testing.T) {
	t.Parallel()
	text := strings.Replace(minimal, "gpt-4o: {}", "gpt-4o: {api_key_env: OPENAI_API_KEY}", 1)
	text = strings.Replace(text, "{api_key_env: OPENAI_API_KEY}\nmodels", "{api_key_file: not-needed}\nmodels", 1)
	m := mustParse(t, text).Models["openai/gpt-4o"]
	if key, err := m.APIKey(env); key != "test-key" || err != nil {
		t.Errorf("key %q, %v", key, err)
	}
}
