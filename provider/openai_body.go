package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxKeptBody is how much of a refusal's body an Error keeps.
const maxKeptBody = 64 << 10

// readResponse makes an answer or a classified error of a response that came
// whole (a refusal may be cut off).
func readResponse(status int, h http.Header, body []byte, now time.Time) (Answer, *Error) {
	if status < 200 || status > 299 {
		return Answer{}, refuse(status, h, body, Usage{}, now)
	}
	var c completion
	if err := readJSON(body, &c); err != nil {
		return Answer{}, unusable(status, h, body, Usage{}, err.Error())
	}
	return c.answer(status, h, body, now)
}

// readJSON reads the body of an answer.
func readJSON(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil || TooDeep(body) {
		return errors.New("the body is not the JSON of an answer")
	}
	return nil
}

// answer makes an answer or a classified error of what was read of a body.
func (c completion) answer(status int, h http.Header, body []byte, now time.Time) (Answer, *Error) {
	usage := parseUsage(c.Usage)
	if !isEmpty(c.Error) {
		return Answer{}, refuse(status, h, body, usage, now)
	}
	verdict, choice := c.judge()
	switch verdict {
	case answered:
		return Answer{
			StatusCode: status, RequestID: requestID(h), Body: body,
			Usage: usage, FinishReason: choice.FinishReason.String(),
		}, nil
	case withheld:
		return Answer{}, withheldBy(status, h, body, usage)
	case broken:
		e := refuse(status, h, choice.asError(), usage, now)
		e.Body = kept(body)
		return Answer{}, e
	default:
		return Answer{}, unusable(status, h, body, usage, "the answer has no choice that is not empty")
	}
}

// withheldBy is a 200 whose answer a filter or a refusal took.
func withheldBy(status int, h http.Header, body []byte, u Usage) *Error {
	e := unusable(status, h, body, u, "the answer was withheld by a content filter or the model refused")
	e.Kind = ContentFiltered
	return e
}

// unusable is a 200 that is no answer.
func unusable(status int, h http.Header, body []byte, u Usage, why string) *Error {
	return &Error{
		Kind: Unavailable, StatusCode: status, Message: why, RequestID: requestID(h),
		Body: kept(body), Usage: u,
	}
}

// refuse is the classified error of a response that says no.
func refuse(status int, h http.Header, body []byte, u Usage, now time.Time) *Error {
	s := readSignal(status, body)
	return s.refuse(classify(rules, s), status, h, body, u, now)
}

// refuseElsewhere is refuse for the endpoints beside the chat completions, which
// not every server and model has. That one is missing says nothing about the
// model, whose chat completions may be well.
func refuseElsewhere(status int, h http.Header, body []byte, u Usage, now time.Time) *Error {
	s := readSignal(status, body)
	r := classify(rules, s)
	if r.missing {
		r = rule{kind: InvalidRequest, url: true, why: "the provider does not have this endpoint"}
	}
	return s.refuse(r, status, h, body, u, now)
}

// refuse is the classified error of a response that a row of a table takes.
func (s signal) refuse(r rule, status int, h http.Header, body []byte, u Usage, now time.Time) *Error {
	e := &Error{
		Kind: r.kind, Scope: r.scope, StatusCode: status, Type: safeWord(s.errType), Code: safeWord(s.code),
		RequestID: requestID(h), Body: kept(body), Usage: u, RetryAfter: explicitRetryAfter(h, now),
	}
	if r.kind == RateLimited {
		e.RetryAfter = ParseRetryAfter(h, now)
	}
	e.RetryAfter = max(e.RetryAfter, clampWait(s.retryDelay))
	e.Tier = r.tier
	switch {
	case r.url:
		e.Parameter = "url"
	case r.parameter:
		e.Parameter = safeWord(s.parameter())
	}
	e.Message = describe(r, e)
	return e
}

// describe is the message of a refusal: our own words and the provider's type
// and code. The provider's own text is in the body alone, since it may repeat
// the prompt or a part of the key.
func describe(r rule, e *Error) string {
	var details []string
	for _, d := range []string{e.Type, e.Code, e.Parameter} {
		if d != "" && (len(details) == 0 || details[len(details)-1] != d) {
			details = append(details, d)
		}
	}
	if len(details) == 0 {
		return r.why
	}
	return r.why + " (" + strings.Join(details, ", ") + ")"
}

// safeWord returns s if it is a name such as a provider's code, else "": text
// in its place is not ours to log.
func safeWord(s string) string {
	const more = "_-.:[]/"
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(more, r)
	}
	if len(s) > 64 || strings.ContainsFunc(s, bad) || strings.HasPrefix(s, "sk-") {
		return ""
	}
	return s
}

func kept(body []byte) []byte {
	return bytes.Clone(body[:min(len(body), maxKeptBody)])
}

// requestID returns the provider's own ID of a call, for its support.
func requestID(h http.Header) string {
	for _, name := range []string{"x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "cf-ray"} {
		if id := h.Get(name); id != "" && len(id) <= 256 {
			return id
		}
	}
	return ""
}

// scalar is a JSON string or number as text; anything else is "".
type scalar string

// UnmarshalJSON never fails, so that an odd type in one field does not hide the
// rest. A null leaves what is there.
func (s *scalar) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var text string
	var number json.Number
	switch {
	case json.Unmarshal(b, &text) == nil:
		*s = scalar(text)
	case json.Unmarshal(b, &number) == nil:
		*s = scalar(number)
	}
	return nil
}

func (s scalar) String() string { return string(s) }

// isEmpty says that a field is missing, null, "", {} or [].
func isEmpty(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "false":
		return true
	}
	if len(raw) < 2 || raw[0] != '{' && raw[0] != '[' {
		return false
	}
	return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
}

type cachedTokens struct {
	Cached scalar `json:"cached_tokens"`
}

// parseUsage reads what was billed; a figure that cannot be is 0.
func parseUsage(raw json.RawMessage) Usage {
	var u struct {
		Prompt       scalar       `json:"prompt_tokens"`
		Completion   scalar       `json:"completion_tokens"`
		CacheHit     scalar       `json:"prompt_cache_hit_tokens"` // DeepSeek
		Details      cachedTokens `json:"prompt_tokens_details"`
		Input        scalar       `json:"input_tokens"` // of responses, from here on
		Output       scalar       `json:"output_tokens"`
		InputDetails cachedTokens `json:"input_tokens_details"`
	}
	_ = json.Unmarshal(raw, &u) // fields that do not fit stay 0
	input := cmp.Or(count(u.Prompt), count(u.Input))
	return Usage{
		InputTokens:       input,
		CachedInputTokens: min(input, max(count(u.Details.Cached), count(u.CacheHit), count(u.InputDetails.Cached))),
		OutputTokens:      cmp.Or(count(u.Completion), count(u.Output)),
	}
}

// count reads a number of tokens.
func count(s scalar) int64 {
	n, err := strconv.ParseFloat(s.String(), 64)
	if err != nil || !(n > 0) || n > 1e15 {
		return 0
	}
	return int64(n)
}
