package notify

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"code.dny.dev/ssrf"
)

// maxURL is the longest URL that is taken, in bytes; servers take about as much.
const maxURL = 2048

// ours are the addresses of one's own machine and networks, which allowing
// private ones opens. Link-local addresses stay closed: the metadata of a cloud's
// machine, its keys among them, are served there.
var ours = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), // loopback
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"), // RFC 1918
	netip.MustParsePrefix("100.64.0.0/10"), // carriers' NAT, RFC 6598
	netip.MustParsePrefix("fc00::/7"),      // unique local, RFC 4193
}

// guardian decides which addresses may be dialled. Without private ones it is the
// Internet's alone: no address of IANA's special-purpose registries, which are
// loopback, private and link-local ones and the like, and of IPv6 global unicast
// only, so that no IPv4 address comes in disguise (mapped, NAT64, 6to4, Teredo).
func guardian(private bool) *ssrf.Guardian {
	opts := []ssrf.Option{ssrf.WithAnyPort()}
	if private {
		opts = append(opts, ssrf.WithAllowedV4Prefixes(ours...), ssrf.WithAllowedV6Prefixes(ours...))
	}
	return ssrf.New(opts...)
}

// PrivateError is an address that is not the Internet's.
type PrivateError struct{ Addr string }

// Error names the address.
func (e *PrivateError) Error() string { return e.Addr + " is not an address of the Internet" }

// CheckURL says what is wrong with a URL as far as it shows, or returns nil. A
// name is looked up only when the message is sent. An error is a *PrivateError
// where allowing private addresses would help; it shows neither user nor query.
func CheckURL(text string, private bool) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return fmt.Errorf("it is longer than %d bytes", maxURL)
	case err != nil:
		return errors.New("it is not a URL") // the error repeats it
	case u.Scheme != "http" && u.Scheme != "https", u.Opaque != "":
		return errors.New("it does not begin with https:// or http://")
	case u.Hostname() == "":
		return errors.New("it names no host")
	}
	return checkHost(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), private)
}

func checkHost(host string, private bool) error {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		if !private && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
			return &PrivateError{host}
		}
		return nil
	}
	addr = addr.WithZone("")
	switch {
	case guardian(private).SafeAddr(addr) == nil:
		return nil
	case !private && guardian(true).SafeAddr(addr) == nil:
		return &PrivateError{host}
	}
	return fmt.Errorf("nothing is sent to the address %s", host)
}
