package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/batch"
)

// oneLine is a store of a single request.
type oneLine struct {
	body []byte
	err  error
}

func (o oneLine) Request(context.Context, batch.Ref) (batch.Line, error) {
	return batch.Line{CustomID: "a", Body: o.body}, o.err
}

func newFormatter(lines oneLine, show bool) *formatter {
	return &formatter{
		batches: lines, show: show, now: time.Now, log: slog.New(slog.DiscardHandler),
		decode: func(b []byte) (batch.Ref, error) {
			if len(b) == 0 {
				return batch.Ref{}, errors.New("empty")
			}
			return batch.Ref{Batch: string(b), Line: 7, Generation: 2}, nil
		},
	}
}

func TestFormatPayload(t *testing.T) {
	for name, c := range map[string]struct {
		payload string
		lines   oneLine
		show    bool
		want    string
	}{
		"not ours":       {"", oneLine{}, true, "not a reference to a line (0 bytes)"},
		"reference":      {"b", oneLine{body: []byte(`{}`)}, false, `{"batch":"b","line":7,"generation":2}`},
		"request":        {"b", oneLine{body: []byte(`{"n":1}`)}, true, `{"batch":"b","line":7,"generation":2,"custom_id":"a","request":{"n":1}}`},
		"no longer kept": {"b", oneLine{err: batch.ErrNotFound}, true, `{"batch":"b","line":7,"generation":2,"note":"the request is no longer kept"}`},
	} {
		if got := newFormatter(c.lines, c.show).FormatPayload("line", []byte(c.payload)); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

func TestFormatResult(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		show   bool
		want   string
	}{
		"none":    {"", true, ""},
		"hidden":  {"an answer", false, "9 bytes, not shown (dashboard.show_content is off)"},
		"text":    {"two\nlines", true, `"two\nlines"`},
		"JSON":    {"{\n\"a\": 1\n}", true, `{"a":1}`},
		"invalid": {"\xff", true, `"\ufffd"`},
	} {
		if got := newFormatter(oneLine{}, c.show).FormatResult("line", []byte(c.result)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Whatever a request holds, what is shown is one printable line of JSON, bounded.
func TestFormatPayloadIsAlwaysShowable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "body")
		if rapid.Bool().Draw(t, "long") {
			body = []byte(strings.Repeat("ü"+string(body), contentLimit/2))
		}
		got := newFormatter(oneLine{body: body}, true).FormatPayload("line", []byte("b"))
		if !json.Valid([]byte(got)) {
			t.Fatalf("not JSON: %.200q", got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' }) {
			t.Fatalf("a control character in %.200q", got)
		}
		if len(got) > 6*contentLimit+300 { // a byte is at most six when escaped
			t.Fatalf("%d bytes", len(got))
		}
	})
}

func TestShownCutsAtACharacter(t *testing.T) {
	content := "x" + strings.Repeat("ü", contentLimit)
	view, note := shown([]byte(content))
	if s, ok := view.(string); !ok || strings.ContainsRune(s, '\ufffd') || !strings.HasPrefix(content, s) {
		t.Errorf("cut to %.20q… (%T)", view, view)
	}
	if note != "the first 16383 of 32769 bytes" {
		t.Errorf("note %q", note)
	}
}
