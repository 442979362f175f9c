package door

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Wrong tokens are looked at ten times, then one every ten seconds; who has a
// session is not kept out by that.
func TestAttempts_AreLimited(t *testing.T) {
	for name, wrong := range map[string]func(r *rig, how ...with) int{
		"form": func(r *rig, how ...with) int {
			return r.ask("POST", "/login", append(how, form("token", "wrong"))...).Code
		},
		"bearer": func(r *rig, how ...with) int { return r.ask("GET", "/", append(how, bearing("wrong"))...).Code },
	} {
		r := setup(t, nil)
		cookie, _ := r.login(t)
		attacker := from("203.0.113.9:1000")
		for i := range attemptBurst {
			if got := wrong(r, attacker); got != http.StatusUnauthorized {
				t.Fatalf("%s: attempt %d: status %d", name, i, got)
			}
		}
		rec := r.ask("POST", "/login", form("token", secret), from("203.0.113.9:2000"))
		if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") != "10" || cookieNamed(rec, sessionCookie) != nil {
			t.Errorf("%s: the right token from there: status %d, Retry-After %q", name, rec.Code, rec.Header().Get("Retry-After"))
		}
		if rec := r.ask("GET", "/", bearing(secret), attacker); rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") != "10" {
			t.Errorf("%s: the right bearer from there: status %d", name, rec.Code)
		}
		if rec := r.ask("GET", "/", session(cookie), attacker); rec.Code != http.StatusOK {
			t.Errorf("%s: a session from there: status %d", name, rec.Code)
		}
		if rec := r.ask("GET", "/", bearing(secret), from("203.0.113.10:1")); rec.Code != http.StatusOK {
			t.Errorf("%s: from another address: status %d", name, rec.Code)
		}
		r.pass(attemptPause - time.Second)
		if rec := r.ask("GET", "/", bearing(secret), attacker); rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: just before: status %d, Retry-After %q", name, rec.Code, rec.Header().Get("Retry-After"))
		}
		r.pass(time.Second)
		if got := wrong(r, attacker); got != http.StatusUnauthorized {
			t.Errorf("%s: after the pause: status %d", name, got)
		}
		if got := wrong(r, attacker); got != http.StatusTooManyRequests {
			t.Errorf("%s: one more: status %d", name, got)
		}
		r.pass(attemptPause)
		for range 3 { // the right one costs nothing
			if rec := r.ask("GET", "/", bearing(secret), attacker); rec.Code != http.StatusOK {
				t.Errorf("%s: the right token after the pause: status %d", name, rec.Code)
			}
		}
	}
}

// A machine has many IPv6 addresses; they are one.
func TestAttempts_CountNetworks(t *testing.T) {
	r := setup(t, nil)
	for i := range attemptBurst {
		r.ask("GET", "/", bearing("wrong"), from(fmt.Sprintf("[2001:db8::%x]:1", i+1)))
	}
	for addr, want := range map[string]int{"[2001:db8::ffff]:9": 429, "[2001:db8:0:1::1]:9": 200, "[::ffff:192.0.2.1]:1": 200} {
		if got := r.ask("GET", "/", bearing(secret), from(addr)).Code; got != want {
			t.Errorf("%s: status %d, want %d", addr, got, want)
		}
	}
}

// Many attempts at the same time are as many.
func TestAttempts_AtOnce(t *testing.T) {
	r := setup(t, nil)
	var looked atomic.Int64
	var wg sync.WaitGroup
	for range 5 * attemptBurst {
		wg.Go(func() {
			if r.ask("GET", "/", bearing("wrong"), from("203.0.113.9:1")).Code == http.StatusUnauthorized {
				looked.Add(1)
			}
		})
	}
	wg.Wait()
	if n := looked.Load(); n != attemptBurst {
		t.Errorf("%d were looked at, want %d", n, attemptBurst)
	}
}

// What is remembered is bounded; beyond it addresses share what they may try, and
// those that stopped make place.
func TestAttempts_RememberABoundedNumber(t *testing.T) {
	a, now := newAttempts(), time.Date(2026, 10, 5, 23, 10, 0, 0, time.UTC)
	no := func() bool { return false }
	for i := range maxAddresses {
		a.try(strconv.Itoa(i), now, no)
	}
	for i := range attemptBurst {
		if wait, _ := a.try("more "+strconv.Itoa(i), now, no); wait != 0 {
			t.Errorf("the %dth beyond the bound waits %s", i, wait)
		}
	}
	if wait, _ := a.try("one more", now, no); wait != attemptPause {
		t.Errorf("one more waits %s, want %s", wait, attemptPause)
	}
	if len(a.buckets) != maxAddresses {
		t.Errorf("%d addresses are remembered, want %d", len(a.buckets), maxAddresses)
	}
	now = now.Add(attemptPause)
	if _, ok := a.try("later", now, no); ok || len(a.buckets) != 1 {
		t.Errorf("%d addresses are remembered when all may try again, want the last", len(a.buckets))
	}
}
