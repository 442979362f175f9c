package replay

import (
	"slices"
	"time"

	"nightshift/breaker"
	"nightshift/ladder"
	"nightshift/provider"
)

// lineEnd is how a line ended.
type lineEnd int

const (
	lineAnswered lineEnd = iota
	lineFailed
	lineExpired
)

// tally counts what happens in a simulation. It is the observer of attempts and
// probes.
type tally struct {
	run     *Run
	running **fiber
	batches []*batchTally
	waits   []int32 // of lines, ms from the batch's coming to the line's end
	ends    [3]int
	rungs   map[string]int // who answered
	reasons map[string]int
	degr    int

	calls, wasted, limited, probes, probesFailed, avoided int
	spent, wastedUSD                                      provider.USD
	deferrals, retries, guessed, during                   int
	held                                                  time.Duration
	firstHeld                                             time.Duration // by first attempts that began in outages
	cameInOutage                                          int           // lines
	outTill                                               time.Time     // the last end of the outages that have begun
	begunOutages                                          int
	minutes                                               minutes[minuteTally]
	stray                                                 map[string]int

	changes  []change
	outages  []*outageTally
	byKey    map[breaker.Key][]*outageTally
	admitted int // calls that passed an open breaker, which must be none
	states   map[breakerAt]breaker.State
	open     int // of them
	keys     map[string]breaker.Key
}

// everywhere is the place of a breaker that all workers share.
const everywhere = -1

// breakerAt is a breaker of one worker, or of all.
type breakerAt struct {
	worker int
	key    breaker.Key
}

// change is a transition.
type change struct {
	key breaker.Key
	to  breaker.State
	at  time.Time
}

type batchTally struct {
	batch    *Batch
	finished time.Time
	ends     [3]int
}

// minuteTally is one minute of a run, for charts.
type minuteTally struct{ Calls, Wasted, Answered int }

// outageTally follows one outage of one model.
type outageTally struct {
	Outage
	model     breaker.Key
	detected  time.Time
	recovered time.Time
	wasted    int
	usd       provider.USD
}

func newTally(r *Run, running **fiber) *tally {
	t := &tally{run: r, running: running, rungs: map[string]int{}, reasons: map[string]int{}, minutes: newMinutes[minuteTally](), stray: map[string]int{}, states: map[breakerAt]breaker.State{}, keys: map[string]breaker.Key{}, byKey: map[breaker.Key][]*outageTally{}}
	for _, k := range r.Setup.Keys {
		t.keys[k.Model] = k
	}
	if !r.Perfect {
		for _, o := range r.World.Outages() {
			for _, k := range r.Setup.Keys {
				if o.Model == k.Model {
					out := &outageTally{Outage: o, model: k}
					t.outages = append(t.outages, out)
					t.byKey[k] = append(t.byKey[k], out)
				}
			}
		}
	}
	return t
}

func (t *tally) strayQueue(name string) { t.stray[name]++ }

func (t *tally) came(b *Batch, now time.Time) {
	if t.isOut(now) {
		t.cameInOutage += len(b.Lines)
	}
	t.batches = append(t.batches, &batchTally{batch: b})
}

// begin is told of a call that is sent. No call of a line may pass an open breaker,
// but for the probe of a parent through a model whose own cooldown is over, which
// only the ticket tells: Called sees it.
func (t *tally) begin(f *fiber, model string) {
	if f.line == nil || t.open == 0 {
		return
	}
	k := t.keys[model]
	for _, place := range [2]int{everywhere, f.worker} {
		switch breaker.Open {
		case t.states[breakerAt{place, k.Parent()}]:
			t.admitted++
			return
		case t.states[breakerAt{place, k}]:
			f.throughOpen = true
		}
	}
}

// wastes says whether a call of that kind was for nothing.
func wastes(k provider.Kind) bool {
	switch k {
	case provider.Unavailable, provider.Timeout, provider.QuotaExhausted, provider.Misconfigured:
		return true
	}
	return false
}

// Called implements ladder.Observer.
func (t *tally) Called(e ladder.CallEvent) {
	end := e.Call.StartedAt.Add(e.Latency)
	m := t.minutes.at(end)
	t.calls++
	m.Calls++
	t.spent += e.Call.Cost
	if f := *t.running; f != nil && f.throughOpen {
		f.throughOpen = false
		if e.Scope != breaker.ScopeParent {
			t.admitted++
		}
	}
	ok := e.Call.Kind == provider.OK
	probe := e.Scope != ""
	if probe {
		t.probes++
		if !ok {
			t.probesFailed++
		}
	}
	if e.Call.Kind == provider.RateLimited {
		t.limited++
	}
	if wastes(e.Call.Kind) {
		t.wasted++
		m.Wasted++
	}
	if !ok || e.Purpose == ladder.ForProbe {
		t.wastedUSD += e.Call.Cost
	}
	during := false
	for _, o := range t.byKey[e.Key] {
		during = during || !e.Call.StartedAt.Before(o.From) && e.Call.StartedAt.Before(o.To)
		o.called(e, end, ok)
	}
	if during {
		t.during++
	}
}

// called follows a call of the outage's model.
func (o *outageTally) called(e ladder.CallEvent, end time.Time, ok bool) {
	began := e.Call.StartedAt
	if wastes(e.Call.Kind) && !end.Before(o.From) && began.Before(o.To) {
		o.wasted++
		o.usd += e.Call.Cost
	}
	if ok && e.Purpose != ladder.ForProbe && o.recovered.IsZero() && !began.Before(o.To) {
		o.recovered = began
	}
}

// Avoided implements ladder.Observer.
func (t *tally) Avoided(breaker.Key) { t.avoided++ }

// attempted counts an attempt.
func (t *tally) attempted(f *fiber, took time.Duration) {
	t.held += took
	if f.firstInOutage {
		t.firstHeld += took
	}
}

// isOut says whether a model is out. Time must not go back from one question to the next.
func (t *tally) isOut(now time.Time) bool {
	for t.begunOutages < len(t.outages) && !t.outages[t.begunOutages].From.After(now) {
		t.outTill = later(t.outTill, t.outages[t.begunOutages].To)
		t.begunOutages++
	}
	return now.Before(t.outTill)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (t *tally) deferred(reason string) {
	t.deferrals++
	t.reasons[reason]++
}

// changed follows a transition.
func (t *tally) changed(place int, k breaker.Key, from, to breaker.State, at time.Time) {
	if t.states[breakerAt{place, k}] == breaker.Open {
		t.open--
	}
	if t.states[breakerAt{place, k}] = to; to == breaker.Open {
		t.open++
	}
	if to == breaker.Open && from == breaker.Closed {
		t.changes = append(t.changes, change{k, to, at})
		for _, o := range t.outages {
			if (k == o.model || k == o.model.Parent()) && o.detected.IsZero() && !at.Before(o.From) && at.Before(o.To.Add(late)) {
				o.detected = at
			}
		}
	}
}

// late is how long after an outage an opening can still be due to it: its last
// calls hang that long.
const late = time.Minute

// ended is a line's end.
func (t *tally) ended(l *simLine, how lineEnd, a ladder.Answer, now time.Time) {
	t.ends[how]++
	b := t.batches[l.batch.index]
	b.ends[how]++
	if how == lineAnswered {
		t.rungs[a.Model]++
		if a.Degraded {
			t.degr++
		}
		t.minutes.at(now).Answered++
	}
	t.waits = append(t.waits, int32(min(now.Sub(l.batch.At).Milliseconds(), 1<<31-1)))
	if l.batch.left == 0 {
		b.finished = now
	}
}

// falseTrips are the openings outside of every outage of the model.
func (t *tally) falseTrips() (n int) {
	for _, c := range t.changes {
		due := slices.ContainsFunc(t.outages, func(o *outageTally) bool {
			return (c.key == o.model || c.key == o.model.Parent()) && !c.at.Before(o.From) && c.at.Before(o.To.Add(late))
		})
		if !due {
			n++
		}
	}
	return n
}
