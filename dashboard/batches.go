package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"nightshift/batch"
	"nightshift/breaker"
)

// pageOfBatches is how many batches the list shows at a time.
const pageOfBatches = 200

// batchesView is what templates/batches.html shows.
type batchesView struct {
	Batches        []batchView
	Total, Matches int
	From, To       int // of the matches, from 1
	Page           int
	Newer, Older   string // paths of the pages beside it; "": none
	States         []stateFilter
	State          batch.State // "": all
}

// stateFilter is a state to show alone.
type stateFilter struct {
	State batch.State // "": all
	Count int
	Path  string
	Here  bool
}

// states are those that the list can be narrowed to, as they follow each other.
var states = []batch.State{batch.Enqueuing, batch.Scheduled, batch.Running, batch.Waiting, batch.Cancelling, batch.Done}

// batchesPage lists all batches, the unfinished first.
func (d *Dashboard) batchesPage(ctx context.Context, r *http.Request) content {
	s := d.see(ctx, partBatches)
	all := byUrgency(s.batches)
	state := batch.State(r.URL.Query().Get("state"))
	if !slices.Contains(states, state) {
		state = ""
	}
	v := batchesView{State: state, Total: len(all), States: d.stateFilters(all, state)}
	if state != "" {
		all = slices.DeleteFunc(all, func(b batch.Status) bool { return b.State != state })
	}
	v.Matches = len(all)
	page, _ := strconv.Atoi(r.URL.Query().Get("page")) // 0, as 1, is the first
	v.Page = min(max(page, 1), max(1, (len(all)+pageOfBatches-1)/pageOfBatches))
	from := (v.Page - 1) * pageOfBatches
	to := min(from+pageOfBatches, len(all))
	v.From, v.To = min(from+1, to), to
	v.Newer, v.Older = d.pagePath(state, v.Page-1, v.Page > 1), d.pagePath(state, v.Page+1, to < len(all))
	for _, b := range all[from:to] {
		v.Batches = append(v.Batches, newBatchView(b))
	}
	return content{title: "Batches", section: "batches", name: "batches", view: v, lacks: s.missing}
}

func (d *Dashboard) pagePath(state batch.State, page int, there bool) string {
	if !there {
		return ""
	}
	q := url.Values{}
	if state != "" {
		q.Set("state", string(state))
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	p := d.door.Path("/batches")
	if len(q) > 0 {
		p += "?" + q.Encode()
	}
	return p
}

func (d *Dashboard) stateFilters(all []batch.Status, here batch.State) []stateFilter {
	n := map[batch.State]int{}
	for _, b := range all {
		n[b.State]++
	}
	filters := []stateFilter{{Count: len(all), Path: d.pagePath("", 1, true), Here: here == ""}}
	for _, s := range states {
		if n[s] > 0 || s == here {
			filters = append(filters, stateFilter{s, n[s], d.pagePath(s, 1, true), s == here})
		}
	}
	return filters
}

// byUrgency sorts batches as an operator looks at them: first those that will be
// late, then by deadline, the finished ones last.
func byUrgency(all []batch.Status) []batch.Status {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b batch.Status) int {
		if c := cmp.Compare(urgency(a), urgency(b)); c != 0 || urgency(a) == urgencyOver {
			return c
		}
		switch {
		case a.Deadline == nil && b.Deadline == nil:
			return 0
		case a.Deadline == nil:
			return 1
		case b.Deadline == nil:
			return -1
		}
		return a.Deadline.Compare(*b.Deadline)
	})
	return sorted
}

// The order of batches on pages.
const (
	urgencyLate = iota
	urgencyRunning
	urgencyScheduled
	urgencyOver
)

func urgency(b batch.Status) int {
	switch {
	case b.State == batch.Done:
		return urgencyOver
	case b.OnTime != nil && !*b.OnTime:
		return urgencyLate
	case b.State == batch.Scheduled:
		return urgencyScheduled
	}
	return urgencyRunning
}

// batchView is a batch with its bar.
type batchView struct {
	batch.Status
	Bar []segment
}

// segment is one part of a bar; X and Width are in thousandths of it.
type segment struct {
	Name     string // also the class of its colour
	Lines    int64
	X, Width float64
}

// newBatchView lays the bar out: answered from the first rung, degraded, failed,
// expired, cancelled; the rest is outstanding.
func newBatchView(s batch.Status) batchView {
	v := batchView{Status: s}
	degraded := min(s.Degraded, s.Succeeded)
	x := 0.0
	for _, part := range []segment{
		{Name: "succeeded", Lines: s.Succeeded - degraded},
		{Name: "degraded", Lines: degraded},
		{Name: "failed", Lines: s.Failed},
		{Name: "expired", Lines: s.Expired},
		{Name: "cancelled", Lines: s.Cancelled},
	} {
		if part.Lines <= 0 || s.Total <= 0 {
			continue
		}
		part.X, part.Width = x, 1000*float64(part.Lines)/float64(s.Total)
		x += part.Width
		v.Bar = append(v.Bar, part)
	}
	return v
}

// Percent returns how much of the batch has ended, rounded down: 100 is done.
func (b batchView) Percent() int64 {
	if b.Total <= 0 {
		return 0
	}
	return 100 * (b.Total - b.Outstanding) / b.Total
}

// InWords is the bar for those who do not see it.
func (b batchView) InWords() string {
	parts := []string{strconv.FormatInt(b.Percent(), 10) + " % of the lines have ended"}
	for _, s := range b.Bar {
		parts = append(parts, count(s.Lines)+" "+s.Name)
	}
	if b.Outstanding > 0 {
		parts = append(parts, count(b.Outstanding)+" outstanding")
	}
	return strings.Join(parts, ", ")
}

// Late says that it will miss its deadline, or has; InTime, that it will not.
func (b batchView) Late() bool   { return b.OnTime != nil && !*b.OnTime }
func (b batchView) InTime() bool { return b.OnTime != nil && *b.OnTime }

// Over says that nothing of it is left to do.
func (b batchView) Over() bool { return b.State == batch.Done }

// DegradedShare is how many of its answers are not of the first choice, in per cent.
func (b batchView) DegradedShare() float64 {
	if b.Succeeded == 0 {
		return 0
	}
	return 100 * float64(b.Degraded) / float64(b.Succeeded)
}

// waitCause is what lines wait for, in words, after "waits for".
func waitCause(w batch.WaitingFor) string {
	switch w.Reason {
	case batch.ReasonPaused:
		if w.HeldBy != "" {
			return "its queue, paused by " + w.HeldBy
		}
		return "its queue, which is paused"
	case batch.ReasonHours:
		return "the hours of its queue"
	case batch.ReasonSchedule:
		return "its time to begin"
	case "guard":
		return "the hourly guard"
	case "retry":
		return "their next try"
	case "rung_after":
		return "a rung that opens later"
	case "deadline":
		return "their deadline"
	case "redis_unreachable":
		return "Redis"
	case "breaker_open":
		return breakerCause(w)
	}
	if w.Model != "" {
		return w.Model + ", " + words(w.Reason)
	}
	return words(w.Reason)
}

func breakerCause(w batch.WaitingFor) string {
	what := "its breaker is " + words(breaker.Open)
	if w.Parent != "" {
		what = "the breaker of " + w.Parent + " is open"
	}
	if w.HeldBy != "" {
		what += ", held by " + w.HeldBy
	}
	return w.Model + ": " + what
}
