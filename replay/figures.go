package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"nightshift/provider"
)

// Figures are what a simulation came to. Durations are in seconds, money in USD.
type Figures struct {
	Setup  string `json:"setup"`
	Policy string `json:"policy"`

	Lines      int `json:"lines"`
	Answered   int `json:"answered"`
	Failed     int `json:"failed"`
	Expired    int `json:"expired"`
	Unfinished int `json:"unfinished"`

	Calls        int          `json:"calls"`
	Wasted       int          `json:"wasted_calls"`  // failed: unavailable, timeout, quota, misconfigured
	Limited      int          `json:"limited_calls"` // refused by a rate limit, which costs nothing
	Probes       int          `json:"probes"`
	ProbesFailed int          `json:"probes_failed"`
	During       int          `json:"calls_in_outages"` // sent to a model while it was out
	Avoided      int          `json:"avoided_calls"`    // kept away by a breaker
	Spent        provider.USD `json:"spent_usd"`
	WastedUSD    provider.USD `json:"wasted_usd"` // of it: failed calls, invalid answers, probes

	Deferrals     int            `json:"deferrals"`
	DeferralsLine float64        `json:"deferrals_per_line"`
	Reasons       map[string]int `json:"deferral_reasons"`
	Retries       int            `json:"retries"`

	WaitP50  float64 `json:"wait_p50_s"` // of a line, from its batch's coming to its end
	WaitP95  float64 `json:"wait_p95_s"`
	WaitMean float64 `json:"wait_mean_s"`
	HeldMean float64 `json:"held_mean_s"` // that a line held a slot, all its attempts

	// CameInOutage are lines that came while a model was out, and FirstMean is how long the
	// first attempts that began then held a slot, a line of these: what each of them would
	// have waited if it had been answered, refused or given up at once.
	CameInOutage int     `json:"came_in_outages"`
	FirstMean    float64 `json:"first_attempt_in_outage_s"`

	Outages    []OutageFigures `json:"outages"`
	FalseTrips int             `json:"false_trips"`
	Detect     *float64        `json:"detect_mean_s"`  // over the outages that were seen; null: none was
	Recover    *float64        `json:"recover_mean_s"` // from an outage's end to the first answered call
	Batches    []BatchFigures  `json:"batches"`
	Rungs      []RungFigures   `json:"rungs"`
	Degraded   float64         `json:"degraded_share"`
	Guessed    float64         `json:"guessed_share"` // calls of which the log says nothing at their time
	Admitted   int             `json:"admitted_through_open"`
	Bound      *Bound          `json:"bound,omitempty"`

	minutes map[int64]minuteTally
}

// OutageFigures are those of one outage of one model.
type OutageFigures struct {
	Model   string       `json:"model"`
	From    time.Time    `json:"from"`
	To      time.Time    `json:"to"`
	Detect  *float64     `json:"detect_s"`  // null: the breaker did not open
	Recover *float64     `json:"recover_s"` // null: no call was answered after it
	Wasted  int          `json:"wasted_calls"`
	USD     provider.USD `json:"wasted_usd"`
}

// BatchFigures are those of one batch.
type BatchFigures struct {
	ID       string    `json:"id"`
	Lines    int       `json:"lines"`
	Came     time.Time `json:"came"`
	Finished time.Time `json:"finished,omitzero"` // zero: it did not
	Took     float64   `json:"took_s"`
	Ideal    *float64  `json:"ideal_s,omitempty"` // with providers that never fail
	Answered int       `json:"answered"`
}

// RungFigures say what a rung answered.
type RungFigures struct {
	By    string  `json:"by"`
	Lines int     `json:"lines"`
	Share float64 `json:"share"`
}

// Bound is what our breaker may waste in an outage at most: the calls in flight when
// it begins, its ring, and its probes.
type Bound struct {
	InFlight int  `json:"in_flight"` // slots of the fleet
	Ring     int  `json:"ring"`
	Probes   int  `json:"probes"`
	Wasted   int  `json:"wasted_calls"` // the most in one outage of one model
	Holds    bool `json:"holds"`
}

// figures sums up.
func (t *tally) figures(m *machine) *Figures {
	lines := 0
	for _, b := range m.Traffic.Batches {
		lines += len(b.Lines)
	}
	f := &Figures{
		Setup: m.Setup.Name, Policy: m.Policy.Name, Lines: lines, Unfinished: m.left,
		Answered: t.ends[lineAnswered], Failed: t.ends[lineFailed], Expired: t.ends[lineExpired],
		Calls: t.calls, Wasted: t.wasted, Limited: t.limited, Probes: t.probes, ProbesFailed: t.probesFailed, Avoided: t.avoided, During: t.during,
		Spent: t.spent, WastedUSD: t.wastedUSD, Deferrals: t.deferrals, DeferralsLine: share(t.deferrals, lines), Reasons: maps.Clone(t.reasons),
		Retries: t.retries, HeldMean: round3(t.held.Seconds() / float64(max(lines, 1))), FalseTrips: t.falseTrips(),
		Degraded: share(t.degr, t.ends[lineAnswered]), Guessed: share(t.guessed, t.calls), Admitted: t.admitted, minutes: map[int64]minuteTally{},
	}
	for n, minute := range t.minutes.all {
		f.minutes[n] = *minute // calls in flight end, and are counted there, when the machine stops
	}
	f.CameInOutage, f.FirstMean = t.cameInOutage, round3(t.firstHeld.Seconds()/float64(max(t.cameInOutage, 1)))
	f.waits(t.waits)
	f.outages(t)
	f.Batches = make([]BatchFigures, 0, len(t.batches))
	for _, b := range t.batches {
		f.Batches = append(f.Batches, b.figures())
	}
	for _, by := range slices.Sorted(maps.Keys(t.rungs)) {
		f.Rungs = append(f.Rungs, RungFigures{by, t.rungs[by], share(t.rungs[by], t.ends[lineAnswered])})
	}
	slices.SortStableFunc(f.Rungs, func(a, b RungFigures) int { return cmp.Compare(b.Lines, a.Lines) })
	if m.Policy.Name == Ours {
		f.Bound = t.bound(m)
	}
	return f
}

func (f *Figures) waits(ms []int32) {
	if len(ms) == 0 {
		return
	}
	slices.Sort(ms)
	sum := int64(0)
	for _, w := range ms {
		sum += int64(w)
	}
	at := func(p float64) float64 {
		return float64(ms[min(int(math.Ceil(p*float64(len(ms)))), len(ms))-1]) / 1000
	}
	f.WaitP50, f.WaitP95, f.WaitMean = at(.5), at(.95), round3(float64(sum)/float64(len(ms))/1000)
}

func (f *Figures) outages(t *tally) {
	var detect, recover mean
	for _, o := range t.outages {
		x := OutageFigures{Model: o.Model, From: o.From, To: o.To, Wasted: o.wasted, USD: o.usd}
		if !o.detected.IsZero() {
			x.Detect = seconds(o.detected.Sub(o.From))
			detect.add(*x.Detect)
		}
		if !o.recovered.IsZero() {
			x.Recover = seconds(o.recovered.Sub(o.To))
			recover.add(*x.Recover)
		}
		f.Outages = append(f.Outages, x)
	}
	f.Detect, f.Recover = detect.get(), recover.get()
}

// mean of figures; of none, nil.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(x float64) { m.sum, m.n = m.sum+x, m.n+1 }

func (m *mean) get() *float64 {
	if m.n == 0 {
		return nil
	}
	x := round3(m.sum / float64(m.n))
	return &x
}

func seconds(d time.Duration) *float64 {
	s := round3(d.Seconds())
	return &s
}

func (b *batchTally) figures() BatchFigures {
	x := BatchFigures{ID: b.batch.ID, Lines: len(b.batch.Lines), Came: b.batch.At, Finished: b.finished, Answered: b.ends[lineAnswered]}
	if !b.finished.IsZero() {
		x.Took = round3(b.finished.Sub(b.batch.At).Seconds())
	}
	return x
}

// bound holds the worst outage to what it may cost.
func (t *tally) bound(m *machine) *Bound {
	if len(t.outages) == 0 {
		return nil
	}
	b := &Bound{Probes: t.probesFailed}
	for _, q := range m.queues {
		b.InFlight += q.slots
	}
	for _, k := range m.Setup.Keys {
		b.Ring = max(b.Ring, m.Setup.Numbers(k).WithDefaults().Window)
	}
	for _, o := range t.outages {
		b.Wasted = max(b.Wasted, o.wasted)
	}
	b.Holds = b.Wasted <= b.InFlight+b.Ring+b.Probes
	return b
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return math.Round(1e6*float64(n)/float64(of)) / 1e6
}

func round3(x float64) float64 { return math.Round(1000*x) / 1000 }
