package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"nightshift/batch"
	"nightshift/dashboard/internal/door"
)

// askCancel asks before a batch is cancelled.
func (d *Dashboard) askCancel(ctx context.Context, r *http.Request) content {
	id := r.PathValue("id")
	st, err := d.opts.Batches.Status(ctx, id)
	if c, ok := d.notThere(id, err); ok {
		return c
	}
	if st.State == batch.Done {
		return d.failed("batches", nil, message{Text: "The batch is done already.", Back: "/batches/" + id, BackTo: id})
	}
	return confirmation("batches", confirmView{
		Question: "Cancel " + id + "?", Path: "/batches/" + id + "/cancel", Button: "Cancel the batch", Harm: true,
		Facts: []string{
			number(st.Outstanding, "line has", "lines have") + " no result yet. Calls that are under way finish, and count; all other lines end as cancelled.",
			"What was finished keeps its result. Cancelled lines cannot be run again: submit them anew.",
		},
		Back: "/batches/" + id, BackTo: id,
	})
}

// cancel does it.
func (d *Dashboard) cancel(ctx context.Context, r *http.Request) content {
	id := r.PathValue("id")
	if batch.CheckID(id) != nil {
		return noBatch(id)
	}
	door.Audit(r, "cancel batch", id)
	err := d.opts.Changes.Cancel(ctx, id)
	if errors.Is(err, batch.ErrNotFound) {
		return noBatch(id)
	}
	if err != nil {
		return d.failed("batches", err, refusal(id, err))
	}
	return back("/batches/"+id, "cancel", id)
}

// askRetry asks before the lines of a batch that ended with a code, or with any, are
// run again.
func (d *Dashboard) askRetry(ctx context.Context, r *http.Request) content {
	id, code := r.PathValue("id"), r.FormValue("code")
	st, err := d.opts.Batches.Status(ctx, id)
	if c, ok := d.notThere(id, err); ok {
		return c
	}
	v := newBatchPageView(st)
	lines, what := v.Retry, "that failed or expired"
	if code != "" {
		lines, what = retriable(st, code), "that ended as "+words(code)
	}
	if lines == 0 {
		return d.failed("batches", nil, message{Text: "No line of the batch is to be run again.", Back: "/batches/" + id, BackTo: id})
	}
	q := confirmView{
		Question: "Run " + number(lines, "line", "lines") + " of " + id + " again?", Path: "/batches/" + id + "/retry", Button: "Run again",
		Facts: []string{
			"The lines " + what + " lose their results and go back into the backlog, before those that have not begun.",
			"The batch keeps what they have cost, and pays for the new calls.",
		},
		Fields: []field{{"code", code}}, Back: "/batches/" + id, BackTo: id,
	}
	if st.Deadline != nil && !st.Deadline.After(d.opts.Now()) {
		q.Facts = append(q.Facts, "The deadline of the batch has passed, so it needs a new one.")
		q.Choice = &choice{"deadline", "Done within", []field{{"8 h", "8h"}, {"2 h", "2h"}, {"24 h", "24h"}}}
	}
	return confirmation("batches", q)
}

// retry does it.
func (d *Dashboard) retry(ctx context.Context, r *http.Request) content {
	id := r.PathValue("id")
	if batch.CheckID(id) != nil {
		return noBatch(id)
	}
	var which batch.Retry
	if code := r.FormValue("code"); code != "" {
		which.Codes = []string{code}
	}
	if span := r.FormValue("deadline"); span != "" {
		within, err := time.ParseDuration(span)
		if err != nil || within <= 0 || within > 31*24*time.Hour {
			return d.failed("batches", err, message{Text: "That is no deadline.", Back: "/batches/" + id, BackTo: id})
		}
		which.Deadline = d.opts.Now().Add(within)
	}
	door.Audit(r, "retry lines of batch", id)
	n, err := d.opts.Changes.Retry(ctx, id, which, nil)
	lines := strconv.FormatInt(n, 10)
	switch {
	case err == nil:
		return back("/batches/"+id, "retry", lines)
	case errors.Is(err, batch.ErrNotFound):
		return noBatch(id)
	case n > 0 && errors.Is(err, context.DeadlineExceeded):
		return back("/batches/"+id, "more", lines)
	}
	return d.failed("batches", err, refusal(id, err))
}
