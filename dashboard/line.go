package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"nightshift/batch"
	"nightshift/provider"
)

// storyView is what templates/line.html shows: one line's story.
type storyView struct {
	batch.Story
	Attempts []attemptView
	Calls    int
	Usage    provider.Usage
	// Show says that content may be shown; Request and Answer are it, or the
	// beginning of it, as the notes say.
	Show                 bool
	Request, RequestNote string
	Answer, AnswerNote   string
	Endpoint             string
	ContentMissing       bool // it could not be read
	Previous, Next       int64
}

// attemptView is a call, or a rung that was passed over.
type attemptView struct {
	provider.Call
	Number int // of the call; 0: it is none
}

// linePage tells the story of one line.
func (d *Dashboard) linePage(ctx context.Context, r *http.Request) content {
	id := r.PathValue("id")
	number, err := strconv.ParseInt(r.PathValue("line"), 10, 64)
	if err != nil || number < 1 {
		return noLine(id, "A line has a number, from 1.")
	}
	story, err := d.opts.Batches.Why(ctx, id, number)
	var missing *batch.NoLineError
	switch {
	case errors.As(err, &missing):
		return noLine(id, "This batch has no line "+strconv.FormatInt(number, 10)+": its "+count(missing.Total)+
			" lines are numbered "+strconv.FormatInt(missing.First, 10)+" to "+strconv.FormatInt(missing.Last, 10)+".")
	case errors.Is(err, batch.ErrNotFound):
		return noBatch(id)
	case err != nil:
		d.opts.Logger.Warn("read line for the dashboard", "batch", id, "line", number, "error", err)
		return content{title: "Line " + strconv.FormatInt(number, 10), section: "batches", name: "message", lacks: []part{"line"}, view: message{
			Text: "The line cannot be read right now.", Back: "/batches/" + id, BackTo: id,
		}}
	}
	v := d.newStoryView(ctx, story)
	return content{title: "Line " + strconv.FormatInt(number, 10), section: "batches", name: "line", view: v, still: story.Stage == batch.StageFinished}
}

func noLine(id, why string) content {
	return tell(http.StatusNotFound, "No such line", "batches", message{Text: why, Back: "/batches/" + id, BackTo: id})
}

func (d *Dashboard) newStoryView(ctx context.Context, s batch.Story) storyView {
	v := storyView{Story: s, Show: d.opts.ShowContent, Next: s.Line + 1}
	if s.Line > 1 {
		v.Previous = s.Line - 1
	}
	for _, c := range s.Attempts {
		a := attemptView{Call: c}
		if c.Kind != batch.KindSkipped {
			v.Calls++
			a.Number = v.Calls
		}
		v.Usage = v.Usage.Plus(c.Usage)
		v.Attempts = append(v.Attempts, a)
	}
	if v.Show {
		d.addContent(ctx, &v)
	}
	return v
}

// addContent adds the prompt and the answer.
func (d *Dashboard) addContent(ctx context.Context, v *storyView) {
	line, err := d.opts.Batches.Request(ctx, batch.Ref{Batch: v.Batch, Line: v.Line})
	if err == nil {
		v.Endpoint = line.Endpoint
		v.Request, v.RequestNote = readable(line.Body)
	}
	if err == nil && v.Stage == batch.StageFinished {
		err = d.addAnswer(ctx, v)
	}
	if err != nil && !errors.Is(err, batch.ErrNotFound) {
		d.opts.Logger.Warn("read content of a line for the dashboard", "batch", v.Batch, "line", v.Line, "error", err)
		v.ContentMissing = true
	}
}

func (d *Dashboard) addAnswer(ctx context.Context, v *storyView) error {
	rec, err := d.opts.Batches.Record(ctx, v.Batch, v.Line)
	if err != nil {
		return err
	}
	var r batch.Result
	if err := json.Unmarshal(rec.JSON, &r); err != nil {
		return err
	}
	if r.Response != nil {
		v.Answer, v.AnswerNote = readable(r.Response.Body)
	}
	return nil
}

// readable returns content laid out where it is JSON and short, else as it is, cut;
// the note says so.
func readable(body []byte) (text, note string) {
	view, note := shown(body)
	if raw, ok := view.(json.RawMessage); ok {
		return indent(raw), note
	}
	text, _ = view.(string)
	return text, note
}
