package door

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// sessionCookie is the name of the cookie of a login.
	sessionCookie = "nightshift_session"
	// sessionLife is how long a login holds: a night, from evening to late morning.
	sessionLife = 16 * time.Hour
)

// visitor is who sent a request.
type visitor struct {
	name string    // for the log
	id   string    // what the CSRF token is bound to; "" needs none
	end  time.Time // zero: never
}

type visitorKey struct{}

// Who returns how the log names who sent a request: "session 1a2b3c4d", "bearer";
// "" where there is no token, since that is anybody on this machine.
func (d *Door) Who(r *http.Request) string {
	if v, _ := r.Context().Value(visitorKey{}).(visitor); d.HasLogin() {
		return v.name
	}
	return ""
}

// context holds the visitor, and ends with the session: streams too.
func (v visitor) context(ctx context.Context, now time.Time) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(ctx, visitorKey{}, v)
	if v.end.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, v.end.Sub(now))
}

// local is everyone where there is no token.
var local = visitor{name: "loopback", id: "loopback"}

// sign is the MAC of a text.
func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// session is a login: a random number and its end.
const (
	numberSize  = 16
	sessionSize = numberSize + 8
)

// newSession returns the value of a cookie that holds from now on.
func (d *Door) newSession(now time.Time) (string, visitor) {
	s := make([]byte, sessionSize)
	rand.Read(s[:numberSize]) // never fails
	end := now.Add(sessionLife)
	binary.BigEndian.PutUint64(s[numberSize:], uint64(end.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(s, sign(d.keys.session, string(s))...)), sessionVisitor(s, end)
}

// sessionVisitor names a session by a digest, which opens nothing.
func sessionVisitor(s []byte, end time.Time) visitor {
	sum := sha256.Sum256(s)
	return visitor{name: "session " + hex.EncodeToString(sum[:4]), id: "session " + string(s), end: end}
}

// session reads a cookie's value.
func (d *Door) session(value string, now time.Time) (visitor, bool) {
	all, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(all) != sessionSize+sha256.Size {
		return visitor{}, false
	}
	s, mac := all[:sessionSize], all[sessionSize:]
	if !hmac.Equal(mac, sign(d.keys.session, string(s))) {
		return visitor{}, false
	}
	end := time.Unix(int64(binary.BigEndian.Uint64(s[numberSize:])), 0)
	v := sessionVisitor(s, end)
	return v, now.Before(end) && !d.ended.has(v.id)
}

// matches compares with the token in constant time, whatever its length.
func (d *Door) matches(token string) bool {
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(d.o.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// known returns who sent a request, if that is known by its cookie or there is
// no token.
func (d *Door) known(r *http.Request) (visitor, bool) {
	if !d.HasLogin() {
		return local, true
	}
	for _, c := range r.CookiesNamed(sessionCookie) { // another port of this host may have set one too
		if v, ok := d.session(c.Value, d.o.Now()); ok {
			return v, true
		}
	}
	return visitor{}, false
}

// identify returns who sent a request, or asks for a login.
func (d *Door) identify(w http.ResponseWriter, r *http.Request) (visitor, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !d.HasLogin() || !strings.EqualFold(scheme, "Bearer") {
		v, ok := d.known(r)
		if !ok {
			d.askToLogIn(w, r)
		}
		return v, ok
	}
	switch wait, ok := d.try(r, "bearer", strings.TrimSpace(token)); {
	case wait > 0:
		setRetryAfter(w, wait)
		http.Error(w, "too many wrong tokens from this address: wait a little", http.StatusTooManyRequests)
		return visitor{}, false
	case !ok:
		unauthorized(w, "this is not the token of the dashboard")
		return visitor{}, false
	}
	return visitor{name: "bearer"}, true
}

// bearer is what a script is told of how to log in.
const bearer = `Bearer realm="nightshift"`

// unauthorized answers 401 to a script.
func unauthorized(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", bearer)
	http.Error(w, why, http.StatusUnauthorized)
}

// ended are the sessions that were logged out of before their end. Only who
// knows the token adds one, and each goes with its end.
type ended struct {
	mu   sync.Mutex
	ends map[string]time.Time
}

func newEnded() *ended { return &ended{ends: map[string]time.Time{}} }

func (e *ended) add(v visitor, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.ends, func(_ string, end time.Time) bool { return end.Before(now) })
	e.ends[v.id] = v.end
}

func (e *ended) has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.ends[id]
	return ok
}
