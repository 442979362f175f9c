package door

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateLook is how often at most the files of a certificate are looked at:
// once for all handshakes of that time.
const certificateLook = 2 * time.Second

// Certificate is a pair of PEM files that is read again when one of them changes,
// so that a renewed one is used without a restart. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	now               func() time.Time
	log               *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	stamp  stamp     // of the pair, or of the last one that could not be read
	looked time.Time // at the files
	said   string    // the last problem with them
}

// stamp tells versions of the two files apart.
type stamp struct {
	cert, key         time.Time
	certSize, keySize int64
}

// LoadCertificate reads the files. Its errors name them by their keys in the
// configuration.
func LoadCertificate(certFile, keyFile string, now func() time.Time, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, now: now, log: log}
	s, err := c.stat()
	if err != nil {
		return nil, fmt.Errorf("load certificate of dashboard.tls: %w", err)
	}
	if err := c.load(s); err != nil {
		return nil, err
	}
	c.looked = now()
	return c, nil
}

// Config returns what an HTTP server speaks TLS with.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
}

// current returns the newest pair that could be read. While a renewal has
// written only one of the files, they do not fit: the old pair stays until they do.
func (c *Certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.looked).Abs() < certificateLook {
		return c.pair
	}
	c.looked = now
	s, err := c.stat()
	if err == nil && s == c.stamp {
		return c.pair
	}
	if err == nil {
		err = c.load(s)
	}
	if err != nil {
		if problem := err.Error(); problem != c.said {
			c.said = problem
			c.log.Warn("certificate of the dashboard cannot be read anew; the one before stays", "error", err)
		}
		return c.pair
	}
	c.said = ""
	c.log.Info("certificate of the dashboard read anew", "not_after", c.pair.Leaf.NotAfter)
	return c.pair
}

// load reads a version of the files. One that cannot be read is not tried again
// until it changes.
func (c *Certificate) load(s stamp) error {
	c.stamp = s
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("load certificate of dashboard.tls: cert_file %s, key_file %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair = &pair
	return nil
}

func (c *Certificate) stat() (stamp, error) {
	cert, err := os.Stat(c.certFile)
	key, err2 := os.Stat(c.keyFile)
	if err := errors.Join(err, err2); err != nil {
		return stamp{}, err
	}
	return stamp{cert.ModTime(), key.ModTime(), cert.Size(), key.Size()}, nil
}
