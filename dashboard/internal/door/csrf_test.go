package door

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// changing are requests that change something, of each kind that there is.
var changing = [][2]string{
	{"POST", "/breakers/force"},
	{"POST", "/queues/api/queues/overnight:pause"},
	{"DELETE", "/queues/api/queues/overnight/pending_tasks:delete_all"},
	{"PUT", "/x"},
	{"PATCH", "/x"},
}

// try sends every changing request and wants them all answered so.
func (r *rig) try(t *testing.T, name string, want int, how ...with) {
	t.Helper()
	for _, c := range changing {
		rec := r.ask(c[0], c[1], how...)
		if rec.Code != want {
			t.Errorf("%s: %s %s: status %d, want %d: %s", name, c[0], c[1], rec.Code, want, rec.Body)
		}
	}
	if did := r.took(); (want == http.StatusOK) != (len(did) == len(changing)) {
		t.Errorf("%s: the pages were asked %q", name, did)
	}
}

// A change of a session needs the token of the session, and nothing else will do.
func TestChange_NeedsTheTokenOfItsSession(t *testing.T) {
	r := setup(t, nil)
	cookie, csrf := r.login(t)
	_, others := r.login(t)
	if csrf == others {
		t.Fatal("two sessions have the same token")
	}
	r.try(t, "header", 200, session(cookie), header(Header, csrf))
	r.try(t, "header of axios", 200, session(cookie), header("X-XSRF-TOKEN", csrf))
	for name, how := range map[string]with{
		"no token":            header("X-None", ""),
		"another session's":   header(Header, others),
		"another's, by axios": header("X-XSRF-TOKEN", others),
		"a part of it":        header(Header, csrf[:len(csrf)-1]),
		"the login token":     header(Header, secret),
		"its cookie alone":    session(&http.Cookie{Name: axiosCookie, Value: csrf}),
		"in the query":        func(q *http.Request) { q.URL.RawQuery = Field + "=" + csrf },
		"in JSON":             func(q *http.Request) { form(Field, csrf)(q); q.Header.Set("Content-Type", "application/json") },
		"as text":             func(q *http.Request) { form(Field, csrf)(q); q.Header.Set("Content-Type", "text/plain") },
	} {
		r.try(t, name, http.StatusForbidden, session(cookie), how)
	}
	// Of a form: net/http reads the bodies of POST, PUT and PATCH.
	for _, method := range []string{"POST", "PUT", "PATCH"} {
		if rec := r.ask(method, "/x", session(cookie), form(Field, csrf)); rec.Code != 200 {
			t.Errorf("%s of a form: status %d", method, rec.Code)
		}
		if rec := r.ask(method, "/x", session(cookie), form(Field, others)); rec.Code != 403 {
			t.Errorf("%s of a form with another's: status %d", method, rec.Code)
		}
	}
	// Reading needs none.
	if rec := r.ask("GET", "/", session(cookie)); rec.Code != 200 {
		t.Errorf("reading: status %d", rec.Code)
	}
}

// Without a login it is the process's, and just as needed.
func TestChange_NeedsATokenWithoutALogin(t *testing.T) {
	r := open(t)
	csrf := r.ask("GET", "/").Body.String()
	r.took()
	r.try(t, "header", 200, header(Header, csrf))
	r.try(t, "no token", http.StatusForbidden)
	r.try(t, "another process's", http.StatusForbidden, header(Header, open(t).ask("GET", "/").Body.String()))
}

// A script sends the token itself, which no browser does for another site.
func TestChange_OfAScript(t *testing.T) {
	r := setup(t, nil)
	r.try(t, "bearer", 200, bearing(secret))
	if page := r.ask("GET", "/", bearing(secret)); page.Body.String() != "" {
		t.Errorf("a script is given the token %q", page.Body)
	}
	r.took()
	cookie, csrf := r.login(t)
	r.try(t, "wrong bearer beside a session", http.StatusUnauthorized, bearing("wrong"), session(cookie), header(Header, csrf), from("192.0.2.9:1"))
}

// A request of another origin changes nothing, even with every secret in it.
func TestForeign_ChangesNothing(t *testing.T) {
	r := setup(t, nil)
	cookie, csrf := r.login(t)
	all := []with{session(cookie), header(Header, csrf)}
	for name, how := range map[string]with{
		"another site":              header("Sec-Fetch-Site", "cross-site"),
		"another host of the site":  header("Sec-Fetch-Site", "same-site"),
		"an origin":                 header("Origin", "https://evil.example"),
		"an origin by another port": header("Origin", "http://127.0.0.1:9999"),
		"no origin to speak of":     header("Origin", "null"),
		"site says no, origin says yes": func(q *http.Request) {
			q.Header.Set("Sec-Fetch-Site", "cross-site")
			q.Header.Set("Origin", "http://127.0.0.1:8080")
		},
		"a form of another site": func(q *http.Request) {
			q.Header.Set("Sec-Fetch-Site", "cross-site")
			q.Header.Set("Sec-Fetch-Mode", "navigate")
			q.Header.Set("Sec-Fetch-Dest", "document")
		},
	} {
		r.try(t, name, http.StatusForbidden, append(slices.Clone(all), how)...)
		r.try(t, name+", bearer", http.StatusForbidden, bearing(secret), how)
	}
	for name, how := range map[string]with{
		"the same origin": header("Sec-Fetch-Site", "same-origin"),
		"by hand":         header("Sec-Fetch-Site", "none"),
		"its own origin":  header("Origin", "http://127.0.0.1:8080"),
	} {
		r.try(t, name, 200, append(slices.Clone(all), how)...)
	}
}

// Nor is anything read for a page of another origin, but a link leads here.
func TestForeign_ReadsNothing(t *testing.T) {
	r := open(t)
	link := []with{header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")}
	if rec := r.ask("GET", "/batches", link...); rec.Code != 200 {
		t.Errorf("a link: status %d", rec.Code)
	}
	r.took()
	for name, how := range map[string][]with{
		"fetch":  {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "cors"), header("Origin", "http://evil.example")},
		"script": {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "script")},
		"frame":  {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "iframe")},
		"old":    {header("Origin", "http://evil.example")},
	} {
		if rec := r.ask("GET", "/batches", how...); rec.Code != http.StatusForbidden || len(r.took()) != 0 {
			t.Errorf("%s: status %d", name, rec.Code)
		}
	}
}

// The cookie for asynqmon's pages holds the token of the session, where they read it.
func TestGiveToken(t *testing.T) {
	r := setup(t, func(o *Options) { o.BasePath = "/night" })
	cookie, csrf := r.login(t)
	r.handler = r.door.Protect(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.door.GiveToken(w, q, "/queues") }))
	c := cookieNamed(r.ask("GET", "/night/queues/", session(cookie), header("X-Forwarded-Proto", "https")), axiosCookie)
	if c == nil || c.Value != csrf || c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/night/queues" {
		t.Errorf("the cookie is %+v", c)
	}
	if c := cookieNamed(r.ask("GET", "/night/queues/", bearing(secret)), axiosCookie); c != nil {
		t.Errorf("a script is given %+v", c)
	}
	if strings.ContainsAny(csrf, " ;,%\"\\") {
		t.Errorf("the token %q would be changed on its way", csrf)
	}
}
