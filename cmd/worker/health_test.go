package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// asks runs worker health by a configuration with these addresses.
func asks(t *testing.T, metrics, dashboard string, args ...string) (code int, out, errs string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nightshift.yaml")
	text := "redis: {url: 'redis://127.0.0.1:1'}\nproviders: {sim: {base_url: 'http://127.0.0.1:1/v1', api_key_env: NOT_SET_HERE}}\nmodels: {sim/a: {}}\nladders: {l: {rungs: [{model: sim/a}]}}\nqueues: {q: {ladder: l}}\n" +
		"metrics: {addr: '" + metrics + "'}\ndashboard: " + dashboard + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code = run(append([]string{"health", "--config", file}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func readiness(code int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text+"\n")
	})
}

func TestHealth(t *testing.T) {
	up := httptest.NewServer(readiness(200, "ok"))
	defer up.Close()
	addr := up.Listener.Addr().String()
	_, port, _ := strings.Cut(addr, ":")
	away := httptest.NewServer(readiness(503, "redis does not answer"))
	defer away.Close()
	encrypted := httptest.NewTLSServer(readiness(200, "ok"))
	defer encrypted.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	tls := "{addr: '" + encrypted.Listener.Addr().String() + "', tls: {cert_file: a, key_file: b}}"

	for name, c := range map[string]struct {
		metrics, dashboard string
		args               []string
		code               int
		out, errs          string
	}{
		"ready":                   {addr, "{}", nil, 0, "ok\n", ""},
		"listens everywhere":      {":" + port, "{}", nil, 0, "ok\n", ""},
		"not ready":               {away.Listener.Addr().String(), "{}", nil, 1, "", "worker: error: not ready: redis does not answer\n"},
		"the page":                {"127.0.0.1:1", "{addr: '" + addr + "'}", []string{"--page"}, 0, "ok\n", ""},
		"the page with TLS":       {"127.0.0.1:1", tls, []string{"--page"}, 0, "ok\n", ""},
		"another address":         {"127.0.0.1:1", "{}", []string{"--addr", addr}, 0, "ok\n", ""},
		"nobody listens":          {gone.Listener.Addr().String(), "{}", nil, 1, "", "connection refused"},
		"no address":              {"", "{}", nil, 2, "", "metrics.addr is empty"},
		"not an address":          {addr, "{}", []string{"--addr", "here"}, 2, "", "missing port"},
		"the page has no address": {addr, "{addr: ''}", []string{"--page"}, 2, "", "dashboard.addr is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := asks(t, c.metrics, c.dashboard, c.args...)
			if code != c.code || out != c.out || !strings.Contains(errs, c.errs) {
				t.Errorf("exit %d, %q, %q; want %d, %q, %q", code, out, errs, c.code, c.out, c.errs)
			}
		})
	}
}
