package door

import (
	"maps"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// attemptBurst wrong tokens in a row are looked at from one address, then one
	// every attemptPause.
	attemptBurst = 10
	attemptPause = 10 * time.Second
	// maxAddresses bounds what is remembered; addresses beyond share one bucket.
	maxAddresses = 4096
)

// attempts counts wrong tokens by address.
type attempts struct {
	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	rest    *rate.Limiter
}

func newAttempts() *attempts {
	return &attempts{buckets: map[string]*rate.Limiter{}, rest: newBucket()}
}

func newBucket() *rate.Limiter { return rate.NewLimiter(rate.Every(attemptPause), attemptBurst) }

// try looks at a token by ok, unless the address has tried too many wrong ones:
// then it returns how long until it may try again. Attempts are looked at one by
// one, so that many at the same time count as many.
func (a *attempts) try(addr string, now time.Time, ok func() bool) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.bucket(addr, now)
	if tokens := b.TokensAt(now); tokens < 1 {
		return max(time.Duration((1-tokens)*float64(attemptPause)), 1), false
	}
	if ok() {
		return 0, true
	}
	b.AllowN(now, 1)
	if b != a.rest {
		a.buckets[addr] = b
	}
	return 0, false
}

// bucket returns an address's bucket, a full one where it has none yet.
func (a *attempts) bucket(addr string, now time.Time) *rate.Limiter {
	if b, ok := a.buckets[addr]; ok {
		return b
	}
	if len(a.buckets) >= maxAddresses {
		maps.DeleteFunc(a.buckets, func(_ string, b *rate.Limiter) bool { return b.TokensAt(now) >= attemptBurst })
	}
	if len(a.buckets) >= maxAddresses {
		return a.rest
	}
	return newBucket()
}

// remote is the address that attempts are counted by. An IPv6 network of 64 bits
// is one: a single machine has as many addresses as it likes of it. Headers of
// proxies are not looked at, since anyone can write them.
func remote(r *http.Request) string {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := ap.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	p, _ := addr.Prefix(64)
	return p.String()
}

// try compares a token in constant time, as often as its sender may, and logs
// each wrong one. A wait above 0: it was not looked at.
func (d *Door) try(r *http.Request, by, token string) (wait time.Duration, ok bool) {
	wait, ok = d.attempts.try(remote(r), d.o.Now(), func() bool { return d.matches(token) })
	if wait == 0 && !ok {
		d.o.Logger.Warn("login to the dashboard refused", "remote", r.RemoteAddr, "by", by, "reason", "wrong token")
	}
	return wait, ok
}

// setRetryAfter rounds up, so that who comes back then is heard.
func setRetryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}
