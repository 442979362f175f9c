package door

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

//go:embed login.html login.css
var files embed.FS

var loginPage = template.Must(template.ParseFS(files, "login.html"))

// loginView is what login.html shows.
type loginView struct {
	Action, Style, Icon string
	Next                string // where to go afterwards, without the base path
	Wrong               string // "" at first
}

// serveLogin serves what leads to a login and out of it, and says whether that was it.
func (d *Door) serveLogin(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.URL.Path == "/login":
		d.login(w, r)
	case r.URL.Path == "/logout" && r.Method == http.MethodPost:
		d.logout(w, r)
	case !safe(r.Method):
		return false
	case r.URL.Path == "/login.css":
		http.ServeFileFS(w, r, files, "login.css")
	default:
		return false
	}
	return true
}

// login shows the form, or takes it.
func (d *Door) login(w http.ResponseWriter, r *http.Request) {
	if safe(r.Method) {
		next := localPath(r.URL.Query().Get("next"))
		if _, ok := d.known(r); ok {
			http.Redirect(w, r, d.Path(next), http.StatusSeeOther)
			return
		}
		d.showLogin(w, http.StatusOK, loginView{Next: next})
		return
	}
	if r.Method != http.MethodPost || !d.HasLogin() {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "there is nothing to log in to this way", http.StatusMethodNotAllowed)
		return
	}
	d.takeLogin(w, r)
}

// takeLogin compares the token of the form.
func (d *Door) takeLogin(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the login takes a small form", http.StatusBadRequest)
		return
	}
	next := localPath(r.PostForm.Get("next"))
	switch wait, ok := d.try(r, "form", strings.TrimSpace(r.PostForm.Get("token"))); {
	case wait > 0:
		setRetryAfter(w, wait)
		d.showLogin(w, http.StatusTooManyRequests, loginView{Next: next, Wrong: "Too many wrong tokens from this address: wait a little."})
		return
	case !ok:
		d.showLogin(w, http.StatusUnauthorized, loginView{Next: next, Wrong: "This is not the token."})
		return
	}
	value, who := d.newSession(d.o.Now())
	d.o.Logger.Info("login to the dashboard", "who", who.name, "remote", r.RemoteAddr)
	http.SetCookie(w, d.cookie(r, value, int(sessionLife.Seconds())))
	http.Redirect(w, r, d.Path(next), http.StatusSeeOther)
}

// logout ends a session. It takes the CSRF token as any change does.
func (d *Door) logout(w http.ResponseWriter, r *http.Request) {
	who, ok := d.known(r)
	if ok && !d.hasToken(r, who) {
		d.refuse(w, r, "no CSRF token", "reload the page and try again")
		return
	}
	if ok && d.HasLogin() {
		d.ended.add(who, d.o.Now())
		d.o.Logger.Info("logout of the dashboard", "who", who.name, "remote", r.RemoteAddr)
	}
	http.SetCookie(w, d.cookie(r, "", -1))
	http.Redirect(w, r, d.Path("/login"), http.StatusSeeOther)
}

// cookie carries a session; with an age below 0 it takes it away.
func (d *Door) cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: value, Path: d.Path("/"), MaxAge: age,
		HttpOnly: true, Secure: d.secure(r), SameSite: http.SameSiteStrictMode,
	}
}

// askToLogIn answers who is not known: a person with the form, in place, a
// script with a sentence.
func (d *Door) askToLogIn(w http.ResponseWriter, r *http.Request) {
	if !safe(r.Method) || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		unauthorized(w, "log in first, or send the token: Authorization: Bearer TOKEN")
		return
	}
	next := localPath(r.URL.RequestURI())
	if fromElsewhere(r) {
		// Who follows a link from elsewhere sends no SameSite=Strict cookie, and may
		// well be logged in: asked from this page, the browser does send it.
		w.Header().Set("Refresh", "0; url="+d.Path("/login")+"?"+url.Values{"next": {next}}.Encode())
	}
	w.Header().Set("WWW-Authenticate", bearer)
	d.showLogin(w, http.StatusUnauthorized, loginView{Next: next})
}

// fromElsewhere says whether a page of another origin led here. Over plain HTTP
// browsers tell by the Referer alone, and by that not always.
func fromElsewhere(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "cross-site" || site == "same-site"
	}
	u, err := url.Parse(r.Referer())
	return err == nil && u.Host != "" && u.Host != r.Host
}

func (d *Door) showLogin(w http.ResponseWriter, status int, v loginView) {
	v.Action, v.Style, v.Icon = d.Path("/login"), d.Path("/login.css"), d.Path("/static/icon.svg")
	var out bytes.Buffer
	if err := loginPage.Execute(&out, v); err != nil {
		d.o.Logger.Error("render login of the dashboard", "error", err)
		http.Error(w, "the login cannot be rendered; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // the reader went away: nothing to be done
}

// localPath returns a path of ours to go to, "/" for whatever else it is given:
// a form of another site must not lead on to it.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}
