package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightshift/config"
	"nightshift/internal/redistest"
)

// certificate writes a certificate for 127.0.0.1 into files, and returns what
// trusts it.
func certificate(t *testing.T) (files config.TLS, pool *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pair := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files = config.TLS{CertFile: filepath.Join(dir, "own.crt"), KeyFile: filepath.Join(dir, "own.key")}
	for file, block := range map[string]*pem.Block{
		files.CertFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return files, pool
}

// A process serves the page with TLS below its base path to who has the token: also
// streams, over HTTP/2.
func TestDashboardWithTLS(t *testing.T) {
	const token = "canary-token-7f3a9c"
	t.Setenv("TEST_TOKEN", token)
	cfg := checkConfig(t, redistest.Start(t).URL(), "http://127.0.0.1:1/v1")
	files, pool := certificate(t)
	cfg.Dashboard = config.Dashboard{Addr: "0.0.0.0:0", TokenEnv: "TEST_TOKEN", TLS: files, Queues: "read", BasePath: "/night"}
	a, err := New(t.Context(), cfg, Options{Dashboard: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(a.DashboardURL())
	if err != nil || at.Scheme != "https" || at.Path != "/night/" {
		t.Fatalf("it is at %s, %v", at, err)
	}
	at.Host = "127.0.0.1:" + at.Port()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	ask := func(path, token string) *http.Response {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept", "text/event-stream, text/html")
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	if got := ask("fleet", "wrong-"+token); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: status %d", got.StatusCode)
	}
	if got := ask("fleet", token); got.StatusCode != http.StatusOK || got.ProtoMajor != 2 {
		t.Errorf("the token: status %d by %s", got.StatusCode, got.Proto)
	}
	stream := ask("live?page=%2Ffleet", token)
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if stream.StatusCode != http.StatusOK || !strings.HasPrefix(lines.Text(), "data: ") {
		t.Errorf("a stream: status %d, %q, %v", stream.StatusCode, lines.Text(), lines.Err())
	}
	if plain, _ := fetch(strings.Replace(at.String(), "https", "http", 1)); plain != http.StatusBadRequest {
		t.Errorf("plain HTTP: status %d", plain)
	}
}

// What could let others in, or nobody, does not start, whatever named the address:
// flags come after the configuration was checked.
func TestDashboardRefusesToStart(t *testing.T) {
	redis := redistest.Start(t)
	t.Setenv("SHORT_TOKEN", "canary")
	t.Setenv("EMPTY_TOKEN", " ")
	for want, d := range map[string]config.Dashboard{
		"dashboard.token_env, or write 127.0.0.1:0": {Addr: "0.0.0.0:0"},
		"NOT_SET_HERE":               {Addr: "127.0.0.1:0", TokenEnv: "NOT_SET_HERE"},
		"EMPTY_TOKEN":                {Addr: "127.0.0.1:0", TokenEnv: "EMPTY_TOKEN"},
		"fewer than 16 characters":   {Addr: "127.0.0.1:0", TokenEnv: "SHORT_TOKEN"},
		"dashboard.tls: cert_file /": {Addr: "127.0.0.1:0", TLS: config.TLS{CertFile: "/dev/null", KeyFile: "/dev/null"}},
	} {
		cfg := checkConfig(t, redis.URL(), "http://127.0.0.1:1/v1")
		cfg.Dashboard = d
		a, err := New(t.Context(), cfg, Options{Dashboard: true, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			_ = a.Stop(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: error %v, want one with %q", d, err, want)
		}
		cfg = checkConfig(t, redis.URL(), "http://127.0.0.1:1/v1")
		cfg.Dashboard = d
		if a, err = New(t.Context(), cfg, Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
			t.Errorf("%+v: a process without a dashboard does not start: %v", d, err)
		} else if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
