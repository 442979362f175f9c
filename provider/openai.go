package provider

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// OpenAIOptions says how a provider of the OpenAI family is reached.
type OpenAIOptions struct {
	// BaseURL ends where the endpoints begin, e.g. "https://api.openai.com/v1".
	// A query in it, such as Azure's api-version, goes out with every call.
	BaseURL string
	// Headers go out with every call, over the adapter's own.
	Headers map[string]string
	// Key returns the API key; it is asked at each call, so that a changed file
	// is seen. Nil or "" sends no Authorization header.
	Key func(ctx context.Context) (string, error)
	// HTTPClient replaces the adapter's own. Redirects are never followed, and
	// its Timeout should be 0: the limit is the request's.
	HTTPClient *http.Client
	// MaxResponse limits an answer, in bytes; of a streamed one what is kept of
	// the stream. Defaults to 64 MiB.
	MaxResponse int64
}

// OpenAI calls the APIs of the OpenAI family through the official SDK, whose
// retries are off and whose view of the environment is closed.
type OpenAI struct {
	client      openai.Client
	http        *http.Client
	base        *url.URL
	key         func(ctx context.Context) (string, error)
	maxResponse int64
	lessons     *lessons
	broken      error // why no call can be made: the base URL
}

const defaultMaxResponse = 64 << 20

// NewOpenAI returns an adapter. A base URL that cannot be one shows at the
// first call, as Misconfigured.
func NewOpenAI(o OpenAIOptions) *OpenAI {
	a := &OpenAI{http: newHTTPClient(o.HTTPClient), key: o.Key, maxResponse: o.MaxResponse}
	a.lessons = &lessons{now: time.Now, all: map[subject]lesson{}}
	if a.maxResponse <= 0 {
		a.maxResponse = defaultMaxResponse
	}
	opts := []option.RequestOption{
		option.WithBaseURL(o.BaseURL),
		option.WithHTTPClient(a.http),
		option.WithMaxRetries(0), // a retry is a purchase; the ladder decides on it
		option.WithHeader("User-Agent", "nightshift"),
	}
	base, err := parseBase(o.BaseURL)
	a.base, a.broken = base, err
	for name, values := range base.Query() {
		opts = append(opts, option.WithQuery(name, values[0]))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		opts = append(opts, option.WithHeader(name, o.Headers[name]))
	}
	// Not openai.NewClient: it reads the key, the base URL, the organization,
	// the project and headers from OPENAI_* variables, and would send the key
	// of one provider to another.
	a.client = openai.Client{Options: opts}
	return a
}

// parseBase returns the base URL, or an empty one and why it cannot be one.
func parseBase(s string) (*url.URL, error) {
	base, err := url.Parse(s)
	if err != nil {
		return &url.URL{}, errors.New("parse base URL: it is not a URL") // the error would quote it
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return &url.URL{}, errors.New("parse base URL: it must be http or https with a host")
	}
	return base, nil
}

// unreachable is the error of a call to a base URL that cannot be one.
func unreachable(why error) *Error {
	return &Error{Kind: Misconfigured, Scope: ScopeParent, Message: why.Error(), Err: why}
}

// Close closes idle connections. Calls in flight are not ended by it.
func (a *OpenAI) Close() { a.http.CloseIdleConnections() }

// Call makes one call. Its error is always an *Error.
//
// Where the request limits silence, the call is streamed and its answer put
// together into the shape of a plain one (see assembly and responseEvents),
// except for embeddings, which are never streamed, for audio, which comes in
// pieces that cannot be joined, and for the best of several completions, which
// is known only at the end. A call that is not streamed is silent to its end and
// so may take FirstToken in all.
//
// It makes one HTTP request, and a further one only where the server refuses to
// stream, or a name of the token limit (see variant): nothing was bought then.
// What the server took instead is remembered for an hour.
func (a *OpenAI) Call(ctx context.Context, r Request) (Answer, error) {
	p, err := newParcel(r)
	if err != nil {
		return Answer{}, &Error{Kind: InvalidRequest, Message: "the body of the request cannot be sent", Err: err}
	}
	if a.broken != nil {
		return Answer{}, unreachable(a.broken)
	}
	w := watchCall(ctx, r)
	defer w.close()
	key, err := readKey(w.ctx, a.key)
	if err != nil {
		return Answer{}, unsent(w, err)
	}
	about := subjectOf(r, p)
	v := a.lessons.recall(about, p)
	for learned := false; ; learned = true {
		x := &exchange{
			idempotencyKey: r.IdempotencyKey + v.suffix(), key: key, maxBody: a.maxResponse,
			watch: w, streamed: v.streamed(), choices: p.choices(), family: familyOf(p),
		}
		if r.IdempotencyKey == "" {
			x.idempotencyKey = ""
		}
		answer, refusal := a.exchange(x, endpointPath(r.Endpoint), p.encode(v))
		if refusal == nil {
			if learned {
				a.lessons.learn(about, v, p)
			}
			return answer, nil
		}
		next, again := v.after(refusal, p)
		if !again {
			return Answer{}, refusal
		}
		v = next
	}
}

// exchange sends a body and reads what comes.
func (a *OpenAI) exchange(x *exchange, path string, body []byte) (Answer, *Error) {
	opts := []option.RequestOption{option.WithMiddleware(x.roundTrip)}
	if x.key != "" {
		opts = append(opts, option.WithAPIKey(x.key))
	}
	return x.send(func(ctx context.Context) error {
		var unread *http.Response // makes the SDK leave the body alone
		return a.client.Post(ctx, path, body, &unread, opts...)
	})
}
