package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/sim"
)

const (
	hookSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	botSecret  = "SEC of a bot"
)

// chats is a real server with a receiver of every format, each of which checks
// the signature as its service does, and keeps the titles that it was told.
type chats struct {
	*httptest.Server
	t   testing.TB
	mu  sync.Mutex
	got map[string][]string // by path
	all strings.Builder     // whatever came
}

func newChats(t testing.TB) *chats {
	c := &chats{t: t, got: map[string][]string{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *chats) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	title, err2 := told(r, body)
	if err := errors.Join(err, err2); err != nil {
		c.t.Errorf("%s: %v", r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&c.all, "%s %v %s\n", r.URL, r.Header, body)
	c.got[r.URL.Path] = append(c.got[r.URL.Path], title)
	_, _ = io.WriteString(w, map[string]string{"/feishu": `{"code":0}`, "/dingtalk": `{"errcode":0,"errmsg":"ok"}`}[r.URL.Path])
}

func (c *chats) told(path string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got[path])
}

// told checks a message and returns its first line, or the type of one for programs.
func told(r *http.Request, body []byte) (string, error) {
	var m struct {
		Type, Timestamp, Sign string
		Text                  json.RawMessage
		Content               struct{ Text string }
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return "", err
	}
	first := func(s string) string { return strings.SplitN(s, "\n", 2)[0] }
	switch r.URL.Path {
	case "/json":
		hook, err := standardwebhooks.NewWebhook(hookSecret)
		return m.Type, errors.Join(err, hook.Verify(body, r.Header))
	case "/slack":
		var text string
		err := json.Unmarshal(m.Text, &text)
		return text, err
	case "/feishu":
		return first(m.Content.Text), same(m.Sign, m.Timestamp+"\n"+botSecret, "")
	case "/dingtalk":
		var text struct{ Content string }
		at := r.URL.Query().Get("timestamp")
		_, err := strconv.ParseInt(at, 10, 64)
		err = errors.Join(err, json.Unmarshal(m.Text, &text))
		return first(text.Content), errors.Join(err, same(r.URL.Query().Get("sign"), botSecret, at+"\n"+botSecret))
	}
	return "", errors.New("nobody is there")
}

func same(sign, key, text string) error {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(mac, text)
	if want := base64.StdEncoding.EncodeToString(mac.Sum(nil)); sign != want {
		return fmt.Errorf("signed %q, want %q", sign, want)
	}
	return nil
}

// alertConfig adds receivers to a fleet's configuration. The URL of one chat is
// in the environment.
const alertConfig = `
notify:
  - {url: "%[1]s/json", secret_env: TEST_HOOK_SECRET, allow_private: true}
  - {url_env: TEST_SLACK_URL, format: slack, events: [batch_done], allow_private: true}
  - {url: "%[1]s/feishu", format: feishu, events: [breaker_open_long, batch_done], secret_env: TEST_BOT_SECRET, allow_private: true}
  - {url: "%[1]s/dingtalk", format: dingtalk, events: [guard_tripped], secret_env: TEST_BOT_SECRET, allow_private: true}
alerts: {breaker_open: 1s, deadline_for: 1s}
`

// configure adds the receivers to the file, and returns the environment that it names.
func (c *chats) configure(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(f, alertConfig, c.URL)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"TEST_HOOK_SECRET": hookSecret, "TEST_BOT_SECRET": botSecret, "TEST_SLACK_URL": c.URL + "/slack"}
}

// setenv gives the variables to this process and those that it starts.
func setenv(t *testing.T, env map[string]string) {
	for name, value := range env {
		t.Setenv(name, value)
	}
}

// keeperOf returns the process that holds the keeper's lease.
func (f *fleet) keeperOf(all ...*exec.Cmd) *exec.Cmd {
	f.t.Helper()
	var found *exec.Cmd
	f.until(20*time.Second, "there is a keeper", func() bool {
		lease, err := f.conn.Fleet.Keeper(context.Background())
		for _, cmd := range all {
			if err == nil && strings.Contains(lease.ID, "-"+strconv.Itoa(cmd.Process.Pid)+"-") {
				found = cmd
			}
		}
		return found != nil
	})
	return found
}

// A night with everything that people are told of: a model that is down, a guard
// that trips, a deadline that comes near, batches that end. The keeper is killed in
// the middle. Each is told of once, to those who want it, signed as each asks.
func TestReceiversAreToldOnce(t *testing.T) {
	t.Parallel()
	l := newLimited(t, limitedOptions{model: "breaker: {failures: 6, cooldown: 2s}", guard: "calls_per_hour: 3", concurrency: 4})
	chats := newChats(t)
	for name, value := range chats.configure(t, l.file) {
		l.env = append(l.env, name+"="+value)
	}
	if err := l.sim.AddFaults("a", sim.Fault{Kind: sim.Unavailable}); err != nil {
		t.Fatal(err)
	}
	first, second := l.start(), l.start()
	l.submit("tripped", 6, by("greedy"))
	l.submit("late", 6, by("other"), func(d *batch.Description) {
		d.CreatedAt, d.Deadline = time.Now().Add(-time.Hour), time.Now().Add(40*time.Second) // little of its time is left
	})
	l.until(60*time.Second, "two guards tripped", func() bool { return l.guards()["greedy"].Open && l.guards()["other"].Open })
	l.submit("waits", 2, by("third")) // for the breaker that these calls opened
	l.until(60*time.Second, "somebody is told of the breaker", func() bool { return slices.Contains(chats.told("/json"), "breaker_open_long") })
	kill(l.keeperOf(first, second))
	third := l.start()
	l.done("late", 90*time.Second) // its lines expire
	l.until(60*time.Second, "its risk is over", func() bool { return slices.Contains(chats.told("/json"), "deadline_at_risk.resolved") })
	kill(l.keeperOf(first, second, third))
	l.start()
	l.submit("last", 1, by("cancels"))
	if err := l.conn.Batches.Cancel(context.Background(), "last"); err != nil {
		t.Fatal(err)
	}
	for path, n := range map[string]int{"/json": 7, "/slack": 2, "/feishu": 3} {
		l.until(60*time.Second, path+" is told of the last end", func() bool { return len(chats.told(path)) >= n })
	}
	expect := map[string][]string{
		"/json":     {"batch_done", "batch_done", "breaker_open_long", "deadline_at_risk", "deadline_at_risk.resolved", "guard_tripped", "guard_tripped"},
		"/slack":    {"Nightshift: batch last is done", "Nightshift: batch late is done"},
		"/feishu":   {"Nightshift: batch last is done", "Nightshift: batch late is done", "Nightshift: the breaker of sim/a does not close"},
		"/dingtalk": {"Nightshift: the hourly guard of greedy tripped", "Nightshift: the hourly guard of other tripped"},
	}
	for path, want := range expect {
		got := chats.told(path)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s was told\n%s\nwant\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if strings.Contains(chats.all.String(), "line 1") {
		t.Error("a prompt was told")
	}
}

func TestReceivers_Refused(t *testing.T) {
	t.Setenv("TEST_URL", "http://127.0.0.1/hunter2")
	for want, all := range map[string][]config.Receiver{
		"notify[0]: 127.0.0.1 is not an address of the Internet; allow_private: true allows it": {{URLEnv: "TEST_URL", Format: "slack"}},
		"notify[0]: nothing is sent to the address 169.254.169.254":                             {{URL: "http://169.254.169.254/hunter2", Format: "json", AllowPrivate: true}},
		"notify[0]: read the URL of a receiver: its environment variable is not set":            {{URLEnv: "TEST_NONE", Format: "json"}},
		"notify[1]: it is notify[0] once more; give one of them the events of both": {
			{URL: "http://127.0.0.1/hunter2", Format: "json", AllowPrivate: true}, {URLEnv: "TEST_URL", Format: "json", AllowPrivate: true},
		},
	} {
		if _, err := receivers(&config.Config{Notify: all}, ""); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestCheckReceivers(t *testing.T) {
	t.Setenv("TEST_URL", "https://hooks.example.com/hunter2")
	got := checkReceivers(&config.Config{Notify: []config.Receiver{
		{URLEnv: "TEST_URL", Format: "slack", Events: []string{"guard_tripped", "batch_done"}},
		{URLEnv: "TEST_URL", Format: "feishu"},
		{URL: "http://127.0.0.1/hunter2", Format: "json"},
	}})
	want := []Finding{
		{"notify", "slack hooks.example.com", Good, "is told of guard_tripped, batch_done"},
		{"notify", "feishu hooks.example.com", Note, "is told of breaker_open_long, guard_tripped, deadline_at_risk, batch_done; not signed, without secret_env"},
		{"notify", "notify[2]", Bad, "127.0.0.1 is not an address of the Internet; allow_private: true allows it"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// A rehearsal is no news.
func TestReceivers_NobodyInARehearsal(t *testing.T) {
	l := newLimited(t, limitedOptions{concurrency: 1})
	setenv(t, newChats(t).configure(t, l.file))
	cfg, err := config.Load(l.file)
	if err != nil {
		t.Fatal(err)
	}
	for rehearsal, want := range map[bool]bool{true: false, false: true} {
		a, err := New(t.Context(), cfg, Options{Worker: true, Rehearsal: rehearsal, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.alerts != nil; got != want {
			t.Errorf("rehearsal %v: somebody is told: %v", rehearsal, got)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
