package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns the events of a stream as text, and how it ended.
func readAll(s *events) (all []string, err error) {
	for {
		e, err := s.next()
		if err != nil {
			return all, err
		}
		all = append(all, fmt.Sprintf("%s|%s|%v", e.name, e.data, e.object))
	}
}

func TestEvents(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []string
	}{
		"as the standard has it":        {"event: x\ndata: {\"a\":1}\n\ndata: [DONE]\n\n", []string{`x|{"a":1}|true`, "|[DONE]|false"}},
		"CRLF":                          {"data: {\"a\":1}\r\n\r\ndata: {}\r\n\r\n", []string{`|{"a":1}|true`, "|{}|true"}},
		"no space":                      {"data:{}\n\n", []string{"|{}|true"}},
		"a mark before it":              {"\ufeffdata: {}\n\n", []string{"|{}|true"}},
		"comments and empty lines":      {": keep-alive\n\n\n:\n\ndata: {}\n\n: x\n", []string{"|{}|true"}},
		"other fields":                  {"id: 7\nretry: 10\ndata: {}\n\n", []string{"|{}|true"}},
		"events without a line between": {"data: {}\ndata: {\"a\":{}}\ndata: [DONE]\n", []string{"|{}|true", `|{"a":{}}|true`, "|[DONE]|false"}},
		"no end of the last line":       {"data: {}", []string{"|{}|true"}},
		"a text without an end":         {"data: oops", []string{"|oops|false"}},
		"an object over lines":          {"data: {\"a\":\ndata: {\"b\":1}\ndata: }\n\n", []string{"|{\"a\":\n{\"b\":1}\n}|true"}},
		"a text over lines":             {"data: a\ndata:\ndata: b\n\n", []string{"|a\n\nb|false"}},
		"empty data":                    {"data:\n\ndata: \n\nevent: ping\n\ndata: {}\n\n", []string{"|{}|true"}},
		"a name does not outlive":       {"event: x\n\ndata: {}\n\n", []string{"|{}|true"}},
		"older llama.cpp":               {"error: {\"code\":500}\n\n", []string{`error|{"code":500}|true`}},
		"not an object":                 {"data: [1]\n\ndata: {\"a\"\n\n", []string{"|[1]|false", `|{"a"|false`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newEvents(iotest.OneByteReader(strings.NewReader(tt.in)), 1000)
			if is, err := s.isStream(); !is || err != nil {
				t.Fatalf("not a stream: %v", err)
			}
			got, err := readAll(s)
			if !errors.Is(err, io.EOF) || strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got %q, %v\nwant %q", got, err, tt.want)
			}
		})
	}
}

func TestEventsThatAreNone(t *testing.T) {
	for body, want := range map[string]error{
		"\n\n {\"a\":1}\n\n": nil, "<html>": nil, "upstream connect error": nil, "[1]": nil, "database: x\n": nil,
		"": io.EOF, "\n\n": io.EOF,
	} {
		s := newEvents(strings.NewReader(body), 1000)
		is, err := s.isStream()
		if is || !errors.Is(err, want) {
			t.Errorf("%q: %v, %v", body, is, err)
		}
		rest, err := s.whole()
		if string(rest) != strings.TrimLeft(body, "\n") || err != nil {
			t.Errorf("%q: the rest is %q, %v", body, rest, err)
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	for name, body := range map[string]string{
		"a line":     "data: " + strings.Repeat("x", 100),
		"many lines": strings.Repeat("data: x\n", 60),
		"a comment":  ": " + strings.Repeat("x", 100),
	} {
		if _, err := readAll(newEvents(strings.NewReader(body), 100)); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for size, want := range map[int]error{100: nil, 101: errTooLarge} {
		s := newEvents(strings.NewReader("{\n"+strings.Repeat(" ", size-2)), 100)
		if _, err := s.isStream(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.whole(); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestEventsTellABrokenStream(t *testing.T) {
	broken := errors.New("reset")
	s := newEvents(io.MultiReader(strings.NewReader("data: {}\n\ndata: {\"a\""), iotest.ErrReader(broken)), 100)
	got, err := readAll(s)
	if len(got) != 1 || !errors.Is(err, broken) {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: x\ndata: {\"a\":1}\n\n: c\r\ndata: [DONE]\n"))
	f.Add([]byte("error:\v"))
	f.Add([]byte("\ufeff\nerror: {\ndata: }\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		const limit = 200
		s := newEvents(bytes.NewReader(body), limit)
		if is, err := s.isStream(); !is || err != nil {
			return
		}
		for {
			e, err := s.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, errTooLarge) {
					t.Fatal(err)
				}
				return
			}
			if len(e.data) == 0 || len(e.data) > 2*limit || e.object != (json.Valid(e.data) && e.data[0] == '{') {
				t.Fatalf("%q: event %q, object %v", body, e.data, e.object)
			}
		}
	})
}
