package batch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"nightshift/internal/hours"
	"nightshift/limit"
	"nightshift/provider"
)

// Forecast is what a batch is thought to take, as of the time At. It stays in
// the batch's description, so that it can be held against what happened.
type Forecast struct {
	At time.Time `json:"at"`
	// StartAt is when its first line may begin, by its --at and the hours of its
	// queue; nil: at once.
	StartAt *time.Time `json:"start_at,omitempty"`
	Lines   int64      `json:"lines"`
	// InputTokens, OutputTokens and CostUSD are those of one call a line, at the
	// rung that it starts at.
	InputTokens  int64        `json:"input_tokens"`
	OutputTokens int64        `json:"output_tokens"`
	CostUSD      provider.USD `json:"cost_usd"`
	// TooLarge are those of Lines that fit the context of no rung: they take nothing.
	TooLarge int64 `json:"too_large,omitempty"`
	// Unpriced are the models among these that have no price: CostUSD is without them.
	Unpriced []string `json:"unpriced,omitempty"`
	// Rungs tells of each rung what all lines would take that may come to it.
	Rungs []RungForecast `json:"rungs"`
	// Ahead is how many lines of other batches of the queue are outstanding; all
	// are thought to come first.
	Ahead int64 `json:"ahead"`
	// FinishAt is when it will be done at the rate of the slowest of Bounds; nil:
	// nothing is known that would hold it.
	FinishAt *time.Time `json:"finish_at"`
	// Bounds are all limits that are known, the slowest first.
	Bounds []Bound `json:"bounds"`
	// Learned says that what the fleet has learned went into it, and not the
	// configuration alone.
	Learned bool `json:"learned"`
	// Guard is the hourly guard's arithmetic; nil: it has no limit for this producer.
	Guard *GuardForecast `json:"guard"`
}

// RungForecast is one rung of a forecast.
type RungForecast struct {
	Model        string        `json:"model"`
	Lines        int64         `json:"lines"`               // that may come to it: that do not start below
	TooLarge     int64         `json:"too_large,omitempty"` // of these, those that do not fit its context
	InputTokens  int64         `json:"input_tokens"`
	OutputTokens int64         `json:"output_tokens"`
	CostUSD      *provider.USD `json:"cost_usd"` // nil: it has no price
}

// Bound is one limit and how long the batch needs under it.
type Bound struct {
	What   BoundKind `json:"what"`
	Model  string    `json:"model,omitempty"`
	Limit  float64   `json:"limit"`  // calls or tokens a minute, calls in flight, slots, calls or USD an hour
	Source Origin    `json:"source"` // who says so
	// Seconds is how long it holds the batch, with the lines that are ahead: open
	// hours of its queue, from StartAt on.
	Seconds int64 `json:"seconds"`
}

// BoundKind is what a bound limits.
type BoundKind string

// The kinds of bounds.
const (
	BoundRequests    BoundKind = "requests"    // of a model, a minute
	BoundTokens      BoundKind = "tokens"      // of a model, a minute
	BoundConcurrency BoundKind = "concurrency" // calls of a model in flight
	BoundSlots       BoundKind = "slots"       // of the queue, in the workers that run
	BoundGuard       BoundKind = "guard"       // calls of the producer, an hour
	BoundGuardUSD    BoundKind = "guard_usd"   // USD of the producer, an hour
	BoundGlobalGuard BoundKind = "global_guard"
)

// Origin is where a bound is known from.
type Origin string

// The origins.
const (
	Configured Origin = "configured"
	Learned    Origin = "learned" // from refusals
	Told       Origin = "told"    // by the provider's headers
	Measured   Origin = "measured"
)

// Work is what a batch asks for, in tokens as they are estimated.
type Work struct {
	Lines    int64
	TooLarge int64      // of these, those that fit the context of no rung
	Rungs    []RungWork // of its ladder, in order
}

// RungWork is what a batch asks of one rung.
type RungWork struct {
	Model  string
	Text   bool // it has no model behind it: nothing is called
	Priced bool
	First  Sum // the lines that start here
	All    Sum // the lines that may come here: that start here or above
	// TooLarge are those of All that do not fit the model's context. They are in
	// neither of the sums.
	TooLarge int64
}

// Sum is so many lines and what they take.
type Sum struct {
	Lines, Input, Output int64
	Cost                 provider.USD
}

// Add adds one line.
func (s *Sum) Add(input, output int64, cost provider.USD) {
	s.Lines++
	s.Input += input
	s.Output += output
	s.Cost += cost
}

// Remove takes one line out.
func (s *Sum) Remove(input, output int64, cost provider.USD) {
	s.Lines--
	s.Input -= input
	s.Output -= output
	s.Cost -= cost
}

// Outlook is what is known of limits when a forecast is made.
type Outlook struct {
	Now time.Time
	// Paces are those of the models that are known; of the configuration alone
	// where Learned is false.
	Paces   map[string]limit.Pace
	Learned bool
	// Slots are those of the queue in all workers that run; 0: none runs, or it
	// is not known.
	Slots int
	// Ahead is how many lines of other batches of the queue are outstanding.
	Ahead int64
	Guard GuardOutlook
	// NotBefore is when its first line may begin; zero: at once. Hours are those of
	// its queue.
	NotBefore time.Time
	Hours     hours.Hours
}

// start is when its first line may begin.
func (o Outlook) start() time.Time {
	if o.NotBefore.After(o.Now) {
		return o.Hours.Next(o.NotBefore)
	}
	return o.Hours.Next(o.Now)
}

// Foresee makes the forecast of a batch. Of each line it counts one call, to the
// rung that it starts at; what is ahead is thought to be like the batch itself,
// and to go first. Outages, retries, repairs and lower rungs are not foreseen.
func Foresee(w Work, o Outlook) Forecast {
	f := Forecast{At: o.Now, Lines: w.Lines, TooLarge: w.TooLarge, Ahead: o.Ahead, Learned: o.Learned, Rungs: []RungForecast{}, Bounds: []Bound{}}
	for _, r := range w.Rungs {
		f.addRung(r)
	}
	f.Bounds = append(f.Bounds, w.bounds(o)...)
	start := o.start()
	if start.After(o.Now) {
		f.StartAt = timePtr(start.UTC())
	}
	o.Guard.start, o.Guard.hours = start, o.Hours
	f.Guard = o.Guard.foresee(w.Lines, f.CostUSD)
	f.Bounds = append(f.Bounds, o.Guard.bounds(w.Lines, f.CostUSD)...)
	slices.SortStableFunc(f.Bounds, func(a, b Bound) int { return cmp.Compare(b.Seconds, a.Seconds) })
	if len(f.Bounds) > 0 {
		at := o.Hours.After(start, time.Duration(f.Bounds[0].Seconds)*time.Second).UTC()
		f.FinishAt = &at
	}
	return f
}

func (f *Forecast) addRung(r RungWork) {
	f.InputTokens += r.First.Input
	f.OutputTokens += r.First.Output
	f.CostUSD += r.First.Cost
	row := RungForecast{
		Model: r.Model, Lines: r.All.Lines + r.TooLarge, TooLarge: r.TooLarge,
		InputTokens: r.All.Input, OutputTokens: r.All.Output,
	}
	if r.Priced {
		row.CostUSD = &r.All.Cost
	} else if r.First.Lines > 0 && !slices.Contains(f.Unpriced, r.Model) {
		f.Unpriced = append(f.Unpriced, r.Model)
	}
	f.Rungs = append(f.Rungs, row)
}

// bounds are those of the models and of the workers' slots.
func (w Work) bounds(o Outlook) (all []Bound) {
	share := 1.0 // how much more the batch is with what is ahead
	if w.Lines > 0 {
		share += float64(o.Ahead) / float64(w.Lines)
	}
	busy, slowest := time.Duration(0), time.Duration(0) // slot time; only of models of a known latency
	known := true
	for model, s := range w.firsts() {
		p, ok := o.Paces[model]
		if !ok {
			known = false
			continue
		}
		all = append(all, modelBounds(model, s, share, p)...)
		known = known && p.Latency > 0
		busy += scaled(float64(s.Lines)*share, p.Latency)
		slowest = max(slowest, p.Latency)
	}
	if known && o.Slots > 0 && busy > 0 {
		all = append(all, Bound{What: BoundSlots, Limit: float64(o.Slots), Source: Measured, Seconds: seconds(max(busy/time.Duration(o.Slots), slowest))})
	}
	slices.SortFunc(all, func(a, b Bound) int { return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.What, b.What)) })
	return all
}

// firsts are the sums of the lines that start at each model.
func (w Work) firsts() map[string]Sum {
	all := map[string]Sum{}
	for _, r := range w.Rungs {
		if r.Text || r.First.Lines == 0 {
			continue
		}
		s := all[r.Model]
		s.Lines, s.Input, s.Output, s.Cost = s.Lines+r.First.Lines, s.Input+r.First.Input, s.Output+r.First.Output, s.Cost+r.First.Cost
		all[r.Model] = s
	}
	return all
}

// modelBounds are the limits of one model. How fast it is called at the moment
// does not count: a start, or a ramp after an outage, is over in seconds. Nor does
// a burst, which is about a second's calls.
func modelBounds(model string, s Sum, share float64, p limit.Pace) (all []Bound) {
	add := func(what BoundKind, limit float64, from Origin, d time.Duration) {
		all = append(all, Bound{What: what, Model: model, Limit: limit, Source: from, Seconds: seconds(p.Parked + d + p.Latency)})
	}
	lines := float64(s.Lines) * share
	if n, from := tightest(1000*int64(p.Limits.RPM), p.LearnedRate, p.ToldRate); n > 0 {
		rate := float64(n) / 1000
		add(BoundRequests, rate, from, scaled(lines/rate, time.Minute))
	}
	if n, from := tightest(int64(p.Limits.TPM), 0, p.ToldTPM); n > 0 {
		tokens := float64(s.Input+s.Output) * share
		add(BoundTokens, float64(n), from, scaled(tokens/float64(n), time.Minute))
	}
	if n, from := tightest(int64(p.Limits.Concurrency), p.LearnedConcurrency, 0); n > 0 && p.Latency > 0 {
		add(BoundConcurrency, float64(n), from, scaled(max(lines/float64(n), 1)-1, p.Latency))
	}
	return all
}

// tightest is the lowest of the limits that are known; 0: none is.
func tightest(configured, learned, told int64) (n int64, from Origin) {
	for _, l := range []struct {
		n    int64
		from Origin
	}{{configured, Configured}, {learned, Learned}, {told, Told}} {
		if l.n > 0 && (n == 0 || l.n < n) {
			n, from = l.n, l.from
		}
	}
	return n, from
}

// longest bounds a forecast: what takes longer takes for ever.
const longest = 10 * 365 * 24 * time.Hour

func scaled(n float64, unit time.Duration) time.Duration {
	if d := n * float64(unit); d < float64(longest) {
		return time.Duration(d)
	}
	return longest
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(min(d, longest).Seconds())) }

// begins is when it was thought to begin.
func (f *Forecast) begins() time.Time {
	if f.StartAt != nil {
		return *f.StartAt
	}
	return f.At
}

// LinesBy is how many lines were thought to be done by a time, the same in each
// hour from the first to the last.
func (f *Forecast) LinesBy(t time.Time) int64 {
	if f.FinishAt == nil || !t.Before(*f.FinishAt) {
		return f.Lines
	}
	if !t.After(f.begins()) {
		return 0
	}
	return int64(float64(f.Lines) * float64(t.Sub(f.begins())) / float64(f.FinishAt.Sub(f.begins())))
}

// CostOf is what so many of its lines were thought to cost.
func (f *Forecast) CostOf(lines int64) provider.USD {
	if f.Lines <= 0 {
		return 0
	}
	return provider.USD(float64(f.CostUSD) * float64(lines) / float64(f.Lines))
}

// spanOf is how long so many of its lines were thought to take; 0: it is not known.
func (f *Forecast) spanOf(lines int64) time.Duration {
	if f.FinishAt == nil || f.Lines <= 0 {
		return 0
	}
	return scaled(float64(lines)/float64(f.Lines), f.FinishAt.Sub(f.begins()))
}
