package notify

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	const (
		fine    = "fine"
		private = "private"
		never   = "never"
	)
	for text, want := range map[string]string{
		"https://example.com/hook":                fine,
		"http://example.com:8080/h?token=1":       fine,
		"https://user:hunter2@example.com":        fine,
		"https://8.8.8.8/":                        fine,
		"https://[2606:4700::1111]/":              fine,
		"http://localhost:8080/":                  private,
		"http://LOCALHOST./":                      private,
		"http://a.localhost/":                     private,
		"http://127.0.0.1/":                       private,
		"http://127.9.9.9:1/":                     private,
		"http://10.0.0.1/":                        private,
		"http://172.31.0.1/":                      private,
		"http://192.168.1.1/":                     private,
		"http://100.64.0.1/":                      private,
		"http://[::1]/":                           private,
		"http://[fd00::1]/":                       private,
		"http://169.254.169.254/latest/meta-data": never,
		"http://[fe80::1%25eth0]/":                never,
		"http://0.0.0.0/":                         never,
		"http://[::]/":                            never,
		"http://224.0.0.1/":                       never,
		"http://255.255.255.255/":                 never,
		"http://[ff02::1]/":                       never,
		"http://[::ffff:10.0.0.1]/":               never,
		"http://[::ffff:169.254.169.254]/":        never,
		"http://[64:ff9b::10.0.0.1]/":             never,
		"http://[2002:a00:1::1]/":                 never,
		"http://[2001::1]/":                       never,
		"http://198.18.0.1/":                      never,
		"ftp://example.com/hunter2":               never,
		"example.com/hunter2":                     never,
		"https:///hunter2":                        never,
		"https:hunter2":                           never,
		"https://hunter2:%zz@x":                   never,

		"": never,

		"https://example.com/" + strings.Repeat("a", maxURL): never,
	} {
		closed, open := CheckURL(text, false), CheckURL(text, true)
		_, helps := errors.AsType[*PrivateError](closed)
		if (closed == nil) != (want == fine) || (open == nil) != (want != never) || helps != (want == private) {
			t.Errorf("%s: %v, and where private ones are allowed %v; want %s", text, closed, open, want)
		}
		for _, err := range []error{closed, open} {
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// names is a real DNS server that answers every name with one address, and a
// resolver that asks it.
func names(t *testing.T, addr string) *net.Resolver {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := resolve(buf[:n], netip.MustParseAddr(addr)); reply != nil {
				_, _ = c.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	d := &net.Dialer{Timeout: 5 * time.Second}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "udp", c.LocalAddr().String())
	}}
}

// resolve answers a question with the address, where it is of its kind.
func resolve(query []byte, addr netip.Addr) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
	switch {
	case q.Type == dnsmessage.TypeA && addr.Is4():
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}}}
	case q.Type == dnsmessage.TypeAAAA && addr.Is6():
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

// A name that looks like anybody's and stands for an address within.
func TestSend_NamesOfPrivateAddresses(t *testing.T) {
	t.Parallel()
	s, got := receiver(t, status(http.StatusOK))
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	to := "http://hooks.example.com:" + port
	for _, addr := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.3.4", "0.0.0.0", "::1", "fd00::1", "64:ff9b::7f00:1", "::ffff:127.0.0.1"} {
		err := sender(t, Options{Resolver: names(t, addr)}).Send(t.Context(), to, "m", nil)
		if !strings.Contains(refusal(t, err).Error(), "is not an address of the Internet") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if len(got) != 0 {
		t.Fatalf("%d messages went there", len(got))
	}
	if err := sender(t, Options{Resolver: names(t, "127.0.0.1"), Private: true}).Send(t.Context(), to, "m", nil); err != nil {
		t.Errorf("where private ones are allowed: %v", err)
	}
	err := sender(t, Options{Resolver: names(t, "169.254.169.254"), Private: true}).Send(t.Context(), to, "m", nil)
	if !strings.Contains(refusal(t, err).Error(), "169.254.169.254 is not") {
		t.Errorf("the machine's metadata: %v", err)
	}
}

// A redirect to an address within is one like all others: nobody goes there.
func TestSend_ARedirectWithin(t *testing.T) {
	t.Parallel()
	within, got := receiver(t, status(http.StatusOK))
	for _, code := range []int{301, 302, 303, 307, 308} {
		s, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, within.URL, code) })
		refusal(t, sender(t, Options{Private: true}).Send(t.Context(), s.URL, "m", []byte(body)))
	}
	if len(got) != 0 {
		t.Errorf("%d requests", len(got))
	}
}
