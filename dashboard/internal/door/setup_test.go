package door

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is the token of these tests; nothing may print it.
const secret = "canary-token-7f3a9c"

// rig is a door in virtual time before pages that do whatever they are asked to.
type rig struct {
	door    *Door
	handler http.Handler

	mu  sync.Mutex
	now time.Time
	log bytes.Buffer
	did []string // by the pages: method and path
}

// Write takes the log.
func (r *rig) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// setup makes a door with a token on an address that others reach.
func setup(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{now: time.Date(2026, 10, 5, 23, 10, 0, 0, time.UTC)}
	o := Options{Addr: "0.0.0.0:8080", Token: secret, Logger: slog.New(slog.NewJSONHandler(r, nil)), Now: r.clock}
	if change != nil {
		change(&o)
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.door, r.handler = d, d.Protect(http.HandlerFunc(r.page))
	return r
}

// open is a door without a token, on loopback.
func open(t *testing.T) *rig {
	t.Helper()
	return setup(t, func(o *Options) { o.Addr, o.Token = "127.0.0.1:8080", "" })
}

// page notes what it is asked for, and answers with the CSRF token of its forms.
func (r *rig) page(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.did = append(r.did, req.Method+" "+req.URL.Path)
	r.mu.Unlock()
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	_, _ = io.WriteString(w, r.door.Token(req))
}

// took says what the pages were asked for since the last time.
func (r *rig) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	did := r.did
	r.did = nil
	return did
}

type with func(*http.Request)

func header(name, value string) with {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func bearing(token string) with { return header("Authorization", "Bearer "+token) }

func session(c *http.Cookie) with { return func(r *http.Request) { r.AddCookie(c) } }

func from(addr string) with { return func(r *http.Request) { r.RemoteAddr = addr } }

func host(name string) with { return func(r *http.Request) { r.Host = name } }

// form is a POST body.
func form(pairs ...string) with {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Body = io.NopCloser(strings.NewReader(values.Encode()))
	}
}

// ask sends one request and returns its response.
func (r *rig) ask(method, target string, how ...with) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, target, nil)
	req.Host = "127.0.0.1:8080"
	for _, h := range how {
		h(req)
	}
	rec := httptest.NewRecorder()
	r.handler.ServeHTTP(rec, req)
	return rec
}

// login logs in and returns the cookie, and the CSRF token of a page.
func (r *rig) login(t *testing.T) (*http.Cookie, string) {
	t.Helper()
	rec := r.ask("POST", r.door.Path("/login"), form("token", secret))
	if rec.Code != http.StatusSeeOther {
		t.Fatalf("login: status %d: %s", rec.Code, rec.Body)
	}
	cookie := cookieNamed(rec, sessionCookie)
	if cookie == nil {
		t.Fatal("login: no cookie")
	}
	page := r.ask("GET", r.door.Path("/"), session(cookie))
	if page.Code != http.StatusOK || page.Body.Len() == 0 {
		t.Fatalf("page after the login: status %d: %s", page.Code, page.Body)
	}
	r.took()
	return cookie, page.Body.String()
}

func cookieNamed(rec *httptest.ResponseRecorder, name string) *http.Cookie {
	for _, c := range rec.Result().Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// logged returns the lines of the log, and starts it anew.
func (r *rig) logged(t *testing.T) []map[string]any {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []map[string]any
	for line := range strings.Lines(r.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		lines = append(lines, m)
	}
	r.log.Reset()
	return lines
}
