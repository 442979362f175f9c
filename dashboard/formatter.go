package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"nightshift/batch"
)

const (
	// lookupLimit bounds the lookup of one line, and lookupPause is how long
	// none is tried after one that failed: a page has up to 200 of them.
	lookupLimit = time.Second
	lookupPause = 5 * time.Second
	// contentLimit is how many bytes of a request or result are shown.
	contentLimit = 16 << 10
)

// requests look lines up.
type requests interface {
	Request(ctx context.Context, ref batch.Ref) (batch.Line, error)
}

// formatter shows the payload of a task as the line that it names. It is safe
// for concurrent use.
type formatter struct {
	batches requests
	decode  func([]byte) (batch.Ref, error)
	show    bool // content, not only references
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	paused time.Time // no lookup before
}

// lineView is what a payload is shown as.
type lineView struct {
	Batch      string `json:"batch"`
	Line       int64  `json:"line"`
	Generation int    `json:"generation"`
	CustomID   string `json:"custom_id,omitempty"`
	Endpoint   string `json:"endpoint,omitempty"`
	Request    any    `json:"request,omitempty"` // the body, or its beginning as a text
	Note       string `json:"note,omitempty"`
}

// FormatPayload returns the line that a payload names, as JSON on one line.
func (f *formatter) FormatPayload(_ string, payload []byte) string {
	ref, err := f.decode(payload)
	if err != nil {
		return fmt.Sprintf("not a reference to a line (%d bytes)", len(payload))
	}
	view := lineView{Batch: ref.Batch, Line: ref.Line, Generation: ref.Generation}
	if f.show {
		f.fill(&view, ref)
	}
	return encode(view)
}

// FormatResult returns a task's result; the content only where it may be shown.
func (f *formatter) FormatResult(_ string, result []byte) string {
	switch {
	case len(result) == 0:
		return ""
	case !f.show:
		return fmt.Sprintf("%d bytes, not shown (dashboard.show_content is off)", len(result))
	}
	content, note := shown(result)
	if note == "" {
		return encode(content)
	}
	return encode(map[string]any{"result": content, "note": note})
}

// fill looks the line's request up.
func (f *formatter) fill(view *lineView, ref batch.Ref) {
	if !f.mayLookUp() {
		view.Note = "the request cannot be read right now"
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	line, err := f.batches.Request(ctx, ref)
	switch {
	case errors.Is(err, batch.ErrNotFound):
		view.Note = "the request is no longer kept"
	case err != nil:
		view.Note = "the request cannot be read right now"
		f.pause()
		f.log.Warn("look up line for the dashboard", "batch", ref.Batch, "line", ref.Line, "error", err)
	default:
		view.CustomID, view.Endpoint = line.CustomID, line.Endpoint
		view.Request, view.Note = shown(line.Body)
	}
}

func (f *formatter) mayLookUp() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.now().Before(f.paused)
}

func (f *formatter) pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = f.now().Add(lookupPause)
}

// shown returns content as JSON where it is JSON and short, else as a text, cut
// at a character; the note says so.
func shown(content []byte) (view any, note string) {
	if len(content) > contentLimit {
		cut := contentLimit
		for cut > contentLimit-utf8.UTFMax && !utf8.RuneStart(content[cut]) {
			cut--
		}
		return string(content[:cut]), fmt.Sprintf("the first %d of %d bytes", cut, len(content))
	}
	if json.Valid(content) {
		return json.RawMessage(content), ""
	}
	return string(content), ""
}

// encode returns v as JSON on one line, which asynqmon's page lays out.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // only strings, numbers and valid JSON come here
		return err.Error()
	}
	return string(b)
}
