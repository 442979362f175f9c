package replay

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"nightshift/config"
)

// Report is what a replay found, for every configuration and policy.
type Report struct {
	V        int       `json:"v"`
	Source   []string  `json:"source"`
	Seed     uint64    `json:"seed"`
	Workers  int       `json:"workers"`
	Records  int       `json:"records,omitempty"` // of a log
	Warnings []Warning `json:"warnings"`
	// Assumed says what the traffic does not tell, and what stands in for it.
	Assumed []string   `json:"assumed"`
	Runs    []*Figures `json:"runs"`
}

// Question is what a report answers.
type Question struct {
	Setups   []Setup
	Policies []Policy
	Traffic  *Traffic
	World    *Model
	Seed     uint64
	Done     <-chan struct{} // ends the simulations; see [Run]
}

// Answer simulates every setup under every policy, two at a time, and the ideal of
// each setup.
func Answer(q Question) ([]*Figures, error) {
	if err := q.Traffic.Validate(); err != nil {
		return nil, err
	}
	var runs []Run
	for _, s := range q.Setups {
		for _, p := range q.Policies {
			runs = append(runs, Run{Setup: s, Policy: p, Traffic: q.Traffic, World: q.World, Seed: q.Seed, Done: q.Done})
		}
	}
	asked := len(runs)
	ideals := map[string]int{} // their places in runs
	for i, s := range q.Setups {
		j := slices.IndexFunc(q.Setups[:i], func(t Setup) bool { return sameIdeal(&s, &t) })
		if j >= 0 {
			ideals[s.Name] = ideals[q.Setups[j].Name]
			continue
		}
		ideals[s.Name] = len(runs)
		runs = append(runs, Run{Setup: s, Policy: unhindered, Traffic: q.Traffic, World: q.World, Seed: q.Seed, Perfect: true, Done: q.Done})
	}
	all, err := simulateAll(runs)
	if err != nil {
		return nil, err
	}
	for _, f := range all[:asked] {
		f.against(all[ideals[f.Setup]])
	}
	return all[:asked], nil
}

// unhindered is the policy of the ideal: where providers never fail, no breaker opens.
var unhindered = Policy{Name: "ideal", Retries: -1, build: func(*machine) doors { return noDoors{} }}

// sameIdeal says that two configurations differ in no more than their breakers, so that
// the ideal of both is one simulation.
func sameIdeal(a, b *Setup) bool {
	return reflect.DeepEqual(withoutBreakers(a.Config), withoutBreakers(b.Config))
}

func withoutBreakers(c *config.Config) *config.Config {
	plain := *c
	plain.Breaker = config.Breaker{MaxCooldown: c.Breaker.MaxCooldown} // which bounds deferrals, too
	plain.Models = maps.Clone(c.Models)
	for key, m := range plain.Models {
		m.Breaker = config.Breaker{MaxCooldown: m.Breaker.MaxCooldown} // and parks
		plain.Models[key] = m
	}
	return &plain
}

// simulateAll runs simulations on two cores.
func simulateAll(runs []Run) ([]*Figures, error) {
	all, errs := make([]*Figures, len(runs)), make([]error, len(runs))
	slots := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i := range runs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			all[i], errs[i] = Simulate(runs[i])
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err // the others' are the same
		}
	}
	return all, nil
}

// against notes how long each batch would have taken with providers that never fail.
func (f *Figures) against(ideal *Figures) {
	took := map[string]float64{}
	for _, b := range ideal.Batches {
		if !b.Finished.IsZero() {
			took[b.ID] = b.Took
		}
	}
	for i := range f.Batches {
		if s, ok := took[f.Batches[i].ID]; ok {
			f.Batches[i].Ideal = &s
		}
	}
}

// Name is how a run is told from others.
func (f *Figures) Name() string {
	if f.Policy == Ours {
		return f.Setup
	}
	return f.Policy
}

// Row is one line of the comparison.
type Row struct {
	What string
	// Of each run, as people read it.
	Values []string
	// Numbers are the values for charts; nil: they are none.
	Numbers []float64
}

// Rows are the comparison.
func (r *Report) Rows() []Row {
	count := func(what string, get func(*Figures) int) Row {
		return r.row(what, func(f *Figures) (string, float64) { n := get(f); return fmt.Sprint(n), float64(n) })
	}
	real := func(what, format string, get func(*Figures) float64) Row {
		return r.row(what, func(f *Figures) (string, float64) { x := get(f); return fmt.Sprintf(format, x), x })
	}
	maybe := func(what string, get func(*Figures) *float64) Row {
		return r.row(what, func(f *Figures) (string, float64) {
			if x := get(f); x != nil {
				return fmt.Sprintf("%.1f", *x), *x
			}
			return "-", 0
		})
	}
	rows := []Row{
		count("lines", func(f *Figures) int { return f.Lines }),
		count("lines answered", func(f *Figures) int { return f.Answered }),
		count("lines failed, expired or unfinished", func(f *Figures) int { return f.Failed + f.Expired + f.Unfinished }),
		count("calls sent", func(f *Figures) int { return f.Calls }),
		count("of them while the model was out", func(f *Figures) int { return f.During }),
		count("of them wasted (failed)", func(f *Figures) int { return f.Wasted }),
		count("of them refused (429)", func(f *Figures) int { return f.Limited }),
		count("of them probes", func(f *Figures) int { return f.Probes }),
		count("calls that a breaker kept away", func(f *Figures) int { return f.Avoided }),
		real("USD spent", "%.4f", func(f *Figures) float64 { return f.Spent.Float() }),
		real("USD wasted", "%.4f", func(f *Figures) float64 { return f.WastedUSD.Float() }),
		real("deferrals a line", "%.2f", func(f *Figures) float64 { return f.DeferralsLine }),
		count("retries spent", func(f *Figures) int { return f.Retries }),
		maybe("time to detect, s", func(f *Figures) *float64 { return f.Detect }),
		maybe("time to recover, s", func(f *Figures) *float64 { return f.Recover }),
		count("false trips", func(f *Figures) int { return f.FalseTrips }),
		real("wait of a line, p50 s", "%.1f", func(f *Figures) float64 { return f.WaitP50 }),
		real("wait of a line, p95 s", "%.1f", func(f *Figures) float64 { return f.WaitP95 }),
		real("a line held a slot, mean s", "%.1f", func(f *Figures) float64 { return f.HeldMean }),
		real("of a line that came in an outage, its first attempt, s", "%.1f", func(f *Figures) float64 { return f.FirstMean }),
		r.row("last batch finished after, s (ideal)", func(f *Figures) (string, float64) { return f.lastBatch() }),
		r.row("degraded", func(f *Figures) (string, float64) {
			return fmt.Sprintf("%.1f%%", 100*f.Degraded), 100 * f.Degraded
		}),
	}
	return append(rows, r.rungRows()...)
}

func (r *Report) row(what string, get func(*Figures) (string, float64)) Row {
	row := Row{What: what}
	for _, f := range r.Runs {
		text, n := get(f)
		row.Values, row.Numbers = append(row.Values, text), append(row.Numbers, n)
	}
	return row
}

// rungRows say who answered.
func (r *Report) rungRows() (rows []Row) {
	var by []string
	seen := map[string]bool{}
	for _, f := range r.Runs {
		for _, x := range f.Rungs {
			if !seen[x.By] {
				seen[x.By] = true
				by = append(by, x.By)
			}
		}
	}
	for _, name := range by {
		rows = append(rows, r.row("answered by "+name, func(f *Figures) (string, float64) {
			for _, x := range f.Rungs {
				if x.By == name {
					return fmt.Sprintf("%.1f%%", 100*x.Share), 100 * x.Share
				}
			}
			return "0%", 0
		}))
	}
	return rows
}

// lastBatch is how long the slowest batch took.
func (f *Figures) lastBatch() (string, float64) {
	took, ideal, missing := 0.0, 0.0, false
	for _, b := range f.Batches {
		took = max(took, b.Took)
		missing = missing || b.Finished.IsZero()
		if b.Ideal != nil {
			ideal = max(ideal, *b.Ideal)
		}
	}
	if missing {
		return fmt.Sprintf("never (%.0f)", ideal), 0
	}
	return fmt.Sprintf("%.0f (%.0f)", took, ideal), took
}

// Notes are what a reader must know beside the table.
func (r *Report) Notes() (all []string) {
	for _, f := range r.Runs {
		if b := f.Bound; b != nil {
			word := "holds"
			if !b.Holds {
				word = "DOES NOT HOLD"
			}
			all = append(all, fmt.Sprintf("%s: the worst outage of a model wasted %d calls; %d in flight + ring of %d + %d failed probes bound it: %s",
				f.Name(), b.Wasted, b.InFlight, b.Ring, b.Probes, word))
		}
		if f.Guessed > 0 {
			all = append(all, fmt.Sprintf("%s: of %.1f%% of its calls nothing is known at their time; the state before stands in for it", f.Name(), 100*f.Guessed))
		}
	}
	return append(all, r.Assumed...)
}
