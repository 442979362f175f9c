package provider

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// reading is what came of a response that was asked to be a stream.
type reading struct {
	// body is a whole answer, put together or plain; a refusal that came in
	// place of a stream; or, with why, as much of an answer as came.
	body    []byte
	refusal []byte // the data of an error inside of the stream
	usage   Usage  // as far as it was told
	why     string // the stream is no answer
	tokens  bool   // it was a stream, and had tokens
}

// readStream reads a response that was asked to be a stream. Servers that do not
// know streams answer plainly, and some refuse so with a status of 200: what a
// body begins with decides, whatever its content type says.
func (x *exchange) readStream(res *http.Response) (reading, error) {
	s := newEvents(res.Body, x.maxBody)
	stream, err := s.isStream()
	if err != nil && !errors.Is(err, io.EOF) {
		return reading{}, err
	}
	if !stream {
		body, err := s.whole()
		return reading{body: body}, err
	}
	r, err := x.family.join(x, s)
	if err == nil {
		x.drain(s.r)
	}
	return r, err
}

// readEvents puts a stream together up to its end. These are whole answers: a
// stream that [DONE] ends, unless only some of its choices ended; one that ends
// without, if all of its choices did; and one that falls silent, breaks, tells
// of an error or sends what is no JSON after the last of the choices that were
// asked for.
func (x *exchange) readEvents(s *events) (reading, error) {
	return x.join(s, &assembly{left: x.maxBody})
}

// join puts a stream of choices together.
func (x *exchange) join(s *events, a *assembly) (reading, error) {
	tokens := false
	for {
		e, err := s.next()
		switch {
		case err == nil && !e.done():
			failed := e.failure()
			if (failed != nil || !e.object) && a.complete(x.choices) { // too late to take back what was bought
				return reading{body: a.body(), tokens: tokens}, nil
			}
			if failed != nil {
				return reading{refusal: failed, usage: a.usage()}, nil
			}
			if !e.object {
				return reading{body: kept(e.data), usage: a.usage(), why: "the stream holds an event that is not JSON"}, nil
			}
			token, err := a.add(e.data)
			if err != nil {
				return reading{usage: a.usage()}, err
			}
			if token {
				tokens = true
				x.watch.token()
			}
			continue
		case err == nil && !a.cutOff(), errors.Is(err, io.EOF) && a.complete(1), a.complete(x.choices):
			return reading{body: a.body(), tokens: tokens}, nil
		case err == nil, errors.Is(err, io.EOF):
			return reading{body: a.body(), usage: a.usage(), why: "the stream broke off before its end"}, nil
		default:
			return reading{usage: a.usage()}, err
		}
	}
}

// failure returns the error that an event holds, in the shape of a refusal's
// body; nil: it holds none.
func (e event) failure() []byte {
	if e.name == "error" {
		return e.data
	}
	failed, message, choices := false, false, false
	eachMember(e.objectData(), func(key, value []byte) {
		switch string(key) {
		case "error":
			failed = failed || !isEmpty(value)
		case "object", "type":
			failed = failed || string(value) == `"error"`
		case "choices":
			choices = true
		case "message", "detail", "msg":
			message = message || !isEmpty(value)
		}
	})
	if failed || message && !choices {
		return e.data
	}
	return nil
}

// objectData is the data where it is an object, else nil.
func (e event) objectData() []byte {
	if !e.object {
		return nil
	}
	return e.data
}

const (
	drainTime = 100 * time.Millisecond
	drainSize = 16 << 10
)

// drain reads what follows the last event, so that the connection can be used
// again. A server that does not end the stream itself is not waited for.
func (x *exchange) drain(r io.Reader) {
	x.watch.hush()
	timer := time.AfterFunc(drainTime, func() { x.watch.end(errDrained) })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, r, drainSize) // whatever comes, the answer is whole
}

var errDrained = errors.New("the stream has ended")
