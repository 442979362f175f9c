package provider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// event is one server-sent event. Its data is valid until the next is read.
type event struct {
	name   string // "" for a nameless one
	data   []byte
	object bool // data is a JSON object
}

// done says that the event is the end of a stream of the OpenAI family.
func (e event) done() bool { return bytes.HasPrefix(e.data, []byte(doneMark)) }

const doneMark = "[DONE]"

// eagerLines is up to how many lines an event is looked at after each of them:
// a hostile one of a million would cost a quadratic time.
const eagerLines = 64

// events reads server-sent events as model providers send them. It is laxer
// than the standard where providers are: an event whose data is a whole JSON
// object, or [DONE], is one at once, whether or not an empty line ends it; so is
// the last one of a stream that ends without; and "error: {…}" (older llama.cpp)
// is an event of that name. A carriage return alone ends no line.
//
// The SDK's own decoder would not do: it drops an event that no empty line
// ends, and has no bound for one of many lines.
type events struct {
	r     *bufio.Reader
	limit int64 // of one event, in bytes

	line  []byte // the last one
	again bool   // it is to be read once more
	name  string
	data  []byte
	lines int // that data holds, maybe empty ones
}

func newEvents(r io.Reader, limit int64) *events {
	return &events{r: bufio.NewReader(r), limit: limit}
}

// isStream reads up to the first line that is not empty and says whether it is
// one of an event stream. If it is not, the rest is for whole.
func (s *events) isStream() (bool, error) {
	for {
		line, err := s.readLine()
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return false, err
		}
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
		if text := bytes.TrimSpace(line); len(text) > 0 {
			s.line, s.again = line, true
			field, _ := cutField(line)
			return text[0] == ':' || field == "data" || field == "event" || field == "error" || field == "id" || field == "retry", nil
		}
	}
}

// whole returns all that is left, at most limit bytes.
func (s *events) whole() ([]byte, error) {
	var body []byte
	if s.again {
		body, s.again = bytes.Clone(s.line), false
	}
	rest, err := io.ReadAll(io.LimitReader(s.r, s.limit+1-int64(len(body))))
	body = append(body, rest...)
	if err == nil && int64(len(body)) > s.limit {
		return nil, errTooLarge
	}
	return body, err
}

// next returns the next event, or io.EOF at a clean end, or why the stream
// breaks off.
func (s *events) next() (event, error) {
	s.name, s.data, s.lines = "", s.data[:0], 0
	for {
		line, err := s.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return event{}, err
		}
		over := err != nil && len(line) == 0
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if len(bytes.TrimSpace(s.data)) > 0 {
				return s.event(json.Valid(s.data)), nil
			}
			if over {
				return event{}, io.EOF
			}
			s.name, s.data, s.lines = "", s.data[:0], 0
			continue
		}
		if whole, err := s.take(line); whole || err != nil {
			return s.event(true), err
		}
	}
}

// take adds a line and says whether the event is whole with it.
func (s *events) take(line []byte) (bool, error) {
	field, value := cutField(line)
	switch field {
	case "event":
		s.name = string(value)
		return false, nil
	case "error":
		s.name = field
	case "data":
	default: // comments, and what a later standard may bring
		return false, nil
	}
	if int64(len(s.data)+len(value)) > s.limit {
		return false, errTooLarge
	}
	if s.lines > 0 {
		s.data = append(s.data, '\n')
	}
	s.data = append(s.data, value...)
	s.lines++
	// A part of a JSON object is never one itself, so nothing is cut short here.
	text := bytes.TrimSpace(s.data)
	whole := s.lines <= eagerLines && len(text) > 1 && text[0] == '{' && text[len(text)-1] == '}' && json.Valid(text)
	return whole || string(text) == doneMark, nil
}

func (s *events) event(valid bool) event {
	text := bytes.TrimSpace(s.data)
	return event{name: s.name, data: text, object: valid && len(text) > 0 && text[0] == '{'}
}

// cutField divides a line at its colon, and takes off the space behind it.
func cutField(line []byte) (field string, value []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) { // no allocation for the usual ones
	case "data":
		return "data", value
	case "":
		return "", value
	}
	return string(name), value
}

// readLine returns a line with its end, valid until the next is read. At the
// end of the stream it returns what is left together with io.EOF.
func (s *events) readLine() ([]byte, error) {
	if s.again {
		s.again = false
		return s.line, nil
	}
	s.line = s.line[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		s.line = append(s.line, part...)
		if int64(len(s.line)) > s.limit {
			return nil, errTooLarge
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return s.line, err
		}
	}
}
