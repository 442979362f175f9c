package config

import (
	"net"
	"net/netip"
	urlpath "path"
	"regexp"
	"strings"
)

// dashboard checks where the dashboard and the metrics listen, and who may see
// the dashboard. Whether the variable of its token is set is found out by who
// serves it: most processes of a fleet do not.
func (c *checker) dashboard() {
	d, p := c.cfg.Dashboard, path{"dashboard"}
	c.address(path{"metrics", "addr"}, c.cfg.Metrics.Addr)
	if c.address(p.child("addr"), d.Addr) {
		c.reachable(p, d)
	}
	if d.TokenEnv != "" && !envName.MatchString(d.TokenEnv) {
		c.report(p.child("token_env"), "no environment variable has this name", "write the name of a variable, not the token itself")
	}
	if d.BasePath != "" && (!basePath.MatchString(d.BasePath) || urlpath.Clean(d.BasePath) != d.BasePath) {
		c.report(p.child("base_path"), quoted(d.BasePath)+" is not a path", "write it as in /nightshift, without a slash at its end, or leave it out")
	}
	if both := p.child("tls"); (d.TLS.CertFile == "") != (d.TLS.KeyFile == "") {
		c.report(both, "a certificate and its key go together", "name both cert_file and key_file")
	}
}

// reachable checks an address by whom it lets in.
func (c *checker) reachable(p path, d Dashboard) {
	at := p.child("addr")
	if host, port, _ := net.SplitHostPort(d.Addr); !Loopback(host) && d.TokenEnv == "" && !c.problems.under(p.child("token_env").String()) {
		c.report(at, "others can reach this address, and dashboard.token_env names no token", "name one, or write 127.0.0.1:"+port)
	}
	if d.Addr == c.cfg.Metrics.Addr && !strings.HasSuffix(d.Addr, ":0") {
		c.report(at, "dashboard and metrics cannot share an address", "give one of them another port")
	}
}

// basePath is a path of plain segments.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// Loopback says whether a host name or IP address is the machine's own.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}
