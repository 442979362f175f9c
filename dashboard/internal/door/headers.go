package door

import "net/http"

// Policy is the Content-Security-Policy of every answer that sets no other: only
// what this server itself sends, nothing inline, no frame around it, and forms
// that lead here.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// setHeaders sets the security headers. The pages hold what is private to the
// operator, so no cache keeps them and no other site embeds or reads them.
//
// The referrer policy is same-origin and not no-referrer: with the latter a
// browser sends "Origin: null" with our own forms, and over plain HTTP to another
// machine that is all it says of where they come from.
func (d *Door) setHeaders(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if d.secure(r) || loopbackHost(r.Host) { // elsewhere browsers ignore it, and complain
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
}
