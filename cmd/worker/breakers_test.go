package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/internal/redistest"
	"nightshift/limit"
)

// aBadNight is a breaker in each state that people must tell apart.
func aBadNight(now time.Time) []breaker.Status {
	model := func(key string) breaker.Key { return breaker.Key{Provider: strings.SplitN(key, "/", 2)[0], Model: key} }
	status := func(k breaker.Key, state breaker.State, until time.Duration) breaker.Status {
		s := breaker.Status{Key: k, Scope: k.Scope(), State: state, Cooldown: time.Minute, Window: 20, Wanted: state != breaker.Closed}
		if state != breaker.Closed {
			s.Reason, s.Until, s.Failures, s.Results = "unavailable: status 503: the provider failed", now.Add(until), 11, 12
		}
		return s
	}
	held := func(s breaker.Status, h breaker.Held) breaker.Status {
		h.By, h.At = "anna@desk", now.Add(-time.Hour)
		s.Held = h
		return s
	}
	parent := status(breaker.Key{Provider: "openai"}, breaker.Closed, 0)
	due := status(model("openai/due"), breaker.Open, -time.Second)
	waiting := status(model("openai/waiting"), breaker.Open, 22*time.Second)
	waiting.Reason = "unavailable: status 503: " + strings.Repeat("the server is overloaded or not ready yet ", 4)
	probing := status(model("openai/probing"), breaker.HalfOpen, 12*time.Second)
	probing.Probing = 1
	unwanted := status(model("openai/unwanted"), breaker.Open, -time.Hour)
	unwanted.Wanted = false
	byTask := status(model("openai/by-task"), breaker.Open, 4*time.Minute+12*time.Second)
	byTask.TaskProbes = true
	worse := status(model("openai/worse"), breaker.Closed, 0)
	worse.Judged, worse.Invalid = 50, 12
	good := held(status(model("openai/held-for-good"), breaker.Open, 0), breaker.Held{State: breaker.Open})
	good.Until = time.Time{}
	below := status(model("down/below"), breaker.Open, time.Second)
	return []breaker.Status{
		parent, due, waiting, probing, unwanted, byTask, worse, good,
		held(status(model("openai/held-closed"), breaker.Closed, 0), breaker.Held{State: breaker.Closed, Until: now.Add(30 * time.Minute)}),
		status(breaker.Key{Provider: "down"}, breaker.Open, 4*time.Minute), below,
	}
}

// aBusyNight has one model paced by all that there is, and another that is parked.
func aBusyNight() paces {
	model := func(name string) breaker.Key { return breaker.Key{Provider: "openai", Model: name} }
	return paces{
		model("openai/worse"): {
			Limits: limit.Limits{RPM: 600, TPM: 90_000}, Rate: 583_400, LearnedRate: 583_400, TPM: 90_000, Concurrency: 40, LearnedConcurrency: 40,
			InFlight: 12, Waiting: 3, Calls: 990, Limited: 10,
		},
		model("openai/due"):     {Parked: 20 * time.Second, Limited: 1},
		model("openai/waiting"): {Calls: 7},
	}
}

func numbers(breaker.Key) breaker.Settings { return breaker.Settings{}.WithDefaults() }

// TestBreakersExplainThemselves: every state has its line, and all of them fit
// a terminal of 100 columns.
func TestBreakersExplainThemselves(t *testing.T) {
	var out bytes.Buffer
	p := &program{cli.New("worker", nil, &out, io.Discard)}
	all := aBadNight(time.Now())
	if err := p.printBreakers(&app.Conn{Numbers: numbers}, aBusyNight(), all, all, false); err != nil {
		t.Fatal(err)
	}
	const at = `(\S+ )?\d\d:\d\d:\d\d( \S+)?`
	for _, want := range []string{
		`openai +parent +closed +0 of 0 +11 of 20 +1m +-\n`,
		`  openai/due +model +open +11 of 12 +11 of 20 +1m +` + at + ` \(now\)\n      reason: unavailable: status 503: the provider failed\n      probe: due now\n      pace: parked until ` + at + ` \(in (20|19)s\); 0 in flight, 0 waiting, 1 of 1 call refused\n`,
		`  openai/waiting .*\n      reason: unavailable: status 503: the server .*\n              .*\n(              .*\n)?      probe: next at ` + at + ` \(in 2\ds\)\n`,
		`  openai/probing +model +half-open .*\n.*\n      probe: 1 in flight, at most until ` + at + ` \(in 1\ds\)\n`,
		`  openai/unwanted .*\n.*\n      probe: none until a line asks for it\n`,
		`  openai/by-task .*\n.*\n      probe: a waiting line at ` + at + ` \(in 4m1\ds\)\n`,
		`  openai/worse .* -\n      outputs: 12 of the last 50 invalid \(24%\)\n      pace: 583 calls a minute, learned; 40 at a time, learned; 90000 tokens a minute, as\n +configured; 12 in flight, 3 waiting, 10 of 1000 calls refused\n`,
		`  openai/held-for-good .* for good\n      held: open by anna@desk since ` + at + `, until it is closed or reset\n      probe: none while it is held\n`,
		`  openai/held-closed +model +closed .* -\n      held: closed by anna@desk since ` + at + `, until ` + at + ` \(in (30m|29m59s)\)\n`,
		`down +parent +open .*\n.*\n    probe: next at `,
		`  down/below .*\n.*\n      probe: none before down is closed\n$`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(out.String()) {
			t.Errorf("it lacks %s", want)
		}
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	if got, want := summary(all), "not closed: 8 of 11 breakers; `worker breakers show BREAKER` tells how that came; 2 held by an operator"; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

// TestBreakersAsJSON: the fields that the contract names are there whatever the
// state, with null for a time that is none.
func TestBreakersAsJSON(t *testing.T) {
	var out bytes.Buffer
	p := &program{cli.New("worker", nil, &out, io.Discard)}
	all := aBadNight(time.Now())
	if err := p.printBreakers(&app.Conn{Numbers: numbers}, aBusyNight(), all, all, true); err != nil {
		t.Fatal(err)
	}
	var records []map[string]any
	if err := json.Unmarshal(out.Bytes(), &records); err != nil {
		t.Fatal(err)
	}
	byModel := map[any]map[string]any{}
	for _, r := range records {
		byModel[r["model"]] = r
		for _, field := range []string{
			"scope", "provider", "model", "region", "state", "reason", "until", "cooldown_ms", "failures", "results", "window",
			"held", "probing", "wanted", "judged", "invalid", "transitions", "pace",
		} {
			if _, ok := r[field]; !ok {
				t.Errorf("%v lacks %s", r["model"], field)
			}
		}
		if !slices.Contains([]any{"closed", "open", "half_open"}, r["state"]) {
			t.Errorf("%v is %v", r["model"], r["state"])
		}
	}
	good := byModel["openai/held-for-good"]
	if h, ok := good["held"].(map[string]any); good["until"] != nil || !ok || h["by"] != "anna@desk" || h["until"] != nil {
		t.Errorf("held for good: %v", good)
	}
	if r := byModel["openai/worse"]; r["judged"] != 50.0 || r["invalid"] != 12.0 || r["until"] != nil || r["held"] != nil {
		t.Errorf("closed: %v", r)
	}
	if p, ok := byModel["openai/worse"]["pace"].(map[string]any); !ok || p["rpm"] != 583.4 || p["learned_concurrency"] != 40.0 || p["parked_until"] != nil || p["limited"] != 10.0 {
		t.Errorf("pace: %v", p)
	}
	if p, ok := byModel["openai/due"]["pace"].(map[string]any); !ok || p["rpm"] != nil || p["parked_until"] == nil {
		t.Errorf("parked: %v", p)
	}
	if r := byModel["openai/probing"]; r["state"] != "half_open" || r["probing"] != 1.0 || r["cooldown_ms"] != 60000.0 {
		t.Errorf("half-open: %v", r)
	}
}

// TestHoldsOutliveARestartOfRedis: with AOF, as the README asks for.
func TestHoldsOutliveARestartOfRedis(t *testing.T) {
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	file := filepath.Join(t.TempDir(), "nightshift.yaml")
	write(t, file, `
providers:
  cloud: {base_url: "http://127.0.0.1:1/v1"}
models:
  cloud/large: {}
ladders:
  nightly: {rungs: [{model: cloud/large}]}
queues:
  overnight: {ladder: nightly}
`)
	worker := func(args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := run(append([]string{"--config", file, "--redis", redis.URL()}, args...), os.Stdin, &out, &errs); code != 0 {
			t.Fatalf("worker %v: exit code %d\n%s%s", args, code, out.String(), errs.String())
		}
		return out.String()
	}
	t.Setenv("NIGHTSHIFT_PRODUCER", "anna")
	worker("breakers", "open", "cloud")
	worker("breakers", "open", "cloud/large", "--for", "2h")
	redis.Kill()
	redis.Restart(t)
	after := worker("breakers")
	for _, want := range []string{
		`(?m)^cloud +parent +open .* for good$\n    held: open by anna@\S+ since .*, until it is closed or reset$`,
		`(?m)^  cloud/large +model +open .* \((in 2h00m|in 1h59m)\)$\n      held: open by anna@\S+ since `,
	} {
		if !regexp.MustCompile(want).MatchString(after) {
			t.Errorf("after the restart it lacks %s:\n%s", want, after)
		}
	}
}
