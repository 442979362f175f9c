package notify

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

const body = `{"type":"batch.done"}`

// post is one request that a receiver got.
type post struct {
	*http.Request
	body []byte
}

// receiver is a real server; it answers with handle, and the channel has what it got.
func receiver(t *testing.T, handle http.HandlerFunc) (*httptest.Server, chan post) {
	t.Helper()
	got := make(chan post, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- post{r, b}
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return s, got
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func sender(t *testing.T, o Options) *Sender {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// refusal is the *Error that a message must end in.
func refusal(t *testing.T, err error) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%v is no refusal", err)
	}
	return e
}

func TestSend_Signed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secret string
		check  func() (*standardwebhooks.Webhook, error)
	}{
		"base64": {secret, func() (*standardwebhooks.Webhook, error) { return standardwebhooks.NewWebhook(secret) }},
		"raw": {"a raw secret of enough bytes", func() (*standardwebhooks.Webhook, error) {
			return standardwebhooks.NewWebhookRaw([]byte("a raw secret of enough bytes"))
		}},
	} {
		s, got := receiver(t, status(http.StatusNoContent))
		if err := sender(t, Options{Secret: c.secret, Private: true, Version: "1.2.3"}).Send(t.Context(), s.URL+"/hook?a=b", "msg_1", []byte(body)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p := <-got
		check, err := c.check()
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Verify(p.body, p.Header); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if string(p.body) != body || p.Method != http.MethodPost || p.URL.String() != "/hook?a=b" ||
			p.Header.Get("Content-Type") != "application/json" || p.Header.Get("webhook-id") != "msg_1" || p.UserAgent() != "nightshift/1.2.3" {
			t.Errorf("%s: %s %s %q %v", name, p.Method, p.URL, p.body, p.Header)
		}
	}
}

// The vector that the specification publishes: what the headers hold is what its
// other libraries compute.
func TestSend_SignsAsTheSpecificationDoes(t *testing.T) {
	t.Parallel()
	signer, err := signerOf("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got, err := signer.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestSend_WithoutASecretUnsigned(t *testing.T) {
	t.Parallel()
	s, got := receiver(t, status(http.StatusOK))
	if err := sender(t, Options{Private: true}).Send(t.Context(), s.URL, "msg_1", []byte(body)); err != nil {
		t.Fatal(err)
	}
	if p := <-got; p.Header.Get("webhook-signature") != "" || p.Header.Get("webhook-id") != "msg_1" || p.Header.Get("webhook-timestamp") == "" {
		t.Errorf("%v", p.Header)
	}
}

func TestNew_SecretsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"short", "whsec_c2hvcnQ=", "whsec_" + strings.Repeat("?", 40), "whsec_"} {
		if _, err := New(Options{Secret: bad}); err == nil || strings.Contains(err.Error(), "c2hvcnQ") || strings.Contains(err.Error(), "???") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSend_WhatIsAnswered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code  int
		after string
		want  Error
	}{
		{500, "", Error{cause: "answered 500 Internal Server Error"}},
		{503, "120", Error{cause: "answered 503 Service Unavailable", RetryAfter: 2 * time.Minute}},
		{429, "soon", Error{cause: "answered 429 Too Many Requests"}},
		{404, "", Error{cause: "answered 404 Not Found"}},
		{410, "", Error{cause: "answered 410 Gone", Gone: true}},
		{302, "", Error{cause: "answered 302: redirects are not followed"}},
		{799, "", Error{cause: "answered 799"}},
	} {
		s, got := receiver(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", c.after)
			w.Header().Set("X-RateLimit-Reset-Requests", "9h") // says nothing here
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.code)
			fmt.Fprint(w, "a secret of the inner network")
		})
		err := sender(t, Options{Private: true}).Send(t.Context(), s.URL, "m", nil)
		if got := *refusal(t, err); got != c.want {
			t.Errorf("%d: %+v", c.code, got)
		}
		if len(got) != 1 {
			t.Errorf("%d: %d requests", c.code, len(got))
		}
	}
}

func TestSend_ASilentReceiver(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"an endless one": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		s, _ := receiver(t, handle)
		started := time.Now()
		refusal(t, sender(t, Options{Private: true, Timeout: 200 * time.Millisecond}).Send(t.Context(), s.URL, "m", nil))
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
	}
	s, _ := receiver(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	err := sender(t, Options{Private: true, Timeout: 200 * time.Millisecond}).Send(t.Context(), s.URL, "m", nil)
	if err.Error() != "no answer in time" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = sender(t, Options{Private: true}).Send(ctx, s.URL, "m", nil)
	if refusal(t, err).Error() != "this worker stopped before an answer" {
		t.Error(err)
	}
}

func TestSend_ALongAnswerIsCut(t *testing.T) {
	t.Parallel()
	s, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	if err := sender(t, Options{Private: true}).Send(t.Context(), s.URL, "m", nil); err != nil {
		t.Error(err)
	}
}

func TestSend_VerifiesCertificates(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(status(http.StatusOK))
	t.Cleanup(s.Close)
	err := sender(t, Options{Private: true}).Send(t.Context(), s.URL, "m", nil)
	if !strings.Contains(refusal(t, err).Error(), "certificate") {
		t.Error(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if err := sender(t, Options{Private: true, Roots: roots}).Send(t.Context(), s.URL, "m", nil); err != nil {
		t.Error(err)
	}
}

// Errors go to logs and statuses, so they must not name what can be secret.
func TestSend_ErrorsShowNoSecrets(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	for _, u := range []string{
		"http://user:hunter2@" + addr + "/hook-hunter2?token=hunter2",
		"http://user:hunter2@" + addr + "/%zz?token=hunter2",
		"ftp://hunter2@" + addr,
	} {
		err := refusal(t, sender(t, Options{Private: true, Secret: secret}).Send(t.Context(), u, "m", nil))
		if strings.Contains(err.Error(), "hunter2") || err.Error() == "" || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", u, err)
		}
	}
}
