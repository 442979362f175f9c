package provider

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// response is what the adapter reads of a response of the Responses API.
type response struct {
	Error      json.RawMessage `json:"error"`
	Status     scalar          `json:"status"`
	Incomplete struct {
		Reason scalar `json:"reason"`
	} `json:"incomplete_details"`
	Output []outputItem    `json:"output"`
	Usage  json.RawMessage `json:"usage"`
}

type outputItem struct {
	Type    scalar          `json:"type"`
	Content json.RawMessage `json:"content"` // a list of parts
}

// readResponseObject makes an answer or a classified error of a response of the
// Responses API that came whole, by a plain call or at the end of a stream.
func readResponseObject(status int, h http.Header, body []byte, now time.Time) (Answer, *Error) {
	if status < 200 || status > 299 {
		return Answer{}, refuseElsewhere(status, h, body, Usage{}, now)
	}
	var r response
	if err := readJSON(body, &r); err != nil {
		return Answer{}, unusable(status, h, body, Usage{}, err.Error())
	}
	usage := parseUsage(r.Usage)
	if !isEmpty(r.Error) {
		return Answer{}, refuseElsewhere(status, h, body, usage, now)
	}
	switch r.Status {
	case "failed", "cancelled":
		return Answer{}, unusable(status, h, body, usage, "the response "+r.Status.String())
	case "queued", "in_progress":
		return Answer{}, unusable(status, h, body, usage, "the response has not ended")
	}
	switch verdict, finish := r.judge(); verdict {
	case answered:
		return Answer{StatusCode: status, RequestID: requestID(h), Body: body, Usage: usage, FinishReason: finish}, nil
	case withheld:
		return Answer{}, withheldBy(status, h, body, usage)
	}
	return Answer{}, unusable(status, h, body, usage, "the response has neither a text nor a call of a tool")
}

// judge looks for a text or a call of a tool. finish is the reason of the end in
// the words of chat completions.
func (r response) judge() (v verdict, finish string) {
	text, called, refused := false, false, false
	for _, o := range r.Output {
		called = called || strings.HasSuffix(o.Type.String(), "_call") || o.Type == "mcp_approval_request"
		if o.Type == "message" {
			text = text || hasText(o.Content)
			refused = refused || hasRefusal(o.Content)
		}
	}
	reason := r.Incomplete.Reason
	switch {
	case reason == "content_filter":
		finish = "content_filter"
	case r.Status == "incomplete":
		finish = "length"
	case called && !text:
		finish = "tool_calls"
	default:
		finish = "stop"
	}
	switch {
	case text, called:
		return answered, finish
	case refused, finish == "content_filter":
		return withheld, finish
	case finish == "length":
		// Used up before the first visible token, as by chat completions: the
		// model works.
		return answered, finish
	}
	return empty, finish
}

// responseEvent is every event of a stream of the Responses API, as far as it
// matters: the last one holds the whole response.
type responseEvent struct {
	Type     scalar          `json:"type"`
	Response json.RawMessage `json:"response"`
	Error    json.RawMessage `json:"error"`
}

// isEnd says that an event is the last one.
func (e responseEvent) isEnd() bool {
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return len(e.Response) > 0
	}
	return false
}

// isToken says that an event is a piece of the answer, or of a tool at work.
// That a response or an item of it has begun is none: a model that thinks says
// so at once, and is silent then.
func (e responseEvent) isToken() bool {
	t := e.Type.String()
	return strings.HasPrefix(t, "response.") &&
		(strings.HasSuffix(t, ".delta") || strings.HasSuffix(t, ".done") || strings.Contains(t, "_call."))
}

// readResponseEvents reads a stream of the Responses API up to the event that
// holds the whole response. Without that one there is no answer.
func (x *exchange) readResponseEvents(s *events) (reading, error) {
	tokens := false
	for {
		e, err := s.next()
		switch {
		case errors.Is(err, io.EOF), err == nil && e.done():
			return reading{why: "the stream broke off before its end"}, nil
		case err != nil:
			return reading{}, err
		case !e.object:
			return reading{body: kept(e.data), why: "the stream holds an event that is not JSON"}, nil
		}
		var r responseEvent
		if err := json.Unmarshal(e.data, &r); err != nil {
			return reading{body: kept(e.data), why: "the stream holds an event that cannot be read"}, nil
		}
		switch {
		case e.name == "error", r.Type == "error", !isEmpty(r.Error):
			return reading{refusal: e.data}, nil
		case r.isEnd():
			return reading{body: r.Response, tokens: tokens}, nil
		case r.isToken():
			tokens = true
			x.watch.token()
		}
	}
}
