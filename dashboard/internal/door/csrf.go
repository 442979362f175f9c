package door

import (
	"crypto/subtle"
	"encoding/base64"
	"mime"
	"net/http"
)

// Field is the form field of the token, and Header its header.
const (
	Field  = "csrf"
	Header = "X-CSRF-Token"
)

// axiosCookie and axiosHeader are the names by which axios, with which
// asynqmon's pages ask, carries a token from a cookie into a header by itself.
const (
	axiosCookie = "XSRF-TOKEN"
	axiosHeader = "X-XSRF-TOKEN"
)

// Token returns the CSRF token of whoever sent a request, for the forms of the
// page that answers it. It is of the session, so a page's holds as long.
func (d *Door) Token(r *http.Request) string {
	v, ok := r.Context().Value(visitorKey{}).(visitor)
	if !ok || v.id == "" {
		return ""
	}
	return d.token(v)
}

func (d *Door) token(v visitor) string {
	return base64.RawURLEncoding.EncodeToString(sign(d.keys.csrf, v.id))
}

// hasToken says whether a change brings the CSRF token that it needs.
func (d *Door) hasToken(r *http.Request, v visitor) bool {
	if v.id == "" { // bearer
		return true
	}
	got := r.Header.Get(Header)
	if got == "" {
		got = r.Header.Get(axiosHeader)
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); got == "" && kind == "application/x-www-form-urlencoded" {
		got = r.PostFormValue(Field)
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(d.token(v))) == 1
}

// GiveToken sets the CSRF token as the cookie from which asynqmon's pages, below
// path, carry it into a header: its scripts know nothing of a token in the page.
// A script of another origin can neither read the cookie nor set the header, and
// what counts is the header.
func (d *Door) GiveToken(w http.ResponseWriter, r *http.Request, path string) {
	if token := d.Token(r); token != "" {
		http.SetCookie(w, &http.Cookie{
			Name: axiosCookie, Value: token, Path: d.Path(path), Secure: d.secure(r), SameSite: http.SameSiteStrictMode,
		})
	}
}

// foreign says whether a page of another origin sent a request. Links from
// elsewhere may lead here: they change nothing, and the other page cannot read
// the answer.
func (d *Door) foreign(r *http.Request) bool {
	if safe(r.Method) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return false
	}
	as := *r
	as.Method = http.MethodPost // what is read is held to the same rule as what is changed
	return d.origins.Check(&as) != nil
}

// secure says whether the browser speaks TLS, with us or with a proxy in front.
// A client that lies in that header gets a cookie of less use to itself.
func (d *Door) secure(r *http.Request) bool {
	return d.o.TLS || r.Header.Get("X-Forwarded-Proto") == "https"
}
