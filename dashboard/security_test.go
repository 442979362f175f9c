package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"nightshift/dashboard"
)

// A page of another site that resolves its name to 127.0.0.1 gets nothing.
func TestHostMustBeLoopback(t *testing.T) {
	b := setup(t, nil)
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9", "127.8.8.8:80", "[::1]", "[::1]:8080"} {
		if got := b.do(t, http.MethodGet, "/", host); got.status != http.StatusOK {
			t.Errorf("host %q: status %d", host, got.status)
		}
	}
	for _, host := range []string{
		"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.nip.io:80", "10.0.0.1:8080", "0.0.0.0:8080", "[::]:8080", "2130706433",
	} {
		for _, path := range []string{"/", "/queues/", "/queues/api/queues", "/static/style.css"} {
			if got := b.do(t, http.MethodGet, path, host); got.status != http.StatusForbidden {
				t.Errorf("host %q, path %s: status %d", host, path, got.status)
			}
		}
	}
}

// Whoever is let in still changes nothing without the token of a page.
func TestChangesNeedATokenOfThePage(t *testing.T) {
	b := setup(t, nil)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		for _, path := range []string{"/", "/queues/", "/queues/api/queues/overnight:pause", "/nowhere"} {
			if got := b.do(t, method, path, ""); got.status != http.StatusForbidden {
				t.Errorf("%s %s: status %d", method, path, got.status)
			}
		}
	}
	for _, method := range []string{"OPTIONS", "TRACE", "BREW"} {
		got := b.do(t, method, "/", "")
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") == "" {
			t.Errorf("%s: status %d, Allow %q", method, got.status, got.header.Get("Allow"))
		}
	}
	if got := b.do(t, http.MethodHead, "/", ""); got.status != http.StatusOK || got.body != "" {
		t.Errorf("HEAD /: status %d, body %q", got.status, got.body)
	}
}

// Every response carries the headers, refusals included.
func TestSecurityHeaders(t *testing.T) {
	b := setup(t, nil)
	for _, path := range []string{"/", "/queues/", "/queues/overnight", "/queues/static/js/none.js", "/static/style.css", "/nowhere"} {
		for _, host := range []string{"", "evil.example"} {
			h := b.do(t, http.MethodGet, path, host).header
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff",
				"Referrer-Policy":        "same-origin",
				"X-Frame-Options":        "DENY",
				"Cache-Control":          "no-store",
			} {
				if got := h.Get(name); got != want {
					t.Errorf("%s (host %q): %s is %q, want %q", path, host, name, got, want)
				}
			}
			checkPolicy(t, path, h.Get("Content-Security-Policy"))
		}
	}
}

// checkPolicy holds a policy to what keeps the browser from calling out, from
// running what an answer of a model smuggles in, and from being framed.
func checkPolicy(t *testing.T, path, policy string) {
	t.Helper()
	wantAll(t, policy, "default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "connect-src 'self'")
	if strings.Contains(policy, "http:") || strings.Contains(policy, "https:") || strings.Contains(policy, "*") {
		t.Errorf("%s: the policy allows another host: %s", path, policy)
	}
	for directive := range strings.SplitSeq(policy, ";") {
		if strings.Contains(directive, "script-src") && strings.Contains(directive, "unsafe") {
			t.Errorf("%s: the policy allows inline scripts: %s", path, directive)
		}
	}
}

func TestNewNamesEveryMissingOption(t *testing.T) {
	_, err := dashboard.New(dashboard.Options{})
	if err == nil {
		t.Fatal("no error")
	}
	wantAll(t, err.Error(), "Batches", "Breakers", "Redis", "DecodeTask")
}
