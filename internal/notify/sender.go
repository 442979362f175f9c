package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"nightshift/provider"
)

const (
	// timeout is how long a receiver may take in all. It is thought to note what
	// it hears and to work on it later, as with other senders of webhooks.
	timeout = 10 * time.Second
	// maxAnswer is how much of an answer is read: nothing in it matters, but a
	// receiver should not see its answer cut off.
	maxAnswer = 64 << 10
	// minSecret is the shortest secret, in bytes, as Standard Webhooks has it.
	minSecret = 24
)

// Options are the choices of a sender; the zero value has the defaults.
type Options struct {
	// Secret signs messages: "whsec_" and base64, or any other text as it is. Empty:
	// they are not signed.
	Secret string
	// Private allows addresses of the machine itself and of private networks.
	Private bool
	// Version is this program's.
	Version string
	// Resolver looks names up, and Roots verify certificates. Default to the machine's.
	Resolver *net.Resolver
	Roots    *x509.CertPool
	// Timeout defaults to 10 s.
	Timeout time.Duration
}

// Sender posts messages. It is safe for concurrent use and keeps no connections.
type Sender struct {
	client *http.Client
	signer *standardwebhooks.Webhook // nil: unsigned
	agent  string
}

// New returns a sender; an error is that of a secret which cannot be used, and
// does not show it.
func New(o Options) (*Sender, error) {
	signer, err := signerOf(o.Secret)
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = timeout
	}
	dialer := &net.Dialer{Resolver: o.Resolver, Control: control(guardian(o.Private))}
	return &Sender{
		signer: signer, agent: "nightshift/" + o.Version,
		client: &http.Client{
			Timeout: o.Timeout,
			// No proxy: it would be its address that is checked.
			Transport: &http.Transport{
				DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
				ForceAttemptHTTP2: true, DisableKeepAlives: true, MaxResponseHeaderBytes: maxAnswer,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func signerOf(secret string) (*standardwebhooks.Webhook, error) {
	if secret == "" {
		return nil, nil
	}
	key, encoded := strings.CutPrefix(secret, "whsec_")
	if !encoded {
		if len(secret) < minSecret {
			return nil, fmt.Errorf("the secret is shorter than %d bytes", minSecret)
		}
		return standardwebhooks.NewWebhookRaw([]byte(secret))
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, errors.New("the secret is not base64 after whsec_") // the error shows some of it
	}
	if len(strings.TrimRight(key, "="))*3/4 < minSecret {
		return nil, fmt.Errorf("the secret is shorter than %d bytes", minSecret)
	}
	return signer, nil
}

// control is called with each address that a name stands for, before it is dialled.
func control(g *ssrf.Guardian) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, c syscall.RawConn) error {
		if err := g.Safe(network, address, c); err != nil {
			host, _, _ := net.SplitHostPort(address)
			return &PrivateError{host}
		}
		return nil
	}
}

// Error is a message that was not taken.
type Error struct {
	// Gone: the receiver wants no more of them (410).
	Gone bool
	// RetryAfter is how long the receiver asks to be left alone; 0: it does not say.
	RetryAfter time.Duration
	cause      string
}

// Error says why, without the URL and without anything that was answered.
func (e *Error) Error() string { return e.cause }

// Send posts a JSON body under an ID, which is the same for every repetition. It
// returns nil once the receiver answered with a 2xx, else an *Error.
func (s *Sender) Send(ctx context.Context, to, id string, body []byte) error {
	now := time.Now()
	header := http.Header{}
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if s.signer != nil {
		signature, err := s.signer.Sign(id, now, body)
		if err != nil {
			return &Error{cause: "it cannot be signed"}
		}
		header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	_, err := s.post(ctx, to, header, body)
	return err
}

// post returns the beginning of what a receiver that took the message answered.
func (s *Sender) post(ctx context.Context, to string, header http.Header, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{cause: "it is not a URL"}
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.agent)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, &Error{cause: causeOf(err)}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer, verdict(resp, time.Now())
}

func verdict(resp *http.Response, now time.Time) error {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return &Error{cause: fmt.Sprintf("answered %d: redirects are not followed", code)}
	default:
		asked := http.Header{}
		for _, name := range []string{"Retry-After", "Date"} {
			asked[name] = resp.Header.Values(name)
		}
		return &Error{
			cause: strings.TrimSpace(fmt.Sprintf("answered %d %s", code, http.StatusText(code))),
			Gone:  code == http.StatusGone, RetryAfter: provider.ParseRetryAfter(asked, now),
		}
	}
}

// causeOf words an error of the client, which names the URL with all that is in it.
func causeOf(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if e.Timeout() {
			return "no answer in time"
		}
		err = e.Err
	}
	if errors.Is(err, context.Canceled) {
		return "this worker stopped before an answer"
	}
	if private, ok := errors.AsType[*PrivateError](err); ok {
		return private.Error()
	}
	const most = 200 // bytes; a person reads it in a table
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
