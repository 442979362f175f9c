package dashboard

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
)

const (
	// readLimit bounds what one page waits for Redis.
	readLimit = 5 * time.Second
	// maxBatches and maxTransitions bound the length of the page.
	maxBatches     = 100
	maxTransitions = 3
)

// pageView is what templates/page.html shows.
type pageView struct {
	Now       time.Time
	Rehearsal bool
	Summary   summary
	Batches   []batchView
	Older     int // batches left out
	Breakers  []breakerView
	Guards    []guardView

	// BatchesMissing and its like: Redis did not answer for that part.
	BatchesMissing, BreakersMissing, GuardsMissing bool
	// NoBatch and NoBreaker: there is none, which is known.
	NoBatch, NoBreaker bool
}

// servePage reads the state and renders it.
func (d *Dashboard) servePage(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readLimit)
	defer cancel()
	view := d.read(ctx)
	var out bytes.Buffer // so that an error leaves no half page
	if err := d.page.Execute(&out, view); err != nil {
		d.opts.Logger.Error("render dashboard", "error", err)
		http.Error(w, "the page cannot be rendered; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if view.BatchesMissing || view.BreakersMissing || view.GuardsMissing {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = out.WriteTo(w) // the reader went away: nothing to be done
}

// read gathers what the page shows.
func (d *Dashboard) read(ctx context.Context) pageView {
	view := pageView{Now: d.opts.Now(), Rehearsal: d.opts.Rehearsal}
	batches, err := d.opts.Batches.List(ctx)
	if err != nil {
		d.opts.Logger.Warn("list batches for the dashboard", "error", err)
	}
	view.BatchesMissing = err != nil
	view.NoBatch = err == nil && len(batches) == 0
	breakers, err := d.opts.Breakers.List(ctx, d.opts.Keys)
	if err != nil {
		d.opts.Logger.Warn("list breakers for the dashboard", "error", err)
	}
	view.BreakersMissing = err != nil
	view.NoBreaker = err == nil && len(breakers) == 0
	guards, err := d.opts.Guards.List(ctx)
	if err != nil {
		d.opts.Logger.Warn("list guards for the dashboard", "error", err)
	}
	view.GuardsMissing, view.Guards = err != nil, guardViews(guards)
	for i := range batches {
		batches[i].AtDoors(breakers)
		if err == nil { // else it is not known that none is open
			batches[i].AtGuards(guards)
		}
	}
	var shown []batch.Status
	shown, view.Older = recent(batches)
	for _, s := range shown {
		view.Batches = append(view.Batches, newBatchView(s))
	}
	paces := d.readPaces(ctx, view.Now)
	for _, s := range breakers {
		v := newBreakerView(s)
		if s.Scope == breaker.ScopeModel {
			v.Pace = paces[s.Key.Model]
		}
		view.Breakers = append(view.Breakers, v)
	}
	view.Summary = summarise(batches, breakers, view.Guards)
	return view
}

// recent puts the unfinished batches first and leaves out what exceeds
// maxBatches; it returns how many that are.
func recent(all []batch.Status) (shown []batch.Status, older int) {
	shown = slices.Clone(all)
	slices.SortStableFunc(shown, func(a, b batch.Status) int { return finished(a) - finished(b) })
	if len(shown) > maxBatches {
		return shown[:maxBatches], len(shown) - maxBatches
	}
	return shown, 0
}

func finished(s batch.Status) int {
	if s.State == batch.Done {
		return 1
	}
	return 0
}

// summary is the page in one line.
type summary struct {
	Unfinished, Waiting int // batches
	NotClosed           int // breakers
	OpenGuards          int
}

func summarise(batches []batch.Status, breakers []breaker.Status, guards []guardView) (sum summary) {
	for _, b := range batches {
		sum.Unfinished += 1 - finished(b)
		if b.State == batch.Waiting {
			sum.Waiting++
		}
	}
	for _, b := range breakers {
		if b.State != breaker.Closed {
			sum.NotClosed++
		}
	}
	for _, g := range guards {
		sum.OpenGuards += 1 - closed(g)
	}
	return sum
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

// newBatchView lays the bar out: answered from the first rung, degraded,
// failed, expired, cancelled; the rest is outstanding.
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

// breakerView is a breaker with its name and its last few transitions.
type breakerView struct {
	breaker.Status
	Name string
	Last []breaker.Transition
	Pace *paceView // nil: not known, or a parent's
}

func newBreakerView(s breaker.Status) breakerView {
	v := breakerView{Status: s, Name: s.Key.Model, Last: s.Transitions}
	if s.Scope == breaker.ScopeParent {
		v.Name = s.Key.Parent().String()
	}
	if len(v.Last) > maxTransitions {
		v.Last = v.Last[:maxTransitions]
	}
	return v
}
