package dashboard_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nightshift/dashboard"
)

// token is what the dashboards of these tests are entered with.
const token = "canary-token-7f3a9c"

// locked is a dashboard that others reach and whose queues can be changed.
func locked(o *dashboard.Options) { o.Addr, o.Token, o.QueuesWrite = "0.0.0.0:8080", token, true }

// person is a browser's worth of a client: it keeps cookies and follows nothing.
type person struct {
	*http.Client
	url string
}

func newPerson(t *testing.T, url string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	return &person{&http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, url}
}

// ask sends one request; pairs are its headers.
func (p *person) ask(t *testing.T, method, path, body string, pairs ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Set(pairs[i], pairs[i+1])
	}
	resp, err := p.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// login logs in below a base path, and returns the token of asynqmon's page.
func (p *person) login(t *testing.T, base string, pairs ...string) (csrf string) {
	t.Helper()
	pairs = append(pairs, "Content-Type", "application/x-www-form-urlencoded")
	if got := p.ask(t, "POST", base+"/login", url.Values{"token": {token}}.Encode(), pairs...); got.status != http.StatusSeeOther {
		t.Fatalf("login: status %d: %s", got.status, got.body)
	}
	page := p.ask(t, "GET", base+"/queues/", "")
	for _, c := range (&http.Response{Header: page.header}).Cookies() {
		if c.Name == "XSRF-TOKEN" {
			return c.Value
		}
	}
	t.Fatalf("the page of the queues is given no token: status %d", page.status)
	return ""
}

// Whoever lacks one of the things that a change needs changes nothing of asynq's
// queues; who has them all does.
func TestQueuesAPIBehindTheDoor(t *testing.T) {
	b, inspector := queued(t, 1, locked)
	p := newPerson(t, b.url)
	csrf := p.login(t, "")
	stranger := newPerson(t, b.url)
	other := newPerson(t, b.url)
	others := other.login(t, "")
	calls := []struct{ method, path, body string }{
		{"POST", "/queues/api/queues/overnight:pause", ""},
		{"DELETE", "/queues/api/queues/overnight/pending_tasks/summaries:00000001.0", ""},
		{"DELETE", "/queues/api/queues/overnight/pending_tasks:delete_all", ""},
		{"POST", "/queues/api/queues/overnight/pending_tasks:batch_archive", `{"task_ids":["summaries:00000001.0"]}`},
		{"DELETE", "/queues/api/queues/overnight", ""},
	}
	for name, c := range map[string]struct {
		who    *person
		want   int
		header []string
	}{
		"no login":                     {stranger, 401, nil},
		"no login, but a token":        {stranger, 401, []string{"X-XSRF-TOKEN", csrf}},
		"a wrong login":                {stranger, 401, []string{"Authorization", "Bearer wrong-" + token}},
		"no CSRF token":                {p, 403, nil},
		"a wrong CSRF token":           {p, 403, []string{"X-XSRF-TOKEN", csrf + "x"}},
		"another session's CSRF token": {p, 403, []string{"X-XSRF-TOKEN", others}},
		"another site":                 {p, 403, []string{"X-XSRF-TOKEN", csrf, "Sec-Fetch-Site", "cross-site"}},
		"another origin":               {p, 403, []string{"X-XSRF-TOKEN", csrf, "Origin", "http://evil.example"}},
		"another port's page":          {p, 403, []string{"X-XSRF-TOKEN", csrf, "Origin", "http://127.0.0.1:1"}},
		"another origin with a login":  {stranger, 403, []string{"Authorization", "Bearer " + token, "Origin", "http://evil.example"}},
	} {
		for _, call := range calls {
			if got := c.who.ask(t, call.method, call.path, call.body, c.header...); got.status != c.want {
				t.Errorf("%s: %s %s: status %d, want %d: %s", name, call.method, call.path, got.status, c.want, got.body)
			}
		}
	}
	info, err := inspector.GetQueueInfo("overnight")
	if err != nil || info.Paused || info.Pending != 1 || info.Archived != 0 {
		t.Fatalf("the queue was changed: %+v, %v", info, err)
	}
	if got := p.ask(t, "POST", "/queues/api/queues/overnight:pause", "", "X-XSRF-TOKEN", csrf, "Origin", b.url); got.status >= 300 {
		t.Errorf("with all that it needs: status %d: %s", got.status, got.body)
	}
	if got := stranger.ask(t, "DELETE", "/queues/api/queues/overnight/pending_tasks:delete_all", "", "Authorization", "Bearer "+token); got.status >= 300 {
		t.Errorf("a script with the token: status %d: %s", got.status, got.body)
	}
	if info, err = inspector.GetQueueInfo("overnight"); err != nil || !info.Paused || info.Pending != 0 {
		t.Errorf("the queue was not changed: %+v, %v", info, err)
	}
}

// With dashboard.queues read, not even that is enough.
func TestQueuesAPIIsReadOnlyForAll(t *testing.T) {
	b, inspector := queued(t, 1, func(o *dashboard.Options) { locked(o); o.QueuesWrite = false })
	p := newPerson(t, b.url)
	csrf := p.login(t, "")
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		for _, path := range []string{"/queues/api/queues/overnight:pause", "/queues/api/queues/overnight", "/queues/", "/queues/anything"} {
			if got := p.ask(t, method, path, "", "X-XSRF-TOKEN", csrf); got.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d", method, path, got.status)
			}
		}
	}
	if info, err := inspector.GetQueueInfo("overnight"); err != nil || info.Paused || info.Pending != 1 {
		t.Errorf("the queue was changed: %+v, %v", info, err)
	}
}

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The log says who changed what of the queues, by the names of tasks.
func TestQueuesChangesAreLogged(t *testing.T) {
	var out lines
	b, _ := queued(t, 25, func(o *dashboard.Options) { locked(o); o.Logger = slog.New(slog.NewJSONHandler(&out, nil)) })
	p := newPerson(t, b.url)
	csrf := p.login(t, "")
	var ids []string
	for i := range 22 {
		ids = append(ids, fmt.Sprintf("summaries:%08d.0", i+1))
	}
	body, err := json.Marshal(map[string]any{"task_ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path, body, what, on string }{
		{"POST", "/queues/api/queues/overnight:pause", "", "queues: pause", "overnight"},
		{"DELETE", "/queues/api/queues/overnight/pending_tasks/summaries:00000025.0", "", "queues: delete", "overnight/pending_tasks/summaries:00000025.0"},
		{"POST", "/queues/api/queues/overnight/pending_tasks/summaries:00000024.0:archive", "", "queues: archive", "overnight/pending_tasks/summaries:00000024.0"},
		{"POST", "/queues/api/queues/overnight/pending_tasks:batch_delete", string(body), "queues: batch_delete", "overnight/pending_tasks"},
	} {
		before := len(out.String())
		if got := p.ask(t, c.method, c.path, c.body, "X-XSRF-TOKEN", csrf); got.status >= 300 {
			t.Errorf("%s: status %d: %s", c.path, got.status, got.body)
		}
		var line struct {
			Who, What, On, Result, Remote string
			Tasks                         int
			IDs                           []string
		}
		if err := json.Unmarshal([]byte(out.String()[before:]), &line); err != nil {
			t.Fatalf("%s: not one line: %v", c.path, err)
		}
		if !strings.HasPrefix(line.Who, "session ") || line.What != c.what || line.On != c.on || line.Result != "done" || !strings.HasPrefix(line.Remote, "127.0.0.1:") {
			t.Errorf("%s is logged as %+v", c.path, line)
		}
		if c.body != "" && (line.Tasks != 22 || len(line.IDs) != 20 || line.IDs[0] != ids[0]) {
			t.Errorf("%s: tasks %d, ids %q", c.path, line.Tasks, line.IDs)
		}
	}
	if strings.Contains(out.String(), token) || strings.Contains(out.String(), csrf) {
		t.Error("the log holds a secret")
	}
}

// The bar says what becomes of what is deleted, where something can be.
func TestQueuesSayWhatDeletingMeans(t *testing.T) {
	const note, readOnly = "What is deleted or archived here comes back", "read-only"
	for _, write := range []bool{false, true} {
		b := setup(t, func(o *dashboard.Options) { o.QueuesWrite = write })
		page := b.get(t, "/queues/").body
		if strings.Contains(page, note) != write || strings.Contains(page, readOnly) == write {
			t.Errorf("write %t: the page says %s", write, page)
		}
		wantAll(t, page, fmt.Sprintf(`window.FLAG_READ_ONLY="%t"`, !write), `<nav class="sections"`, `cancel its <a href="/batches">batch</a>`)
	}
}

// behind starts a reverse proxy in front of a dashboard, as others set one up.
func behind(t *testing.T, b *bundle, rewrite func(*httputil.ProxyRequest)) string {
	t.Helper()
	target, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		rewrite(r)
	}}
	mux := http.NewServeMux()
	mux.Handle("/team/nightshift/", proxy)
	mux.Handle("/team/nightshift", proxy)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the browser left the dashboard: %s %s", r.Method, r.URL)
		http.NotFound(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

var localLink = regexp.MustCompile(`(?:href|src|action|data-live)="(/[^"]*)"`)

// Behind a proxy that passes the path and the host on, every link stays below the
// base path, and everything works.
func TestBasePathBehindAProxy(t *testing.T) {
	const base = "/team/nightshift"
	b, inspector := queued(t, 1, func(o *dashboard.Options) { locked(o); o.BasePath = base })
	front := behind(t, b, func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host; r.Out.Header.Set("X-Forwarded-Proto", "https") })
	p := newPerson(t, front)
	if got := p.ask(t, "GET", base, ""); got.status != http.StatusPermanentRedirect || got.header.Get("Location") != base+"/" {
		t.Errorf("without the slash: status %d to %q", got.status, got.header.Get("Location"))
	}
	asked := p.ask(t, "GET", base+"/fleet", "", "Accept", "text/html")
	if asked.status != http.StatusUnauthorized {
		t.Errorf("without a login: status %d", asked.status)
	}
	form := url.Values{"token": {token}, "next": {"/fleet"}}.Encode()
	in := p.ask(t, "POST", base+"/login", form, "Content-Type", "application/x-www-form-urlencoded", "Origin", front)
	if cookie := in.header.Get("Set-Cookie"); in.header.Get("Location") != base+"/fleet" || !strings.Contains(cookie, "Path="+base+"/") || !strings.Contains(cookie, "Secure") {
		t.Fatalf("login: status %d to %q, cookie %q", in.status, in.header.Get("Location"), cookie)
	}
	p.Jar = insecure(t, front, in) // this test speaks plain HTTP to the proxy
	seen := map[string]bool{}
	var follow func(path string)
	follow = func(path string) {
		path, _, _ = strings.Cut(path, "#")
		if seen[path] || strings.Contains(path, "/live?") || path == base+"/logout" {
			return
		}
		seen[path] = true
		if !strings.HasPrefix(path, base+"/") {
			t.Errorf("a link leaves the base path: %s", path)
			return
		}
		got := p.ask(t, "GET", path, "")
		if got.status != http.StatusOK {
			t.Errorf("%s: status %d", path, got.status)
		}
		for _, m := range localLink.FindAllStringSubmatch(got.body, -1) {
			follow(strings.ReplaceAll(m[1], "&amp;", "&"))
		}
	}
	for _, m := range localLink.FindAllStringSubmatch(asked.body, -1) {
		if m[1] != base+"/login" { // it leads on, once logged in
			follow(m[1])
		}
	}
	follow(base + "/queues/")
	if len(seen) < 10 || !seen[base+"/batches"] || !seen[base+"/login.css"] {
		t.Errorf("few links were followed: %v", seen)
	}
	if got := p.ask(t, "GET", base+"/queues/api/queues/overnight/pending_tasks?size=1000", ""); !strings.Contains(got.body, "summaries:00000001.0") {
		t.Errorf("the queues' data: status %d: %s", got.status, got.body)
	}
	csrf := ""
	for _, c := range (&http.Response{Header: p.ask(t, "GET", base+"/queues/", "").header}).Cookies() {
		csrf = c.Value
	}
	pause := base + "/queues/api/queues/overnight:pause"
	if got := p.ask(t, "POST", pause, "", "Origin", "https://evil.example", "X-XSRF-TOKEN", csrf); got.status != http.StatusForbidden {
		t.Errorf("a change from another origin: status %d", got.status)
	}
	if got := p.ask(t, "POST", pause, "", "Origin", front, "X-XSRF-TOKEN", csrf); got.status >= 300 {
		t.Errorf("a change: status %d: %s", got.status, got.body)
	}
	if info, err := inspector.GetQueueInfo("overnight"); err != nil || !info.Paused {
		t.Errorf("the queue was not paused: %+v, %v", info, err)
	}
}

// insecure keeps the cookies of an answer as if they were not Secure.
func insecure(t *testing.T, front string, a answer) http.CookieJar {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(front)
	if err != nil {
		t.Fatal(err)
	}
	cookies := (&http.Response{Header: a.header}).Cookies()
	for _, c := range cookies {
		c.Secure = false
	}
	jar.SetCookies(u, cookies)
	return jar
}

// A proxy on this machine must not open to all what is open to the machine alone.
func TestAProxyDoesNotOpenAnOpenDashboard(t *testing.T) {
	b := setup(t, func(o *dashboard.Options) { o.BasePath = "/team/nightshift" })
	for name, c := range map[string]struct {
		rewrite func(*httputil.ProxyRequest)
		want    int
	}{
		"for this machine":   {func(*httputil.ProxyRequest) {}, http.StatusOK},
		"for another":        {func(r *httputil.ProxyRequest) { r.Out.Header.Set("X-Forwarded-For", "203.0.113.9") }, http.StatusForbidden},
		"by its public name": {func(r *httputil.ProxyRequest) { r.Out.Host = "night.example" }, http.StatusForbidden},
	} {
		if got := newPerson(t, behind(t, b, c.rewrite)).ask(t, "GET", "/team/nightshift/", ""); got.status != c.want {
			t.Errorf("%s: status %d, want %d", name, got.status, c.want)
		}
	}
}

// What cannot be kept shut does not start.
func TestNewRefusesWithoutAToken(t *testing.T) {
	_, o := parts()
	o.Addr = "0.0.0.0:8080"
	if d, err := dashboard.New(o); err == nil || !strings.Contains(err.Error(), "dashboard.token_env") {
		t.Errorf("error %v", err)
		if err == nil {
			_ = d.Close()
		}
	}
	o.Token, o.CertFile, o.KeyFile = token, "/nowhere/own.crt", "/nowhere/own.key"
	if _, err := dashboard.New(o); err == nil || !strings.Contains(err.Error(), "dashboard.tls") || strings.Contains(err.Error(), token) {
		t.Errorf("error %v", err)
	}
}

// With a login, histories name who changed something as the log does.
func TestWhoChangedSomething(t *testing.T) {
	var log bytes.Buffer
	b := setup(t, func(o *dashboard.Options) {
		withNight(o)
		locked(o)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	b.fill()
	p := newPerson(t, b.url)
	csrf := p.login(t, "")
	form := url.Values{"producer": {"ada"}}.Encode()
	urlencoded := []string{"Content-Type", "application/x-www-form-urlencoded"}
	p.ask(t, "POST", "/guard/release", form, append(urlencoded, "X-CSRF-Token", csrf)...)
	newPerson(t, b.url).ask(t, "POST", "/guard/release", form, append(urlencoded, "Authorization", "Bearer "+token)...)
	who := regexp.MustCompile(`msg="login to the dashboard" who="(session [0-9a-f]{8})"`).FindStringSubmatch(log.String())
	if who == nil {
		t.Fatalf("no login in the log:\n%s", log.String())
	}
	if diff := cmp.Diff([]any{released{"ada", "the dashboard (" + who[1] + ")"}, released{"ada", "the dashboard (bearer)"}}, b.changes.did); diff != "" {
		t.Error(diff)
	}
}
