package door

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority makes certificates in files.
type authority struct {
	cert, key string // the files
	pool      *x509.CertPool
	serial    int64
}

func newAuthority(t *testing.T) *authority {
	dir := t.TempDir()
	return &authority{cert: filepath.Join(dir, "own.crt"), key: filepath.Join(dir, "own.key"), pool: x509.NewCertPool()}
}

// pair is a new self-signed certificate for 127.0.0.1 that clients trust.
func (a *authority) pair(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "nightshift"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.pool.AppendCertsFromPEM(cert)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// write puts a text into a file, at a time of its own: clocks of file systems can
// be coarse.
func (a *authority) write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	a.serial++
	at := time.Now().Add(time.Duration(a.serial) * time.Second)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

// shown is the serial number of the certificate that a handshake shows.
func shown(t *testing.T, c *Certificate, pool *x509.CertPool) int64 {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := l.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(); <-done }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// A renewed certificate is used without a restart; while only one of its files is
// there, and where it is no certificate, the one before stays.
func TestCertificate_IsReadAnew(t *testing.T) {
	a := newAuthority(t)
	r := &rig{now: time.Now()}
	cert, key := a.pair(t)
	first := a.serial
	a.write(t, a.cert, cert)
	a.write(t, a.key, key)
	c, err := LoadCertificate(a.cert, a.key, r.clock, slog.New(slog.NewJSONHandler(r, nil)))
	if err != nil {
		t.Fatal(err)
	}
	want := func(step string, serial int64, lines int) {
		t.Helper()
		if got := shown(t, c, a.pool); got != serial {
			t.Errorf("%s: certificate %d is shown, want %d", step, got, serial)
		}
		if got := r.logged(t); len(got) != lines {
			t.Errorf("%s: logged %v, want %d lines", step, got, lines)
		}
	}
	want("at first", first, 0)
	cert, key = a.pair(t)
	second := a.serial
	a.write(t, a.cert, cert)
	want("at once", first, 0) // the files are not looked at for every handshake
	r.pass(certificateLook)
	want("its first file", first, 1)
	r.pass(certificateLook)
	want("still", first, 0) // said once
	a.write(t, a.key, key)
	r.pass(certificateLook)
	want("both files", second, 1)
	a.write(t, a.cert, []byte("no certificate"))
	r.pass(certificateLook)
	want("no certificate", second, 1)
	if err := os.Remove(a.key); err != nil {
		t.Fatal(err)
	}
	r.pass(certificateLook)
	want("no key", second, 1)
	r.pass(certificateLook)
	want("still no key", second, 0)
	cert, key = a.pair(t)
	third := a.serial
	a.write(t, a.cert, cert)
	a.write(t, a.key, key)
	r.pass(certificateLook)
	want("a third", third, 1)
}

// What cannot be served with refuses to start, and names the key and the file.
func TestLoadCertificate_Refuses(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.pair(t)
	_, other := a.pair(t)
	for name, c := range map[string]struct{ cert, key []byte }{
		"no files":          {nil, nil},
		"no key":            {cert, nil},
		"another key":       {cert, other},
		"the files swapped": {key, cert},
		"nothing in them":   {[]byte{}, []byte{}},
	} {
		dir := t.TempDir()
		files := []string{filepath.Join(dir, "own.crt"), filepath.Join(dir, "own.key")}
		for i, text := range [][]byte{c.cert, c.key} {
			if text != nil {
				a.write(t, files[i], text)
			}
		}
		_, err := LoadCertificate(files[0], files[1], time.Now, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "dashboard.tls") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v", name, err)
		}
		if err != nil && bytes.Contains([]byte(err.Error()), []byte("PRIVATE KEY")) {
			t.Errorf("%s: the error holds the key", name)
		}
	}
}
