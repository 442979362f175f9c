package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"nightshift/batch"
	"nightshift/provider"
)

const (
	// recentLooked is how many of the last ends a batch's page looks at, maxRecent
	// how many it shows, and maxExamples how many lines of an error.
	recentLooked = 200
	maxRecent    = 12
	maxExamples  = 3
)

// batchPageView is what templates/batch.html shows.
type batchPageView struct {
	batchView
	Answered []share
	Reasons  []share // of deferrals
	Errors   []errorGroup
	Recent   []batch.EndedLine
	Steps    []batch.WaitingFor
	Cancel   bool // it can be cancelled
	Retry    int64
}

// share is a part of a whole, in thousandths of it.
type share struct {
	Name  string
	Count int64
	Of    float64
}

// errorGroup is the lines that ended with one code.
type errorGroup struct {
	Code     string
	Lines    int64
	Examples []int64 // lines, of those that ended last
	Retry    bool    // some of them can be run again
}

// batchPage shows everything of one batch.
func (d *Dashboard) batchPage(ctx context.Context, r *http.Request) content {
	id := r.PathValue("id")
	if line := r.URL.Query().Get("line"); line != "" {
		return d.toLine(id, line)
	}
	st, err := d.opts.Batches.Status(ctx, id)
	if c, ok := d.notThere(id, err); ok {
		return c
	}
	v := newBatchPageView(st)
	recent, err := d.opts.Batches.Recent(ctx, id, recentLooked)
	var lacks []part
	if err != nil {
		d.opts.Logger.Warn("read last ends for the dashboard", "batch", id, "error", err)
		lacks = append(lacks, "last ends")
	}
	v.addRecent(recent)
	return content{title: id, section: "batches", name: "batch", view: v, lacks: lacks}
}

// notThere is the page where a batch cannot be shown.
func (d *Dashboard) notThere(id string, err error) (content, bool) {
	switch {
	case err == nil:
		return content{}, false
	case errors.Is(err, batch.ErrNotFound):
		return noBatch(id), true
	}
	d.opts.Logger.Warn("read batch for the dashboard", "batch", id, "error", err)
	return content{title: id, section: "batches", name: "message", lacks: []part{"batch"}, view: message{
		Text: "The batch cannot be read right now.", Back: "/batches", BackTo: "Batches",
	}}, true
}

func noBatch(id string) content {
	return tell(http.StatusNotFound, "No such batch", "batches", message{
		Text: "There is no batch " + id + ".", Hint: "Batches are deleted some time after their end (batches.keep in the configuration).",
		Back: "/batches", BackTo: "Batches",
	})
}

// toLine leads from the form of a batch's page to the line that it names.
func (d *Dashboard) toLine(id, line string) content {
	if n, err := strconv.ParseInt(line, 10, 64); err != nil || n < 1 {
		return noLine(id, "A line has a number, from 1.")
	}
	return content{status: http.StatusSeeOther, redirect: "/batches/" + id + "/lines/" + line}
}

func newBatchPageView(st batch.Status) batchPageView {
	v := batchPageView{batchView: newBatchView(st), Steps: st.WaitingFor, Cancel: st.State != batch.Done && st.State != batch.Cancelling}
	v.Reasons, v.Answered = shares(st.DeferredFor), shares(st.AnsweredBy)
	for code, n := range st.EndedAs {
		if n <= 0 {
			continue
		}
		again := retriable(st, code)
		g := errorGroup{Code: code, Lines: n, Retry: again > 0}
		v.Retry += again
		v.Errors = append(v.Errors, g)
	}
	slices.SortFunc(v.Errors, func(a, b errorGroup) int { return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.Code, b.Code)) })
	return v
}

// retriable is how many of the lines that ended so can be run again.
func retriable(st batch.Status, code string) int64 {
	switch {
	case code == batch.CodeCancelled, code == "-", st.State == batch.Cancelling, st.Cancelled > 0:
		return 0
	case code == string(provider.InvalidRequest):
		return max(0, st.EndedAs[code]-st.PassedOver)
	}
	return max(0, st.EndedAs[code])
}

// shares are counts as shares of their sum, the largest first.
func shares(counts map[string]int64) (all []share) {
	var sum int64
	for _, n := range counts {
		sum += max(n, 0)
	}
	for name, n := range counts {
		if n > 0 {
			all = append(all, share{name, n, thousandths(n, sum)})
		}
	}
	slices.SortFunc(all, func(a, b share) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return all
}

// addRecent shows the last ends, and lines as examples of their errors.
func (v *batchPageView) addRecent(all []batch.EndedLine) {
	v.Recent = all[:min(len(all), maxRecent)]
	for i := range v.Errors {
		g := &v.Errors[i]
		for _, e := range all {
			if e.Code == g.Code && len(g.Examples) < maxExamples {
				g.Examples = append(g.Examples, e.Line)
			}
		}
	}
}
