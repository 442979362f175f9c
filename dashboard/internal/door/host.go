package door

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"nightshift/config"
)

// checkAddr says whether addr is an address to listen on, "host:port".
func checkAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("check dashboard address %q: %w", addr, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("check dashboard address %q: port %q is not a number from 0 to 65535", addr, port)
	}
	return nil
}

// checkAccess says whether a token is good enough for an address.
func checkAccess(addr, token string) error {
	if addr != "" {
		if err := checkAddr(addr); err != nil {
			return err
		}
	}
	if token == "" {
		if host, port, _ := net.SplitHostPort(addr); addr != "" && !config.Loopback(host) {
			return fmt.Errorf("check dashboard address %q: others could reach it and there is no token: name a variable that holds one "+
				"in dashboard.token_env, or write 127.0.0.1:%s and reach it through a tunnel (ssh -L)", addr, port)
		}
		return nil
	}
	if utf8.RuneCountInString(strings.TrimSpace(token)) < MinToken {
		return fmt.Errorf("the token that dashboard.token_env names has fewer than %d characters; this makes one: openssl rand -base64 24", MinToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("the token that dashboard.token_env names holds a control character; this makes one: openssl rand -base64 24")
	}
	return nil
}

// notThisMachine is said to requests that fromThisMachine turns away.
const notThisMachine = "without a token (dashboard.token_env) the dashboard answers this machine only: by localhost or a loopback address, " +
	"and to no proxy that asks for another"

// fromThisMachine says whether a request is of this machine, as far as it says.
// A page of another site can make its own name resolve to 127.0.0.1 (DNS
// rebinding) and then read what we answer; the browser still sends that name. A
// proxy on this machine may let others in, and most proxies say for whom they ask.
func fromThisMachine(r *http.Request) bool {
	if !loopbackHost(r.Host) {
		return false
	}
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip"} {
		for _, line := range r.Header.Values(name) {
			for client := range strings.SplitSeq(line, ",") {
				if !loopbackHost(strings.TrimSpace(client)) {
					return false
				}
			}
		}
	}
	for _, host := range r.Header.Values("X-Forwarded-Host") {
		if !loopbackHost(host) {
			return false
		}
	}
	return len(r.Header.Values("Forwarded")) == 0 // RFC 7239: not read, so not trusted
}

// loopbackHost says whether a Host header names this machine.
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	return config.Loopback(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
}
