package dashboard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// pagePolicy is the Content-Security-Policy of everything but asynqmon: only
// what this server itself sends, nothing inline, no frame around it.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard is the door that every request passes: headers first, so that refusals
// carry them too, then the host, then the method.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if !loopbackHost(r.Host) {
			http.Error(w, "this dashboard answers only to localhost and loopback addresses", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this dashboard is read-only", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// setHeaders sets the security headers. The pages hold what is private to the
// operator, so no cache keeps them and no other site embeds or reads them.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// loopbackHost says whether a Host header names this machine. A page of another
// site can make its own name resolve to 127.0.0.1 (DNS rebinding) and then read
// what we answer; the browser still sends that name.
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return loopbackName(name)
}

// loopbackName says whether a host name or IP address is this machine's own.
func loopbackName(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// CheckAddr says whether the dashboard may listen on addr, "host:port". For now
// that is a loopback address or localhost: there is no token yet that could
// keep others out.
func CheckAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("check dashboard address %q: %w", addr, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("check dashboard address %q: port %q is not a number from 0 to 65535", addr, port)
	}
	if !loopbackName(host) {
		return fmt.Errorf("check dashboard address %q: only a loopback address is allowed, as the dashboard has no login yet: "+
			"use 127.0.0.1:%s and reach it from elsewhere through a tunnel (ssh -L)", addr, port)
	}
	return nil
}
