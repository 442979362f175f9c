package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"nightshift/provider"
)

const (
	// minuteSamples bounds the latencies that are kept of a minute and kind.
	minuteSamples = 32
	// nearMinutes is how far from a minute without a call another one may be to
	// stand for it without a remark.
	nearMinutes = 2
	// leastOutage is how many calls must have failed for a time to be an outage.
	leastOutage = 5
)

// history is what a log tells of the models.
type history struct {
	models  map[string]*modelHistory
	outages []Outage
}

// modelHistory is a model's minutes.
type modelHistory struct {
	name    string
	stand   bool // for a model that the log has not
	minutes minutes[minute]
	order   []int64 // of them
	whole   minute  // all of it
	output  int64   // tokens of all answers
	calls   []mark  // for outages
	out     []outMinute
}

// outMinute is what calls came to in an outage. They do not count in their minutes:
// an outage is rarely as long as some.
type outMinute struct {
	Outage
	minute
}

// mark is a call that says whether the model is up; its times are in ms, since a log
// has a million of them.
type mark struct {
	at, end int64
	kind    provider.Kind
}

func ofMS(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func (m *mark) bad() bool { return m.kind != provider.OK }

// minute is what calls to a model came to in one.
type minute struct {
	n     int
	kinds []kindOf // by kind
}

// kindOf is one kind of outcome.
type kindOf struct {
	kind    provider.Kind
	n       int
	seen    []sample
	retryMS int64 // the longest
}

type sample struct{ latency, first int32 } // ms

// note takes a call.
func (h *history) note(r *Record) {
	m := h.models[r.Model]
	if m == nil {
		m = &modelHistory{name: r.Model, minutes: newMinutes[minute]()}
		h.models[r.Model] = m
	}
	if r.Kind == provider.Canceled {
		return // we ended it: it says nothing of the model
	}
	m.minutes.at(r.Time).note(r, minuteSamples)
	m.whole.note(r, 4096)
	if r.Kind == provider.OK {
		m.output += r.Output
	}
	if r.Kind == provider.OK || wastes(r.Kind) {
		m.calls = append(m.calls, mark{r.Time.UnixMilli(), r.end().UnixMilli(), r.Kind})
	}
}

// note keeps the first samples, and of those after them each as likely as any
// (reservoir sampling, by the count in place of chance, so that it is repeatable).
func (m *minute) note(r *Record, most int) {
	m.n++
	i := slices.IndexFunc(m.kinds, func(k kindOf) bool { return k.kind == r.Kind })
	if i < 0 {
		i = len(m.kinds)
		m.kinds = append(m.kinds, kindOf{kind: r.Kind})
	}
	k := &m.kinds[i]
	k.n++
	k.retryMS = max(k.retryMS, r.RetryAfterMS)
	s := sample{int32(min(r.LatencyMS, 1<<30)), int32(min(r.FirstTokenMS, 1<<30))}
	if len(k.seen) < most {
		k.seen = append(k.seen, s)
	} else if at := int(mix(uint64(k.n)) % uint64(k.n)); at < most {
		k.seen[at] = s
	}
}

func (m *minute) of(kind provider.Kind) *kindOf {
	for i := range m.kinds {
		if m.kinds[i].kind == kind {
			return &m.kinds[i]
		}
	}
	return nil
}

// finish sorts what was noted and finds the outages.
func (h *history) finish() {
	for _, name := range slices.Sorted(maps.Keys(h.models)) {
		m := h.models[name]
		found := m.findOutages()
		h.outages = append(h.outages, found...)
		m.part(found)
		m.order = slices.Sorted(maps.Keys(m.minutes.all))
		m.calls = nil
	}
}

// part takes the calls of outages out of their minutes.
func (m *modelHistory) part(found []Outage) {
	for _, o := range found {
		m.out = append(m.out, outMinute{Outage: o})
	}
	for _, c := range m.calls {
		o := m.outage(ofMS(c.at))
		if o == nil {
			continue
		}
		n := ofMS(c.at).Unix() / 60
		k := m.minutes.all[n].of(c.kind)
		o.note(&Record{Kind: c.kind, LatencyMS: c.end - c.at, RetryAfterMS: k.retryMS}, minuteSamples)
		k.n--
		if m.minutes.all[n].n--; m.minutes.all[n].n == 0 && len(m.minutes.all) > 1 {
			delete(m.minutes.all, n)
		}
	}
}

// outage is the one at a time; nil: there is none.
func (m *modelHistory) outage(at time.Time) *outMinute {
	i, _ := slices.BinarySearchFunc(m.out, at, func(o outMinute, at time.Time) int { return o.To.Compare(at) })
	for ; i < len(m.out); i++ {
		if o := &m.out[i]; at.Before(o.From) {
			break
		} else if at.Before(o.To) || at.Equal(o.From) {
			return o
		}
	}
	return nil
}

// findOutages looks for times from a failure to the next run of answers in which
// most calls failed, by when the calls were sent. Two answers in a row end one; what is flaky is none.
func (m *modelHistory) findOutages() (all []Outage) {
	slices.SortStableFunc(m.calls, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	var from, lastBad, firstGood int64
	bad, good, row := 0, 0, 0
	end := func(to int64) {
		if bad >= leastOutage && bad >= 2*good {
			all = append(all, Outage{m.name, ofMS(from), ofMS(to)})
		}
		bad, good, row = 0, 0, 0
	}
	for _, c := range m.calls {
		switch {
		case c.bad():
			if bad == 0 {
				from = c.at
			}
			bad++
			row = 0
			lastBad = c.end
		case bad > 0:
			if row == 0 {
				firstGood = c.at
			}
			row++
			good++
			if row == 2 {
				good -= 2
				end(max(from, firstGood))
			}
		}
	}
	if bad > 0 {
		end(lastBad)
	}
	return all
}

// standIns gives models that the log has not the whole of another, and says which.
func (h *history) standIns(models []string, providerOf func(string) string) (said []string) {
	known := slices.Sorted(maps.Keys(h.models))
	for _, name := range models {
		if m := h.models[name]; m != nil && m.whole.n > 0 {
			continue
		}
		var best *modelHistory
		for _, k := range known {
			m := h.models[k]
			if m.whole.n == 0 {
				continue
			}
			same := providerOf(k) == providerOf(name)
			if best == nil || same && (providerOf(best.name) != providerOf(name) || m.whole.n > best.whole.n) {
				best = m
			}
		}
		if best == nil {
			continue
		}
		h.models[name] = &modelHistory{name: name, stand: true, whole: best.whole.answers(), output: best.output}
		said = append(said, fmt.Sprintf("the log has no call of %s: it is taken to answer as %s did in all, and never to fail", name, best.name))
	}
	return said
}

// answers is the minute with nothing but its answers.
func (m *minute) answers() minute {
	k := m.of(provider.OK)
	if k == nil {
		return minute{n: 1, kinds: []kindOf{{kind: provider.OK, n: 1, seen: []sample{{2000, 0}}}}}
	}
	return minute{n: k.n, kinds: []kindOf{*k}}
}

// loggedWorld answers as in the log.
type loggedWorld struct {
	*history
	perfect bool
	taken   map[limitKey]int // calls taken in a minute that had refusals
}

type limitKey struct {
	model string
	n     int64
}

func (w *loggedWorld) outcome(model string, at time.Time, d draw, c callSize) outcome {
	m := w.models[model]
	if m == nil {
		return outcome{kind: provider.OK, latency: 2 * time.Second, size: c, guessed: true}
	}
	mi, n, guessed := m.minute(at)
	if out := m.outage(at); out != nil && !w.perfect {
		mi, n, guessed = &out.minute, -1, false
	}
	o := outcome{size: c, guessed: guessed}
	k := w.pick(mi, model, n, d.next())
	if w.perfect && (wastes(k.kind) || k.kind == provider.OK) {
		k = mi.of(provider.OK)
		if k == nil {
			answers := m.whole.answers()
			k = &answers.kinds[0]
		}
	}
	s := k.seen[int(d.next()*float64(len(k.seen)))]
	o.kind, o.latency, o.firstToken = k.kind, time.Duration(s.latency)*time.Millisecond, time.Duration(s.first)*time.Millisecond
	o.retryAfter = time.Duration(k.retryMS) * time.Millisecond
	// A timeout of the log says that the model was silent for so long: longer, for all we know.
	o.hangs = k.kind == provider.Timeout
	switch {
	case k.kind != provider.OK && k.kind != provider.InvalidOutput:
		o.size = callSize{}
	case o.size.output == 0:
		ok := m.whole.of(provider.OK)
		if o.size.output = int64(300); ok != nil {
			o.size.output = cmp.Or(m.output/int64(ok.n), 1)
		}
	}
	return o
}

// pick is a kind of a minute by its share. In a minute with refusals by a rate
// limit, as many calls are taken as were then, and the rest is refused.
func (w *loggedWorld) pick(mi *minute, model string, n int64, luck float64) *kindOf {
	limited := mi.of(provider.RateLimited)
	total := mi.n
	if limited != nil {
		total -= limited.n
		key := limitKey{model, n}
		if w.taken[key] >= total {
			return limited
		}
		w.taken[key]++
	}
	left := luck * float64(total)
	var last *kindOf
	for i := range mi.kinds {
		k := &mi.kinds[i]
		if k.kind == provider.RateLimited {
			continue
		}
		last = k
		if left -= float64(k.n); left < 0 {
			break
		}
	}
	return last
}

// minute is the one that stands for a time: its own, else the last before it, since
// a state lasts until something shows another, else the first.
func (m *modelHistory) minute(at time.Time) (mi *minute, n int64, guessed bool) {
	if m.stand {
		return &m.whole, 0, true
	}
	n = at.Unix() / 60
	if mi = m.minutes.all[n]; mi != nil {
		return mi, n, false
	}
	i, _ := slices.BinarySearch(m.order, n)
	i = max(i-1, 0)
	near := m.order[i]
	return m.minutes.all[near], n, max(n-near, near-n) > nearMinutes
}
