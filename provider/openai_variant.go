package provider

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// variant is a way to send one and the same request. Servers of the family
// differ in what they take, and say so only by refusing it. A refusal of this
// kind buys nothing, so the adapter sends the next variant by itself, within
// the same call and its limits.
type variant struct {
	mode mode
	// renamed says that max_tokens goes out as max_completion_tokens, or the
	// other way round where the body has the newer name.
	renamed bool
}

// mode is how much of streaming a variant asks for.
type mode int

const (
	withUsage mode = iota // a stream that ends with the usage
	bare                  // a stream; its usage may be missing
	plain
	asItCame // not to be streamed
)

func (v variant) streamed() bool { return v.mode == withUsage || v.mode == bare }

// suffix tells the variants of a call apart in its idempotency key: servers
// refuse a key that comes again with another body.
func (v variant) suffix() string {
	s := [...]string{withUsage: "", bare: "-bare", plain: "-plain", asItCame: ""}[v.mode]
	if v.renamed {
		s += "-renamed"
	}
	return s
}

// refusing are the statuses of a refusal that buys nothing. 500 and 501 are in
// it for llama.cpp, and count like the others only with words about streaming.
var refusing = []int{400, 403, 404, 405, 406, 415, 422, 500, 501}

// noStreams are the wordings of servers that do not stream.
var noStreams = []string{
	"not support stream", "n't support stream", "not support the stream", "not support 'stream'", "not support `stream`",
	"streaming is not", "streaming not", "streaming mode is not", "streaming responses are not",
	"stream is not", "stream not", "'stream' is not", "`stream` is not", "stream mode is not",
	"stream=true is not", "stream must be false", "stream … not supported", "unsupported … streaming",
	"streaming … disabled", "cannot be streamed", "cannot stream", "to stream this model", "tools with stream",
	"argument supplied: stream", "unknown parameter: 'stream", "unsupported parameter: 'stream", "unsupported value: 'stream",
}

// after returns the variant to send after a refusal; false: there is none, and
// the refusal stands.
func (v variant) after(e *Error, p *parcel) (variant, bool) {
	if !slices.Contains(refusing, e.StatusCode) {
		return v, false
	}
	s := readSignal(e.StatusCode, e.Body)
	if v.streamed() {
		options := strings.HasPrefix(s.param, "stream_options") || strings.Contains(s.text, "stream_options") ||
			strings.Contains(s.text, "include_usage")
		if options && v.mode == withUsage {
			v.mode = bare
			return v, true
		}
		says := func(w string) bool { return saysInOrder(s.text, w) }
		if options || s.param == "stream" || slices.ContainsFunc(noStreams, says) {
			v.mode = plain
			return v, true
		}
	}
	if !v.renamed && e.Parameter != "" && e.Code != "unsupported_value" && p.limitName() == e.Parameter &&
		(e.Parameter == newLimit || strings.Contains(s.text, newLimit)) {
		v.renamed = true
		return v, true
	}
	return v, false
}

// The two names of a request's token limit.
const (
	oldLimit = "max_tokens"
	newLimit = "max_completion_tokens"
)

// otherLimit is the other one of the two names.
func otherLimit(name string) string {
	if name == newLimit {
		return oldLimit
	}
	return newLimit
}

// lessons remembers what a server took after it had refused something else, by
// the subject, so that it is not asked in vain each time. It forgets after an
// hour: servers are updated.
type lessons struct {
	now func() time.Time

	mu  sync.Mutex
	all map[subject]lesson
}

// subject is what a lesson is about. Some servers stream, but neither tool calls
// nor JSON.
type subject struct {
	endpoint, model string
	tools, format   bool
}

func subjectOf(r Request, p *parcel) subject {
	return subject{r.Endpoint, r.Model, !isEmpty(p.field("tools")), !isEmpty(p.field("response_format"))}
}

// lesson is what a model takes. It names the token limit itself and not the
// change of it: lines of one batch can have either name.
type lesson struct {
	mode  mode
	limit string // the name of the token limit; "": not known
	until time.Time
}

const (
	lessonTime = time.Hour
	maxLessons = 1024
)

// recall returns the variant to send a parcel as.
func (l *lessons) recall(s subject, p *parcel) variant {
	l.mu.Lock()
	known := l.known(s)
	l.mu.Unlock()
	v := variant{mode: known.mode}
	if !p.streams {
		v.mode = asItCame
	}
	if name := p.limitName(); name != "" && known.limit != "" {
		v.renamed = name != known.limit
	}
	return v
}

// known is what is not forgotten of a subject; the caller holds the lock.
func (l *lessons) known(s subject) lesson {
	known := l.all[s]
	if !l.now().Before(known.until) {
		return lesson{}
	}
	return known
}

// learn notes that a parcel was taken as a variant. What the variant does not
// tell stays as it was known. That stream options of the line's own were refused
// says nothing about those of the adapter.
func (l *lessons) learn(s subject, v variant, p *parcel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.known(s)
	if v.mode != asItCame && !(v.mode == bare && p.field("stream_options") != nil) {
		known.mode = v.mode
	}
	if v.renamed {
		known.limit = otherLimit(p.limitName())
	}
	known.until = l.now().Add(lessonTime)
	if len(l.all) >= maxLessons {
		clear(l.all)
	}
	l.all[s] = known
}
