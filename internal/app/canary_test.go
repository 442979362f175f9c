package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/redistest"
)

const (
	canaryKey    = "sk-canary/4711KEY"
	canaryPrompt = "CANARY: the patient's name is Mayerhofer"
)

// parrot is a provider that repeats the key and the prompt in all that it says. Calls
// of a model take turns at its ways to fail; the model `good` answers.
type parrot struct {
	*httptest.Server
	mu    sync.Mutex
	calls int
	said  map[string]int // by status and way
}

func newParrot(t *testing.T) *parrot {
	p := &parrot{said: map[string]int{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct{ Model string }
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.Header().Set("X-Request-Id", key)
	body, err := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Method == http.MethodGet:
		p.said["health"]++
		http.Error(w, key, []int{http.StatusServiceUnavailable, http.StatusOK}[p.said["health"]%2])
		return
	case errors.Join(err, json.Unmarshal(body, &q)) != nil:
		http.Error(w, key, http.StatusBadRequest)
		return
	}
	way := []string{"unavailable", "limited", "half", "page"}[p.calls%4]
	if bytes.Contains(body, []byte("refuse")) {
		way = "refused"
	} else if q.Model == "good" {
		way = "good"
	} else {
		p.calls++
	}
	p.said[way]++
	say := func(status int, kind, format string, v ...any) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, format, v...)
	}
	const failure = `{"error":{"message":%[1]q,"type":%[1]q,"code":%[1]q,"param":%[1]q}}`
	both := key + " " + canaryPrompt
	switch way {
	case "unavailable":
		say(503, "application/json", failure, both)
	case "limited":
		w.Header().Set("Retry-After", "1")
		say(429, "application/json", failure, both)
	case "half":
		say(200, "application/json", `{"choices":[{"message":{"content":%q`, both)
	case "page":
		say(502, "text/html", "<p>%s", both)
	case "refused":
		say(400, "application/json", failure, both)
	default:
		say(200, "application/json", `{"id":%[1]q,"object":"chat.completion","model":%[1]q,"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%[1]q}}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, both)
	}
}

const canaryConfig = `
redis: {url: "%s"}
providers:
  bad: {base_url: "%[2]s/v1", api_key_env: TEST_CANARY_KEY}
  fine: {base_url: "%[2]s/v1", api_key_env: TEST_CANARY_KEY}
models:
  bad/model: {price: {input: 1, output: 2}, probe: {get: /v1/health}}
  fine/good: {price: {input: 1, output: 2}}
ladders:
  night: {rungs: [{model: bad/model, tries: 1}, {model: fine/good}]}
  alone: {rungs: [{model: bad/model, tries: 1}]}
queues:
  q: {ladder: night, concurrency: 3, retries: 1}
  alone: {ladder: alone, concurrency: 2, retries: 0}
breaker: {failures: 3, cooldown: 1s, max_cooldown: 1s}
guard: {calls_per_hour: 60}
batches: {notify: {allow_private: true}}
metrics: {addr: "127.0.0.1:0"}
dashboard: {addr: "127.0.0.1:0"}
worker: {shutdown_timeout: 5s}
`

// canaryNight is everything of a night that somebody sees.
type canaryNight struct {
	*fleet
	parrot *parrot
	app    *App
	logs   *lockedBuffer
	chats  *chats
	spans  *spans
}

// lockedBuffer takes the lines of several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

func newCanaryNight(t *testing.T) *canaryNight {
	t.Setenv("TEST_CANARY_KEY", canaryKey)
	n := &canaryNight{
		fleet: &fleet{t: t, redis: redistest.Start(t)},
		logs:  &lockedBuffer{}, parrot: newParrot(t), chats: newChats(t), spans: newSpans(t),
	}
	n.configure(canaryConfig, n.redis.URL(), n.parrot.URL)
	setenv(t, n.chats.configure(t, n.file))
	cfg, err := config.Load(n.file)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(n.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if n.app, err = New(t.Context(), cfg, Options{Worker: true, Metrics: true, Dashboard: true, Logger: log}); err != nil {
		t.Fatal(err)
	}
	n.conn = n.app.Conn()
	if err := n.app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// submit submits lines that hold the prompt, and one in five that is refused for it.
func (n *canaryNight) submit(id, queue string, lines int) {
	n.t.Helper()
	var content strings.Builder
	for i := range lines {
		word := ""
		if i%5 == 4 {
			word = "refuse "
		}
		fmt.Fprintf(&content, `{"id":"c%d","prompt":%q}`+"\n", i+1, fmt.Sprintf("%s%s, %d", word, canaryPrompt, i))
	}
	p := n.packed(id, strings.NewReader(content.String()))
	d := batch.Description{ID: id, Producer: "p", Queue: queue, CreatedAt: time.Now(), Total: p.Summary.Lines, Digest: p.Summary.Digest}
	if err := n.conn.Submit(n.t.Context(), d, p, batch.Submission{}, slog.New(slog.DiscardHandler)); err != nil {
		n.t.Fatal(err)
	}
}

// hidden fails where a text holds the key, or the prompt in any part.
func (n *canaryNight) hidden(where, text string) {
	n.t.Helper()
	n.keyless(where, text)
	for _, part := range []string{"canary", "patient", "mayerhofer"} {
		if at := strings.Index(strings.ToLower(text), part); at >= 0 {
			n.t.Errorf("%s holds the prompt: ...%s...", where, text[max(0, at-200):min(len(text), at+100)])
			return
		}
	}
}

func (n *canaryNight) keyless(where, text string) {
	n.t.Helper()
	for _, part := range []string{canaryKey, strings.ReplaceAll(canaryKey, "/", `\/`), "4711KEY"} {
		if at := strings.Index(text, part); at >= 0 {
			n.t.Errorf("%s holds the key: ...%s...", where, text[max(0, at-200):min(len(text), at+100)])
			return
		}
	}
}

var links = regexp.MustCompile(`(?:href|src|action|data-live)="([^"#]+)`)

// crawl reads every page that pages lead to, and asqynmon's own data, and returns how
// many it read.
func (n *canaryNight) crawl() int {
	n.t.Helper()
	root := strings.TrimSuffix(n.app.DashboardURL(), "/")
	todo := []string{"/", "/nowhere/CANARY?q=patient"}
	for _, q := range []string{"q", "alone"} {
		for _, s := range []string{"active", "pending", "scheduled", "retry", "archived", "completed"} {
			todo = append(todo, "/queues/api/queues/"+q+"/"+s+"_tasks")
		}
	}
	seen := map[string]bool{}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if seen[path] || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/live") {
			continue
		}
		seen[path] = true
		_, text := fetch(root + path)
		n.hidden("the page "+path, text)
		if strings.HasPrefix(path, "/queues") || strings.HasPrefix(path, "/static") {
			continue
		}
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			todo = append(todo, strings.ReplaceAll(m[1], "&amp;", "&"))
		}
	}
	return len(seen)
}

// told is what the commands say of a batch.
func (n *canaryNight) told(id string, lines int64) {
	n.t.Helper()
	status, err := n.conn.Status(n.t.Context(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	text, err := json.Marshal(status)
	if err != nil {
		n.t.Fatal(err)
	}
	n.hidden("the status of "+id, string(text))
	for line := int64(1); line <= lines; line++ {
		story, err := n.conn.Batches.Why(n.t.Context(), id, line)
		if err != nil {
			n.t.Fatal(err)
		}
		text, err := json.Marshal(story)
		if err != nil {
			n.t.Fatal(err)
		}
		n.hidden(fmt.Sprintf("the story of %s:%d", id, line), string(text))
	}
	_, err = n.conn.Batches.Results(n.t.Context(), id, 0, func(rec batch.Record) error {
		n.keyless("a result of "+id, string(rec.JSON))
		var r batch.Result
		if err := json.Unmarshal(rec.JSON, &r); err != nil {
			return err
		}
		failure, err := json.Marshal(r.Error)
		n.hidden("an error of "+id, string(failure))
		return err
	})
	if err != nil {
		n.t.Error(err)
	}
}

// redisHolds hands every key and value of Redis on.
func redisHolds(t *testing.T, rdb *redis.Client, see func(key, text string)) {
	t.Helper()
	ctx := t.Context()
	all := rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for all.Next(ctx) {
		key := all.Val()
		var v any
		var err error
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "string":
			v, err = rdb.Get(ctx, key).Result()
		case "hash":
			v, err = rdb.HGetAll(ctx, key).Result()
		case "list":
			v, err = rdb.LRange(ctx, key, 0, -1).Result()
		case "set":
			v, err = rdb.SMembers(ctx, key).Result()
		case "zset":
			v, err = rdb.ZRange(ctx, key, 0, -1).Result()
		case "stream":
			v, err = rdb.XRange(ctx, key, "-", "+").Result()
		case "none": // it ended meanwhile
		default:
			t.Errorf("%s is a %s", key, kind)
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Errorf("read %s: %v", key, err)
		}
		see(key, fmt.Sprintf("%s %v", key, v))
	}
	if err := all.Err(); err != nil {
		t.Error(err)
	}
}

// Through a whole night in which the provider repeats the key and the prompts in all
// that it says, neither is in anything that people see: prompts are in the records
// alone, and the key is nowhere.
func TestCanary(t *testing.T) {
	n := newCanaryNight(t)
	n.submit("mixed", "q", 20)
	n.submit("fails", "alone", 3)
	n.until(60*time.Second, "the breaker opened", func() bool { return strings.Contains(n.logs.String(), `"to":"open"`) })
	n.crawl()
	n.told("mixed", 20)
	n.done("mixed", 60*time.Second)
	n.done("fails", 60*time.Second)
	n.until(60*time.Second, "somebody is told", func() bool { return len(n.chats.told("/json")) >= 2 && len(n.chats.told("/slack")) >= 2 })
	if pages := n.crawl(); pages < 40 {
		t.Errorf("only %d pages were read", pages)
	}
	n.told("mixed", 20)
	n.told("fails", 3)
	_, metrics := fetch(n.app.MetricsURL())
	n.hidden("the metrics", metrics)
	calls := 0
	redisHolds(t, n.redis.Client(t), func(key, text string) {
		n.keyless("in Redis, "+key, text)
		if strings.HasPrefix(key, "nightshift:{calls}") || strings.HasPrefix(key, "asynq:") {
			n.hidden("in Redis, "+key, text)
			calls++
		}
	})
	if err := n.app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	n.hidden("the log", n.logs.String())
	n.hidden("a message", n.chats.all.String())
	n.hidden("the traces", n.spans.raw.String())
	for where, empty := range map[string]bool{
		"the log": !strings.Contains(n.logs.String(), "unavailable"), "messages": n.chats.all.Len() == 0, "the traces": n.spans.raw.Len() == 0,
		"the metrics": !strings.Contains(metrics, "nightshift_calls_total{"), "the call log": calls == 0,
	} {
		if empty {
			t.Errorf("%s: nothing was looked at", where)
		}
	}
	for _, way := range []string{"unavailable", "limited", "half", "page", "refused", "good", "health"} {
		if n.parrot.said[way] == 0 {
			t.Errorf("the provider never said %q: %v", way, n.parrot.said)
		}
	}
}
