package door

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A person asks for a page, is shown the form in its place, and comes to the page.
func TestLogin_LeadsToThePage(t *testing.T) {
	r := setup(t, func(o *Options) { o.BasePath = "/night" })
	asked := r.ask("GET", "/night/batches/summaries?page=2", header("Accept", "text/html,*/*"))
	if asked.Code != http.StatusUnauthorized || !strings.Contains(asked.Body.String(), `value="/batches/summaries?page=2"`) ||
		!strings.Contains(asked.Body.String(), `action="/night/login"`) {
		t.Fatalf("status %d: %s", asked.Code, asked.Body)
	}
	if strings.Contains(asked.Body.String(), "<script") || strings.Contains(asked.Body.String(), "style=") {
		t.Error("the login needs a script or an inline style")
	}
	if script := r.ask("GET", "/night/batches"); script.Code != 401 || strings.Contains(script.Body.String(), "<form") ||
		!strings.HasPrefix(script.Header().Get("WWW-Authenticate"), "Bearer ") {
		t.Errorf("a script is answered %d, %q: %s", script.Code, script.Header(), script.Body)
	}
	if css := r.ask("GET", "/night/login.css"); css.Code != 200 || !strings.HasPrefix(css.Header().Get("Content-Type"), "text/css") {
		t.Errorf("the form's style: status %d, %s", css.Code, css.Header().Get("Content-Type"))
	}
	rec := r.ask("POST", "/night/login", form("token", " "+secret+"\n", "next", "/batches/summaries?page=2"))
	if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != "/night/batches/summaries?page=2" {
		t.Fatalf("status %d to %q", rec.Code, rec.Header().Get("Location"))
	}
	c := cookieNamed(rec, sessionCookie)
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/night/" || c.MaxAge != int(sessionLife.Seconds()) || c.Secure || c.Domain != "" {
		t.Errorf("the cookie is %+v", c)
	}
	if strings.Contains(c.Value, secret) {
		t.Error("the cookie is the token")
	}
	if page := r.ask("GET", "/night/", session(c)); page.Code != 200 {
		t.Errorf("with the cookie: status %d", page.Code)
	}
	if again := r.ask("GET", "/night/login?next=/fleet", session(c)); again.Code != 303 || again.Header().Get("Location") != "/night/fleet" {
		t.Errorf("a login of who is logged in: status %d to %q", again.Code, again.Header().Get("Location"))
	}
}

func TestLogin_CookieIsSecureOverTLS(t *testing.T) {
	for name, c := range map[string]struct {
		tls  bool
		how  with
		want bool
	}{
		"plain":                {false, header("X-None", ""), false},
		"own TLS":              {true, header("X-None", ""), true},
		"TLS of a proxy":       {false, header("X-Forwarded-Proto", "https"), true},
		"a proxy without":      {false, header("X-Forwarded-Proto", "http"), false},
		"own TLS, proxy plain": {true, header("X-Forwarded-Proto", "http"), true},
	} {
		r := setup(t, func(o *Options) { o.TLS = c.tls })
		if got := cookieNamed(r.ask("POST", "/login", form("token", secret), c.how), sessionCookie).Secure; got != c.want {
			t.Errorf("%s: Secure is %t", name, got)
		}
	}
}

// What is wrong leads nowhere, and the form says so.
func TestLogin_Refuses(t *testing.T) {
	r := setup(t, nil)
	for name, c := range map[string]struct {
		how  []with
		want int
	}{
		"wrong token":         {[]with{form("token", "a-guess")}, 401},
		"no token":            {[]with{form()}, 401},
		"token in the query":  {[]with{func(q *http.Request) { q.URL.RawQuery = "token=" + secret }, form()}, 401},
		"token as JSON":       {[]with{func(q *http.Request) { form("token", secret)(q); q.Header.Set("Content-Type", "application/json") }}, 401},
		"large form":          {[]with{form("token", secret, "next", strings.Repeat("x", maxBody))}, 400},
		"from another site":   {[]with{form("token", secret), header("Sec-Fetch-Site", "cross-site")}, 403},
		"from another origin": {[]with{form("token", secret), header("Origin", "http://evil.example")}, 403},
	} {
		rec := r.ask("POST", "/login", c.how...)
		if rec.Code != c.want || cookieNamed(rec, sessionCookie) != nil {
			t.Errorf("%s: status %d, cookies %v", name, rec.Code, rec.Result().Cookies())
		}
		if strings.Contains(rec.Body.String(), secret) || strings.Contains(rec.Body.String(), "a-guess") {
			t.Errorf("%s: the answer holds what was typed", name)
		}
	}
	if rec := r.ask("PUT", "/login", form("token", secret)); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("PUT: status %d", rec.Code)
	}
}

// A login never leads to another site.
func TestLogin_LeadsNowhereElse(t *testing.T) {
	r := setup(t, nil)
	for _, next := range []string{
		"", "https://evil.example/", "//evil.example/", "///evil.example/", `/\evil.example`, `\\evil.example`, "javascript:alert(1)", "evil", "/x\n/y", "/\t/evil.example", "http:/x", "/%zz",
	} {
		rec := r.ask("POST", "/login", form("token", secret, "next", next))
		if l := rec.Header().Get("Location"); l != "/" {
			t.Errorf("next %q leads to %q", next, l)
		}
	}
}

// A session ends with its time, with a logout, and with its token; not with the
// process.
func TestSession_Ends(t *testing.T) {
	r := setup(t, nil)
	cookie, _ := r.login(t)
	for name, c := range map[string]struct {
		change func(*Options)
		want   int
	}{
		"another process":         {nil, 200},
		"another token":           {func(o *Options) { o.Token += "2" }, 401},
		"no token any more":       {func(o *Options) { o.Addr, o.Token = "", "" }, 200},
		"later, in another":       {func(o *Options) { n := o.Now; o.Now = func() time.Time { return n().Add(sessionLife - time.Second) } }, 200},
		"after the end, in other": {func(o *Options) { n := o.Now; o.Now = func() time.Time { return n().Add(sessionLife) } }, 401},
	} {
		if got := setup(t, c.change).ask("GET", "/", session(cookie)).Code; got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
	r.pass(sessionLife - time.Second)
	if got := r.ask("GET", "/", session(cookie)).Code; got != 200 {
		t.Errorf("before its end: status %d", got)
	}
	r.pass(time.Second)
	if got := r.ask("GET", "/", session(cookie)).Code; got != 401 {
		t.Errorf("at its end: status %d", got)
	}
}

func TestLogout(t *testing.T) {
	r := setup(t, nil)
	cookie, csrf := r.login(t)
	other, _ := r.login(t)
	if got := r.ask("POST", "/logout", session(cookie)).Code; got != http.StatusForbidden {
		t.Errorf("without the token of a page: status %d", got)
	}
	if got := r.ask("GET", "/logout", session(cookie)); got.Code != 200 || len(r.took()) != 1 {
		t.Errorf("a GET logs out: status %d", got.Code)
	}
	if got := r.ask("GET", "/", session(cookie)).Code; got != 200 {
		t.Fatalf("the session ended too early: status %d", got)
	}
	rec := r.ask("POST", "/logout", session(cookie), form(Field, csrf))
	if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != "/login" || cookieNamed(rec, sessionCookie).MaxAge >= 0 {
		t.Errorf("status %d to %q, cookies %v", rec.Code, rec.Header().Get("Location"), rec.Result().Cookies())
	}
	if got := r.ask("GET", "/", session(cookie)).Code; got != 401 {
		t.Errorf("a cookie that was kept: status %d", got)
	}
	if got := r.ask("GET", "/", session(other)).Code; got != 200 {
		t.Errorf("the other session: status %d", got)
	}
	r.pass(sessionLife + time.Second)
	third, csrf := r.login(t)
	r.ask("POST", "/logout", session(third), form(Field, csrf))
	if n := len(r.door.ended.ends); n != 1 {
		t.Errorf("%d ended sessions are remembered, want the one that could still be used", n)
	}
}

// Who follows a link from another site sends no cookie, and is asked again from
// a page of ours.
func TestLogin_AfterALinkFromElsewhere(t *testing.T) {
	r := setup(t, func(o *Options) { o.BasePath = "/night" })
	navigation := []with{header("Accept", "text/html"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")}
	rec := r.ask("GET", "/night/batches/a?b=c", append(navigation, header("Sec-Fetch-Site", "cross-site"))...)
	want := "0; url=/night/login?next=" + url.QueryEscape("/batches/a?b=c")
	if rec.Code != 401 || rec.Header().Get("Refresh") != want {
		t.Errorf("status %d, Refresh %q, want %q", rec.Code, rec.Header().Get("Refresh"), want)
	}
	for name, c := range map[string]struct {
		how  []with
		want bool
	}{
		"from our own page":       {append(navigation, header("Sec-Fetch-Site", "same-origin")), false},
		"by hand":                 {append(navigation, header("Sec-Fetch-Site", "none")), false},
		"over plain HTTP":         {[]with{header("Accept", "text/html"), header("Referer", "http://chat.example/")}, true},
		"from our own, plain":     {[]with{header("Accept", "text/html"), header("Referer", "http://127.0.0.1:8080/night/")}, false},
		"nobody knows from where": {[]with{header("Accept", "text/html")}, false},
	} {
		rec := r.ask("GET", "/night/batches/a", c.how...)
		if rec.Code != 401 || (rec.Header().Get("Refresh") != "") != c.want {
			t.Errorf("%s: status %d, Refresh %q", name, rec.Code, rec.Header().Get("Refresh"))
		}
	}
}

// Where there is no token there is nothing to log in to.
func TestOpen_HasNoLogin(t *testing.T) {
	r := open(t)
	if rec := r.ask("GET", "/login"); rec.Code != 303 || rec.Header().Get("Location") != "/" {
		t.Errorf("status %d to %q", rec.Code, rec.Header().Get("Location"))
	}
	if rec := r.ask("POST", "/login", form("token", "")); rec.Code != 405 || cookieNamed(rec, sessionCookie) != nil {
		t.Errorf("POST: status %d", rec.Code)
	}
	if r.door.HasLogin() {
		t.Error("the pages offer a logout")
	}
}
