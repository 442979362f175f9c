package provider

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

// AnthropicOptions says how a provider of the Anthropic family is reached.
type AnthropicOptions struct {
	// BaseURL is the address before or after the version: the SDK's own form,
	// "https://api.anthropic.com", and the same with "/v1" both work. A query
	// in it goes out with every call.
	BaseURL string
	// Headers go out with every call, over the adapter's own. An
	// "anthropic-version" here is sent with every call, whatever it asks for.
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

// Anthropic calls Anthropic's Messages API through the official SDK, whose
// retries and traces are off and whose view of the environment is closed. It
// takes and gives OpenAI's chat completions; docs/providers.md says what
// becomes of each field.
type Anthropic struct {
	client      anthropic.Client
	http        *http.Client
	key         func(ctx context.Context) (string, error)
	maxResponse int64
	pinned      bool // the options name a version of the API
	base        *url.URL
	broken      error // why no call can be made: the base URL
}

// samplingVersion is the last version of the API that takes temperature, top_p
// and top_k: the one that the SDK sends refuses all three, for every model.
const samplingVersion = "2023-06-01"

const versionHeader = "anthropic-version"

// NewAnthropic returns an adapter. A base URL that cannot be one shows at the
// first call, as Misconfigured.
func NewAnthropic(o AnthropicOptions) *Anthropic {
	a := &Anthropic{http: newHTTPClient(o.HTTPClient), key: o.Key, maxResponse: o.MaxResponse}
	if a.maxResponse <= 0 {
		a.maxResponse = defaultMaxResponse
	}
	base, err := parseBase(o.BaseURL)
	a.base, a.broken = base, err
	query := base.Query()
	opts := []option.RequestOption{
		option.WithBaseURL(unversioned(*base).String()),
		option.WithHTTPClient(a.http),
		option.WithMaxRetries(0),      // a retry is a purchase; the ladder decides on it
		option.WithoutOpenTelemetry(), // its spans can carry prompts
		option.WithHeader("User-Agent", "nightshift"),
	}
	for name, values := range query {
		opts = append(opts, option.WithQuery(name, values[0]))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		a.pinned = a.pinned || strings.EqualFold(name, versionHeader)
		opts = append(opts, option.WithHeader(name, o.Headers[name]))
	}
	// Not anthropic.NewClient: it reads keys, profiles, the base URL and headers
	// from ANTHROPIC_* variables and files, and would send the key of one
	// provider to another.
	a.client = anthropic.Client{Options: opts}
	return a
}

// unversioned is a base URL as the SDK wants it, which adds the version itself.
func unversioned(base url.URL) *url.URL {
	base.Path = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/v1")
	base.RawPath, base.RawQuery = "", ""
	return &base
}

// Close closes idle connections. Calls in flight are not ended by it.
func (a *Anthropic) Close() { a.http.CloseIdleConnections() }

// Call makes one HTTP request. Its error is always an *Error. What the Messages
// API has no counterpart for is refused with the field's name before anything
// is sent.
//
// Where the request limits silence, the call is streamed and its answer put
// together into the shape of a plain one.
func (a *Anthropic) Call(ctx context.Context, r Request) (Answer, error) {
	m, refused := messagesRequest(r)
	if refused != nil {
		return Answer{}, refused
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
	x := &exchange{
		idempotencyKey: r.IdempotencyKey, key: key, maxBody: a.maxResponse,
		watch: w, streamed: m.streamed, family: messagesFamily(),
	}
	answer, refusal := x.send(func(ctx context.Context) error {
		var unread *http.Response // makes the SDK leave the body alone
		return a.client.Post(ctx, "v1/messages", m.body, &unread, a.options(x, m)...)
	})
	if refusal != nil {
		return Answer{}, refusal
	}
	return answer, nil
}

// messagesFamily is the family of the Messages API.
func messagesFamily() family {
	return family{(*exchange).readMessageEvents, readMessage, refuseMessage}
}

// options are those of one call.
func (a *Anthropic) options(x *exchange, m messages) []option.RequestOption {
	opts := []option.RequestOption{option.WithMiddleware(x.roundTrip)}
	if x.key != "" {
		opts = append(opts, option.WithAPIKey(x.key))
	}
	if m.sampling && !a.pinned {
		opts = append(opts, option.WithHeader(versionHeader, samplingVersion))
	}
	return opts
}

// Health gets a path of the provider's host; see [OpenAI.Health].
func (a *Anthropic) Health(ctx context.Context, path string, timeout time.Duration) (status int, err error) {
	if a.broken != nil {
		return 0, unreachable(a.broken)
	}
	return askHealth(ctx, timeout, a.key, func(ctx context.Context, key string, h *health) error {
		opts := []option.RequestOption{option.WithBaseURL(origin(a.base)), option.WithMiddleware(h.roundTrip)}
		if key != "" {
			opts = append(opts, option.WithAPIKey(key))
		}
		var unread *http.Response // makes the SDK leave the body alone
		// One slash: with none the path could name another host, and the SDK
		// refuses the "./" of hostPath.
		return a.client.Get(ctx, "/"+strings.TrimLeft(path, "/"), nil, &unread, opts...)
	})
}
