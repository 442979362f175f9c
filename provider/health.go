package provider

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"
)

// Health gets a path of the provider's host and says by the status alone how
// the provider is: it returns a 2xx, or an error, which is always an *Error.
//
// The path begins with one "/" and stands for itself: it starts at the host and
// not at the base URL's own path. Headers and key are those of calls.
func (a *OpenAI) Health(ctx context.Context, path string, timeout time.Duration) (status int, err error) {
	if a.broken != nil {
		return 0, unreachable(a.broken)
	}
	return askHealth(ctx, timeout, a.key, func(ctx context.Context, key string, h *health) error {
		opts := []option.RequestOption{option.WithBaseURL(origin(a.base)), option.WithMiddleware(h.roundTrip)}
		if key != "" {
			opts = append(opts, option.WithAPIKey(key))
		}
		var unread *http.Response // makes the SDK leave the body alone
		return a.client.Get(ctx, hostPath(path), nil, &unread, opts...)
	})
}

// askHealth is Health for the SDK of any family: get makes the GET, with h as a
// middleware.
func askHealth(ctx context.Context, timeout time.Duration, ask func(context.Context) (string, error), get func(ctx context.Context, key string, h *health) error) (int, error) {
	w := watchCall(ctx, Request{Timeout: timeout})
	defer w.close()
	key, err := readKey(w.ctx, ask)
	if err != nil {
		return 0, unsent(w, err)
	}
	var h health
	err = get(w.ctx, key, &h)
	if h.response == nil {
		return 0, (&exchange{watch: w}).notAnswered(err)
	}
	concealIn(h.response.Header, key)
	if e := judgeHealth(h.response.StatusCode, h.response.Header, time.Now()); e != nil {
		return 0, e
	}
	return h.response.StatusCode, nil
}

// origin is the scheme and the host of a base URL, alone.
func origin(base *url.URL) string { return base.Scheme + "://" + base.Host }

// hostPath is a path as a reference that cannot name another host or scheme,
// however many slashes it begins with.
func hostPath(path string) string { return "./" + strings.TrimLeft(path, "/") }

// health is one GET and the head of its response.
type health struct{ response *http.Response }

// roundTrip drops the body unread: what a server says of its health beyond the
// status has no common form.
func (h *health) roundTrip(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(req)
	if err != nil {
		return res, err
	}
	_ = res.Body.Close()
	h.response = res
	return &http.Response{
		Status: res.Status, StatusCode: res.StatusCode, Header: res.Header,
		Request: res.Request, Body: http.NoBody,
	}, nil
}

// judgeHealth says what a status means; nil is a 2xx. What is neither the
// provider's failure nor about the key, such as a 404 or a redirect, says
// nothing about its health: the path is the wrong one.
func judgeHealth(status int, h http.Header, now time.Time) *Error {
	e := &Error{StatusCode: status, RequestID: requestID(h), RetryAfter: explicitRetryAfter(h, now)}
	switch {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusTooManyRequests:
		e.Kind, e.Message, e.RetryAfter = RateLimited, "rate limit", ParseRetryAfter(h, now)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		e.Kind, e.Scope, e.Message = Misconfigured, ScopeParent, "the provider refuses the key or the account"
	case status == http.StatusPaymentRequired:
		e.Kind, e.Scope, e.Message = QuotaExhausted, ScopeParent, "payment required"
	case status >= 500:
		e.Kind, e.Message = Unavailable, "the provider failed"
	default:
		e.Kind, e.Message = InvalidRequest, "the health path does not answer with 2xx"
	}
	return e
}
