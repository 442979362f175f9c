package door

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Options are the parts of a door.
type Options struct {
	// Addr is where the dashboard listens, "host:port"; empty: on loopback.
	Addr string
	// Token is what people log in with, of [MinToken] characters or more. Empty:
	// everyone is let in, which only a loopback address may.
	Token string
	// BasePath is the path under which the dashboard is served, e.g. /nightshift,
	// as package config lets it pass; empty: /.
	BasePath string
	// TLS says that the dashboard itself speaks TLS, so cookies are Secure.
	TLS bool
	// Public are paths, without the base path, that need no login: the style and
	// icon of the login page, nothing of the operator's.
	Public []string
	// Logger gets a line for every change. Defaults to one that discards.
	Logger *slog.Logger
	// Now defaults to time.Now.
	Now func() time.Time
}

// MinToken is the shortest token, in characters: 16 random ones of base64 are 96
// bits, which nobody guesses at the pace that attempts are allowed.
const MinToken = 16

// Door lets requests through, or not. It is safe for concurrent use.
type Door struct {
	o        Options
	keys     keys
	origins  *http.CrossOriginProtection
	attempts *attempts
	ended    *ended
	requests chan struct{} // places
	streams  chan struct{}
}

// keys sign what the door hands out.
type keys struct{ session, csrf []byte }

// New makes a door. Its errors name the key of the configuration to change, and
// never a value that could be a secret.
func New(o Options) (*Door, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := checkAccess(o.Addr, o.Token); err != nil {
		return nil, err
	}
	k, err := newKeys(o.Token)
	if err != nil {
		return nil, fmt.Errorf("derive keys of the dashboard: %w", err)
	}
	return &Door{
		o: o, keys: k, origins: http.NewCrossOriginProtection(), attempts: newAttempts(), ended: newEnded(),
		requests: make(chan struct{}, maxRequests), streams: make(chan struct{}, maxStreams),
	}, nil
}

// newKeys derives the keys from the token, or makes them up for the life of this
// process where there is none.
func newKeys(token string) (keys, error) {
	secret := []byte(token)
	if token == "" {
		secret = make([]byte, 32)
		rand.Read(secret) // never fails
	}
	session, err := hkdf.Key(sha256.New, secret, nil, "nightshift dashboard session", sha256.Size)
	csrf, err2 := hkdf.Key(sha256.New, secret, nil, "nightshift dashboard csrf", sha256.Size)
	return keys{session, csrf}, errors.Join(err, err2)
}

// Path returns a path of the dashboard as a browser asks for it: with the base
// path before it. p begins with a slash.
func (d *Door) Path(p string) string { return d.o.BasePath + p }

// HasLogin says whether there is a token, and so something to log out of.
func (d *Door) HasLogin() bool { return d.o.Token != "" }

// methods are those that are answered at all.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// safe says whether a method changes nothing.
func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// Protect puts the door before the pages. next sees paths without the base path.
func (d *Door) Protect(next http.Handler) http.Handler {
	inside := d.audited(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.setHeaders(w, r)
		if !d.HasLogin() && !fromThisMachine(r) {
			http.Error(w, notThisMachine, http.StatusForbidden)
			return
		}
		r, ok := d.strip(w, r)
		if !ok {
			return
		}
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			http.Error(w, "the dashboard has no such method", http.StatusMethodNotAllowed)
			return
		}
		leave, ok := d.enter(w, r)
		if !ok {
			return
		}
		defer leave()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		d.admit(inside, w, r)
	})
}

// admit checks where a request comes from and who sent it.
func (d *Door) admit(inside http.Handler, w http.ResponseWriter, r *http.Request) {
	if d.foreign(r) {
		d.refuse(w, r, "another origin", "the dashboard answers to its own pages only, and this request is of another site's; "+
			"a proxy in front must pass the Host header on")
		return
	}
	if d.serveLogin(w, r) {
		return
	}
	if safe(r.Method) && slices.Contains(d.o.Public, r.URL.Path) {
		inside.ServeHTTP(w, r)
		return
	}
	who, ok := d.identify(w, r)
	if !ok {
		return
	}
	if !safe(r.Method) && !d.hasToken(r, who) {
		d.refuse(w, r, "no CSRF token", "this change lacks the token of its page, or the page is of an earlier login: reload it and try again")
		return
	}
	ctx, cancel := who.context(r.Context(), d.o.Now())
	defer cancel()
	inside.ServeHTTP(w, r.WithContext(ctx))
}

// strip takes the base path off, or answers itself.
func (d *Door) strip(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	p := r.URL.Path
	if d.o.BasePath != "" && p == d.o.BasePath {
		http.Redirect(w, r, d.Path("/"), http.StatusPermanentRedirect)
		return nil, false
	}
	rest, ok := strings.CutPrefix(p, d.o.BasePath)
	// A path that is not clean would be redirected by the mux behind, which knows
	// no base path.
	if clean := path.Clean(rest); !ok || !strings.HasPrefix(rest, "/") || rest != clean && rest != clean+"/" {
		http.NotFound(w, r)
		return nil, false
	}
	if d.o.BasePath == "" {
		return r, true
	}
	out := r.Clone(r.Context())
	out.URL.Path, out.URL.RawPath = rest, strings.TrimPrefix(r.URL.RawPath, d.o.BasePath)
	return out, true
}
