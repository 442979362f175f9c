package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// asked returns what a path of a health answers.
func asked(h *health, method, path string) (int, string) {
	rec := httptest.NewRecorder()
	h.before(http.NotFoundHandler()).ServeHTTP(rec, httptest.NewRequest(method, path, nil))
	return rec.Code, rec.Body.String()
}

// An answer of Redis holds from when it came: those who waited beside the one that
// asked take it, and do not ask one after another.
func TestHealthOfASlowRedis(t *testing.T) {
	now, pings := time.Now(), 0
	h := newHealth(func(context.Context) error {
		pings++
		now = now.Add(readyLimit)
		return context.DeadlineExceeded
	})
	h.now = func() time.Time { return now }
	h.enter(running)
	for range 3 {
		if code, _ := asked(h, http.MethodGet, "/readyz"); code != 503 || pings != 1 {
			t.Errorf("status %d after %d pings", code, pings)
		}
	}
}

func TestHealth(t *testing.T) {
	now, pings, down := time.Now(), 0, errors.New("reach redis at redis://:secret@host: refused")
	var err error
	h := newHealth(func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the ping has no limit")
		}
		pings++
		return err
	})
	h.now = func() time.Time { return now }
	steps := []struct {
		do    func()
		code  int
		text  string
		pings int
	}{
		{func() {}, 503, "starting\n", 0},
		{func() { h.enter(running) }, 200, "ok\n", 1},
		{func() { err = down }, 200, "ok\n", 1}, // asked a moment ago
		{func() { now = now.Add(readyKept) }, 503, "redis does not answer\n", 2},
		{func() { err = nil }, 503, "redis does not answer\n", 2},
		{func() { now = now.Add(readyKept) }, 200, "ok\n", 3},
		{func() { h.enter(stopping) }, 503, "stopping\n", 3},
	}
	for i, s := range steps {
		s.do()
		if code, text := asked(h, http.MethodGet, "/readyz"); code != s.code || text != s.text || pings != s.pings {
			t.Errorf("step %d: %d %q after %d pings; want %d %q after %d", i, code, text, pings, s.code, s.text, s.pings)
		}
		if code, text := asked(h, http.MethodGet, "/healthz"); code != 200 || text != "ok\n" {
			t.Errorf("step %d: healthz %d %q", i, code, text)
		}
	}
	if pings != 3 {
		t.Errorf("healthz asked Redis: %d pings", pings)
	}
}

func TestHealthTakesNothingElse(t *testing.T) {
	h := newHealth(func(context.Context) error { return nil })
	for _, r := range [][2]string{{"POST", "/healthz"}, {"DELETE", "/readyz"}} {
		if code, _ := asked(h, r[0], r[1]); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", r, code)
		}
	}
	for _, path := range []string{"/", "/healthz/", "/healthz/x", "/queues/../readyz"} {
		if code, _ := asked(h, http.MethodGet, path); code != http.StatusNotFound {
			t.Errorf("%s: %d, and should be left to the page", path, code)
		}
	}
}

// Both addresses of a process answer, the page's without its token: not while Redis
// is away, again when it is back, and not while a call in flight is waited for.
func TestReadyzOfAProcess(t *testing.T) {
	t.Setenv("TEST_TOKEN", "0123456789abcdef")
	f := newFleet(t, fleetOptions{rungs: "{model: a/one}", concurrency: 5, retries: 0, cooldown: "2s", maxCooldown: "16s"})
	cfg := *f.conn.Config
	cfg.Metrics.Addr, cfg.Dashboard.Addr, cfg.Dashboard.TokenEnv = "127.0.0.1:0", "127.0.0.1:0", "TEST_TOKEN"
	a, err := New(t.Context(), &cfg, Options{Worker: true, Metrics: true, Dashboard: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop(t.Context())
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, _ := fetch(a.DashboardURL()); code == http.StatusOK {
		t.Error("the page is open without its token")
	}
	says := func(want string) func() bool {
		return func() bool {
			_, one := fetch(strings.TrimSuffix(a.MetricsURL(), "metrics") + "readyz")
			_, two := fetch(a.DashboardURL() + "readyz")
			return one == want && two == want
		}
	}
	f.until(10*time.Second, "it is ready", says("ok\n"))
	f.redis.Kill()
	f.until(10*time.Second, "it says that Redis is away", says("redis does not answer\n"))
	if code, text := fetch(a.DashboardURL() + "healthz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("it lives, but says %d %q", code, text)
	}
	f.redis.Restart(t)
	f.until(20*time.Second, "it is ready again", says("ok\n"))

	f.up.hold(3 * time.Second)
	f.submit("b", 1)
	f.until(20*time.Second, "a call is in flight", func() bool { total, _ := f.up.counts(); return total > 0 })
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(context.Background()) }()
	f.until(3*time.Second, "it says that it stops", says("stopping\n"))
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// fetch returns what a URL answers; "" where nobody does.
func fetch(url string) (int, string) {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := client.Get(url)
	if err != nil {
		return 0, ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, ""
	}
	return r.StatusCode, string(text)
}
