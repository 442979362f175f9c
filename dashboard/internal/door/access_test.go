package door

import (
	"net/http"
	"strings"
	"testing"
)

// An address that others reach needs a token worth the name, and what is wrong is
// said by the key to change and without the token.
func TestNew_RefusesWhatOthersCouldEnter(t *testing.T) {
	for name, c := range map[string]struct{ addr, token, want string }{
		"every address":         {"0.0.0.0:8080", "", "dashboard.token_env"},
		"every address, short":  {":8080", "", "127.0.0.1:8080"},
		"every address, IPv6":   {"[::]:8080", "", "dashboard.token_env"},
		"private address":       {"192.168.0.7:80", "", "dashboard.token_env"},
		"name":                  {"dashboard.local:80", "", "dashboard.token_env"},
		"like localhost":        {"localhost.evil.example:80", "", "dashboard.token_env"},
		"short token":           {"0.0.0.0:8080", "canary-1234567", "fewer than 16"},
		"short on loopback":     {"127.0.0.1:8080", "canary", "fewer than 16"},
		"long by bytes alone":   {"0.0.0.0:8080", "canaryéééééé", "fewer than 16"},
		"long by spaces":        {"0.0.0.0:8080", "canary                      ", "fewer than 16"},
		"control character":     {"0.0.0.0:8080", "canary-0123456789\x01", "control character"},
		"no port":               {"127.0.0.1", secret, "missing port"},
		"port out of range":     {"127.0.0.1:99999", secret, "from 0 to 65535"},
		"port that is a name":   {"127.0.0.1:http", secret, "from 0 to 65535"},
		"no port, and no token": {"127.0.0.1", "", "missing port"},
	} {
		_, err := New(Options{Addr: c.addr, Token: c.token})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error holds the token: %v", name, err)
		}
	}
	for _, addr := range []string{"", "127.0.0.1:8080", "127.1.2.3:0", "localhost:8080", "Localhost:1", "[::1]:65535"} {
		if _, err := New(Options{Addr: addr}); err != nil {
			t.Errorf("%q without a token: %v", addr, err)
		}
	}
	for _, addr := range []string{"0.0.0.0:8080", ":0", "10.0.0.1:80", "dashboard.local:80"} {
		if _, err := New(Options{Addr: addr, Token: "0123456789abcdef"}); err != nil {
			t.Errorf("%q with a token: %v", addr, err)
		}
	}
}

// Without a token everyone on the machine is let in, and nobody else.
func TestOpen_AnswersThisMachineAlone(t *testing.T) {
	r := open(t)
	for _, h := range []string{"localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1", "127.8.8.8:80", "[::1]", "[::1]:8080"} {
		if rec := r.ask("GET", "/", host(h)); rec.Code != http.StatusOK {
			t.Errorf("host %q: status %d", h, rec.Code)
		}
	}
	if rec := r.ask("GET", "/", header("X-Forwarded-For", "127.0.0.1, ::1"), header("X-Forwarded-Host", "localhost:80")); rec.Code != http.StatusOK {
		t.Errorf("a proxy for this machine: status %d", rec.Code)
	}
	r.took()
	for name, how := range map[string]with{
		"another name":             host("evil.example"),
		"another name and port":    host("evil.example:8080"),
		"a name that begins so":    host("localhost.evil.example"),
		"a name that says so":      host("127.0.0.1.nip.io:80"),
		"a private address":        host("10.0.0.1:8080"),
		"every address":            host("0.0.0.0:8080"),
		"a number":                 host("2130706433"),
		"no host":                  host(""),
		"a proxy for another":      header("X-Forwarded-For", "203.0.113.9"),
		"a proxy behind another":   header("X-Forwarded-For", "127.0.0.1, 203.0.113.9"),
		"a proxy that hides whom":  header("X-Forwarded-For", "unknown"),
		"nginx for another":        header("X-Real-IP", "203.0.113.9"),
		"a proxy by another name":  header("X-Forwarded-Host", "night.example"),
		"a proxy by RFC 7239":      header("Forwarded", "for=203.0.113.9"),
		"a proxy that lies in one": func(q *http.Request) { q.Header["X-Forwarded-For"] = []string{"127.0.0.1", "203.0.113.9"} },
	} {
		rec := r.ask("GET", "/", how)
		if rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), "dashboard.token_env") {
			t.Errorf("%s: status %d: %s", name, rec.Code, rec.Body)
		}
		if rec.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: a refusal without the headers", name)
		}
	}
	if did := r.took(); did != nil {
		t.Errorf("the pages were asked %q", did)
	}
}

// With a token nothing is served to who is not known, whatever is asked for.
func TestLocked_AnswersNobodyUnknown(t *testing.T) {
	r := setup(t, func(o *Options) { o.Public = []string{"/static/icon.svg"} })
	cookie, csrf := r.login(t)
	forged := *cookie
	forged.Value = "A" + forged.Value[1:]
	if forged.Value == cookie.Value {
		forged.Value = "B" + cookie.Value[1:]
	}
	short := *cookie
	short.Value = cookie.Value[:40]
	token := *cookie
	token.Value = secret
	for name, how := range map[string][]with{
		"nothing":                {},
		"the wrong token":        {bearing("wrong-" + secret)},
		"a part of the token":    {bearing(secret[:len(secret)-1])},
		"more than the token":    {bearing(secret + "x")},
		"no token":               {bearing("")},
		"basic":                  {header("Authorization", "Basic "+secret)},
		"the token alone":        {header("Authorization", secret)},
		"a forged session":       {session(&forged)},
		"a part of a session":    {session(&short)},
		"the token as a session": {session(&token)},
		"a CSRF token":           {header(Header, csrf)},
		"as if from loopback":    {host("localhost"), from("127.0.0.1:1"), header("X-Forwarded-For", "127.0.0.1")},
	} {
		for _, path := range []string{"/", "/queues/", "/queues/api/queues", "/static/style.css", "/nowhere", "/static/icon.svg/x"} {
			for _, method := range methods {
				rec := r.ask(method, path, append(how, from("192.0.2.7:1"))...)
				if rec.Code != http.StatusUnauthorized && rec.Code != http.StatusTooManyRequests {
					t.Errorf("%s: %s %s: status %d", name, method, path, rec.Code)
				}
				if strings.Contains(rec.Body.String(), secret) {
					t.Errorf("%s: %s %s: the answer holds the token", name, method, path)
				}
			}
		}
		r.pass(attemptBurst * attemptPause)
	}
	if did := r.took(); did != nil {
		t.Errorf("the pages were asked %q", did)
	}
	if rec := r.ask("GET", "/static/icon.svg"); rec.Code != http.StatusOK {
		t.Errorf("what the login page needs: status %d", rec.Code)
	}
	if rec := r.ask("POST", "/static/icon.svg"); rec.Code != http.StatusUnauthorized {
		t.Errorf("a change of what the login page needs: status %d", rec.Code)
	}
	if rec := r.ask("GET", "/", bearing(secret)); rec.Code != http.StatusOK {
		t.Errorf("with the token: status %d", rec.Code)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	r := setup(t, func(o *Options) { o.BasePath = "/a/night" })
	for _, method := range []string{"OPTIONS", "TRACE", "CONNECT", "BREW"} {
		rec := r.ask(method, "/a/night/", bearing(secret))
		if rec.Code != http.StatusMethodNotAllowed || !strings.Contains(rec.Header().Get("Allow"), "GET") {
			t.Errorf("%s: status %d, Allow %q", method, rec.Code, rec.Header().Get("Allow"))
		}
	}
	for path, want := range map[string]int{
		"/a/night/": 200, "/a/night/batches/x": 200, "/a/night": 308, "/": 404, "/a": 404, "/a/nightly/": 404, "/queues/": 404,
		"/a/night//evil.example": 404, "/a/night/x/../y": 404, "/a/night/./x": 404, "/a/night/x/": 200,
	} {
		rec := r.ask("GET", path, bearing(secret))
		if rec.Code != want {
			t.Errorf("%s: status %d, want %d", path, rec.Code, want)
		}
		if l := rec.Header().Get("Location"); want == 308 && l != "/a/night/" {
			t.Errorf("%s leads to %q", path, l)
		}
	}
	want := "GET / GET /batches/x GET /x/"
	for _, did := range r.took() {
		if !strings.Contains(want, did) {
			t.Errorf("the pages were asked %q", did)
		}
	}
}
