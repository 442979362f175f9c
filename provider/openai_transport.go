package provider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// idleConns is how many connections to one host are kept between calls. Go's
// default of 2 makes a fleet with 50 slots a worker dial for nearly every call.
const idleConns = 1024

// newHTTPClient returns a client that follows no redirect: a POST that is sent
// on would carry the key and the prompt to a host that nobody configured.
func newHTTPClient(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idleConns,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		// Calls are silent for minutes; a ping tells a slow model from a dead
		// connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

var errTooLarge = errors.New("the response is larger than the limit")

// maxErrorBody is how much of an error's body is read; the rest is cut off.
const maxErrorBody = 1 << 20

// family is how the responses of an API family are read.
type family struct {
	// join puts the events of a stream together; nil: it is never streamed.
	join func(x *exchange, s *events) (reading, error)
	// read makes an answer or a classified error of a response that came whole.
	read func(status int, h http.Header, body []byte, now time.Time) (Answer, *Error)
	// refuse is the classified error of a response that says no.
	refuse func(status int, h http.Header, body []byte, u Usage, now time.Time) *Error
}

// exchange is one request and its response, read to the end.
type exchange struct {
	idempotencyKey string
	key            string // of the API; "" sends none
	maxBody        int64
	watch          *watch
	streamed       bool // a stream is asked for
	choices        int  // so are so many choices
	family         family

	response *http.Response // nil where none came
	reading
	err error // why the body is not whole
}

// send makes the exchange: post sends the request through the family's SDK, with
// roundTrip as a middleware. What the SDK makes of the response does not matter:
// it knows only the shapes of its own provider.
func (x *exchange) send(post func(ctx context.Context) error) (Answer, *Error) {
	x.watch.listen(x.streamed)
	err := post(x.watch.ctx)
	if x.response == nil {
		return Answer{}, x.notAnswered(err)
	}
	now := time.Now()
	told := ParseRateLimit(x.response.Header, now)
	if x.err != nil && x.response.StatusCode < 400 {
		e := x.notAnswered(err)
		e.RateLimit = told
		return Answer{}, e
	}
	answer, refusal := x.outcome(now)
	if refusal != nil {
		refusal.RateLimit = told
		return Answer{}, refusal
	}
	answer.RateLimit = told
	return answer, nil
}

// roundTrip is the innermost middleware of the SDK. It reads the body itself,
// since the SDK would read any amount, and drop what it has read of a body that
// breaks off.
func (x *exchange) roundTrip(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	// net/http repeats a request that carries "Idempotency-Key", spelled just
	// so, by itself when a reused connection breaks. That would be a second
	// purchase behind our back; in lower case it is only a header.
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := req.Header[name]; ok {
			delete(req.Header, name)
			req.Header[strings.ToLower(name)] = v
		}
	}
	if x.idempotencyKey != "" {
		req.Header["idempotency-key"] = []string{x.idempotencyKey}
	}
	res, err := next(req)
	if err != nil {
		return res, err
	}
	defer res.Body.Close()
	x.response = res
	if x.streamed && res.StatusCode < 300 {
		x.reading, x.err = x.readStream(res)
	} else {
		x.body, x.err = x.read(res)
	}
	x.watch.hush()
	x.conceal()
	return &http.Response{
		Status: res.Status, StatusCode: res.StatusCode, Header: res.Header,
		Request: res.Request, Body: http.NoBody,
	}, nil
}

func (x *exchange) read(res *http.Response) ([]byte, error) {
	if res.StatusCode >= 400 {
		return io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, x.maxBody+1))
	if err == nil && int64(len(body)) > x.maxBody {
		return nil, errTooLarge
	}
	return body, err
}

// outcome makes an answer or a classified error of a response that was read.
func (x *exchange) outcome(now time.Time) (Answer, *Error) {
	status, h := x.response.StatusCode, x.response.Header
	switch {
	case x.refusal != nil:
		return Answer{}, x.family.refuse(status, h, x.refusal, x.usage, now)
	case x.why != "":
		return Answer{}, unusable(status, h, x.body, x.usage, x.why)
	}
	answer, refusal := x.family.read(status, h, x.body, now)
	if refusal == nil && x.tokens {
		answer.FirstToken = x.watch.firstToken()
	}
	return answer, refusal
}

// notAnswered is the error of a call that brought no whole response.
func (x *exchange) notAnswered(err error) *Error {
	e := x.watch.ended()
	if e == nil {
		e = &Error{Kind: Unavailable, Err: err}
		if x.response != nil {
			e.Err = x.err
		}
		var inURL *url.Error
		if errors.As(e.Err, &inURL) {
			e.Err = inURL.Err // the URL may carry a key in its query
		}
		e.Message = transportMessage(e.Err, x.response != nil)
	}
	if x.response != nil {
		e.StatusCode, e.RequestID, e.Usage = x.response.StatusCode, requestID(x.response.Header), x.usage
	}
	return e
}

// transportMessage names a failure of the connection. The error itself is not
// quoted: it can hold addresses and whatever a proxy said.
func transportMessage(err error, begun bool) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, errTooLarge):
		return errTooLarge.Error()
	case errors.Is(err, errTooMany):
		return errTooMany.Error()
	case errors.As(err, &dns):
		return "the provider's host name cannot be resolved"
	case isTLS(err):
		return "no secure connection to the provider: its certificate or handshake failed"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case begun:
		return "the connection broke off in the middle of the answer"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed without an answer"
	case errors.As(err, &op) && op.Op == "dial":
		return "the provider cannot be reached"
	default:
		return "the exchange with the provider failed"
	}
}

func isTLS(err error) bool {
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &alert) || errors.As(err, &record) || errors.As(err, &verify) ||
		errors.As(err, &authority) || errors.As(err, &host)
}
