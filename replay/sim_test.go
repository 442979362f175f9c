package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// scenario is one of examples/replay with its configuration.
func scenario(t testing.TB, name string, seed uint64) Question {
	t.Helper()
	dir := "../examples/replay/"
	text, err := os.ReadFile(dir + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseScenario(name, text)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := os.ReadFile(dir + s.Config)
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Setups: []Setup{setupOf(t, string(cfg))}, Policies: Policies(), Seed: seed}
	if q.Traffic, q.World, err = s.Build(q.Setups[0].Keys, seed); err != nil {
		t.Fatal(err)
	}
	return q
}

// answered are the figures of the policies, or of every one, by its name.
func answered(t testing.TB, q Question, policies ...string) map[string]*Figures {
	t.Helper()
	if len(policies) > 0 {
		q.Policies, _ = PickPolicies(strings.Join(policies, ","))
	}
	runs, err := Answer(q)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Figures{}
	for _, f := range runs {
		if why := f.adds(); why != "" {
			t.Errorf("%s: %s", f.Policy, why)
		}
		all[f.Policy] = f
	}
	return all
}

// adds says where the totals of a run do not add up.
func (f *Figures) adds() string {
	lines, answers, rungs := 0, 0, 0
	for _, b := range f.Batches {
		lines += b.Lines
		answers += b.Answered
	}
	for _, r := range f.Rungs {
		rungs += r.Lines
	}
	calls, wasted := 0, 0
	for _, m := range f.minutes {
		calls += m.Calls
		wasted += m.Wasted
	}
	reasons := 0
	for _, n := range f.Reasons {
		reasons += n
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"ends and lines", f.Answered + f.Failed + f.Expired + f.Unfinished, f.Lines},
		{"lines of batches", lines, f.Lines},
		{"answers of batches", answers, f.Answered},
		{"answers by rung", rungs, f.Answered},
		{"calls by minute", calls, f.Calls},
		{"wasted calls by minute", wasted, f.Wasted},
		{"deferrals by reason", reasons, f.Deferrals},
		{"calls through an open breaker", f.Admitted, 0},
	} {
		if c.got != c.want {
			return fmt.Sprintf("%s: %d, not %d", c.what, c.got, c.want)
		}
	}
	if f.Wasted+f.Limited > f.Calls || f.Probes > f.Calls || f.ProbesFailed > f.Probes || f.WastedUSD > f.Spent {
		return fmt.Sprintf("a part is more than the whole: %+v", f)
	}
	return ""
}

// TestIncidentOf11Minutes: issue 8. What ours wastes is bounded by the calls in
// flight at the onset, the ring and the probes, and the report says so.
func TestIncidentOf11Minutes(t *testing.T) {
	t.Parallel()
	all := answered(t, scenario(t, "incident-11min", 1))
	ours, none := all[Ours], all["none"]
	if ours.Lines != 4200 || ours.Answered != 4200 {
		t.Errorf("%d of %d lines are answered", ours.Answered, ours.Lines)
	}
	if ours.Wasted >= 60 || ours.Bound == nil || !ours.Bound.Holds || ours.Bound.InFlight != 20 {
		t.Errorf("ours wastes %d calls, bound %+v", ours.Wasted, ours.Bound)
	}
	if none.Wasted <= 2*ours.Wasted || none.HeldMean <= 2*ours.HeldMean || none.Failed == 0 {
		t.Errorf("without a breaker %d calls are wasted, a line holds its slot %.1f s, %d fail; ours %d and %.1f s", none.Wasted, none.HeldMean, none.Failed, ours.Wasted, ours.HeldMean)
	}
	// The public account: 2,140 of 4,200 requests reach the provider, and a request in
	// the outage is held for 1.2 s with a breaker.
	reached := ours.Lines - ours.CameInOutage + ours.Wasted
	if ours.CameInOutage != 2100 || reached < 2100 || reached > 2160 || ours.FirstMean > 1.2 {
		t.Errorf("%d lines came in the outage; %d requests reach the provider at once; held for %.1f s", ours.CameInOutage, reached, ours.FirstMean)
	}
	if len(all) != 7 {
		t.Errorf("%d policies", len(all))
	}
}

// TestIncidentWithoutSlots: where every caller has a thread, the first calls of all that
// come in the outage hang for their 60 s without a breaker, as the public account has it.
func TestIncidentWithoutSlots(t *testing.T) {
	t.Parallel()
	all := answered(t, scenario(t, "incident-unbounded", 1), "none", Ours)
	if none := all["none"]; none.FirstMean < 58 || none.FirstMean > 64 || none.WastedUSD*2 < none.Spent {
		t.Errorf("without a breaker a request hangs for %.1f s; %v of %v USD are wasted", none.FirstMean, none.WastedUSD, none.Spent)
	}
	// All that come before the first one has hung for 60 s hang too.
	if ours := all[Ours]; ours.FirstMean > 6.5 || ours.Wasted > 240 || ours.Answered != ours.Lines || !ours.Bound.Holds {
		t.Errorf("with ours for %.1f s; %d calls are wasted, %d lines answered", ours.FirstMean, ours.Wasted, ours.Answered)
	}
}

// TestOutageOfAnHour: a fixed cooldown of 30 s probes about 120 times, ours at most
// 15, and recovery is seen within one cooldown. At four calls a minute, the time
// window never trips, and ours does.
func TestOutageOfAnHour(t *testing.T) {
	t.Parallel()
	all := answered(t, scenario(t, "outage-1h", 1))
	if f := all["consecutive"]; f.Probes < 108 || f.Probes > 125 {
		t.Errorf("a fixed cooldown of 30 s probes %d times", f.Probes)
	}
	ours := all[Ours]
	if ours.Probes > 15+1 || ours.ProbesFailed > 15 || ours.Recover == nil || *ours.Recover > 300 {
		t.Errorf("ours: %d probes, %d failed, recovers after %v", ours.Probes, ours.ProbesFailed, ours.Recover)
	}
	if ours.Outages[0].Detect == nil || ours.Failed+ours.Expired > 0 {
		t.Errorf("ours: outage %+v, %d lines failed", ours.Outages[0], ours.Failed)
	}
	if w := all["time-window"]; w.Outages[0].Detect != nil || w.Failed == 0 {
		t.Errorf("the time window trips: %+v", w.Outages[0])
	}
}

// TestTheSameSeedGivesTheSameBytes, under every policy; another seed does not.
func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	text := func(seed uint64) string {
		q := scenario(t, "outage-1h", seed)
		runs, err := Answer(q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(runs)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one, two := text(7), text(7)
	if diff := cmp.Diff(one, two); diff != "" {
		t.Error("the same seed gives other figures")
	}
	if one == text(8) {
		t.Error("another seed gives the same figures")
	}
}

// TestStopped: a simulation ends when it is told to, and names a policy once however
// often it was asked for.
func TestStopped(t *testing.T) {
	t.Parallel()
	run, setup := someDays(t, 4*time.Hour)
	build := run.Policy.build
	done := make(chan struct{})
	run.Done = done
	run.Policy.build = func(m *machine) doors { // with calls under way
		m.clock.at(run.Traffic.Batches[0].At.Add(2*time.Hour), func() { close(done) })
		return build(m)
	}
	if _, err := Simulate(run); !errors.Is(err, ErrStopped) {
		t.Errorf("error %v", err)
	}
	twice, _ := PickPolicies("none, none,nightshift")
	if len(twice) != 2 {
		t.Errorf("%d policies of two names", len(twice))
	}
	q := Question{Setups: []Setup{setup}, Policies: twice, Traffic: run.Traffic, World: run.World, Done: done}
	if _, err := Answer(q); !errors.Is(err, ErrStopped) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	if _, err := Suggest(q); !errors.Is(err, ErrStopped) {
		t.Errorf("suggest: error %v", err)
	}
}

// TestOneIdeal: configurations that differ in their breakers alone have one ideal, which
// is that of each by itself; others have their own.
func TestOneIdeal(t *testing.T) {
	t.Parallel()
	setup := func(name, breakers, concurrency string) Setup {
		s := setupOf(t, strings.Replace(benchConfig, "concurrency: 50", "concurrency: "+concurrency, 1)+"breaker: {"+breakers+"}\n")
		s.Name = name
		return s
	}
	one, other, slower := setup("one", "window: 20", "50"), setup("other", "window: 10, failures: 4, cooldown: 9s", "50"), setup("slower", "window: 20", "2")
	if !sameIdeal(&one, &other) || sameIdeal(&one, &slower) {
		t.Error("what is the same and what is not is mixed up")
	}
	run, _ := someDays(t, 2*time.Hour)
	ours, _ := PickPolicies(Ours)
	ideal := func(all ...Setup) []*float64 {
		q := Question{Setups: all, Policies: ours, Traffic: run.Traffic, World: run.World, Seed: 1}
		runs, err := Answer(q)
		if err != nil {
			t.Fatal(err)
		}
		var ideals []*float64
		for _, b := range runs[len(runs)-1].Batches {
			ideals = append(ideals, b.Ideal)
		}
		return ideals
	}
	if diff := cmp.Diff(ideal(other), ideal(one, other)); diff != "" {
		t.Errorf("beside one that shares its ideal: %s", diff)
	}
	if diff := cmp.Diff(ideal(slower), ideal(one, slower)); diff != "" {
		t.Errorf("beside one with another ideal: %s", diff)
	}
}

// TestWithdrawnModel: its siblings work on, and no breaker of theirs opens.
func TestWithdrawnModel(t *testing.T) {
	t.Parallel()
	ours := answered(t, scenario(t, "withdrawn", 1), Ours)[Ours]
	if ours.Answered != ours.Lines || ours.FalseTrips > 0 {
		t.Errorf("%d of %d lines are answered, %d false trips", ours.Answered, ours.Lines, ours.FalseTrips)
	}
}

// TestRunawayLoop: about a thousand calls of the loop in the hour; the others'
// lines are answered as ever.
func TestRunawayLoop(t *testing.T) {
	t.Parallel()
	ours := answered(t, scenario(t, "runaway", 1), Ours)[Ours]
	var slow, loop float64
	for _, b := range ours.Batches {
		if b.ID[:2] == "s2" {
			slow = max(slow, b.Took)
		} else {
			loop = max(loop, b.Took)
		}
	}
	first, calls := ours.Batches[0].Came.Unix()/60, 0
	for n, m := range ours.minutes {
		if n < first+60 {
			calls += m.Calls
		}
	}
	if calls > 1000+300+20 || loop < 7*3600 {
		t.Errorf("%d calls in the first hour: the loop has 1,000, the others 300 and some retries; its last batch takes %.0f s", calls, loop)
	}
	if slow > 60 {
		t.Errorf("a line of the other producer took %.0f s", slow)
	}
	if ours.Reasons["guard"] > 100 {
		t.Errorf("%d deferrals for the guard: its lines are released all the same", ours.Reasons["guard"])
	}
}

// TestAnyScenario: whatever comes, totals add up, no call passes an open breaker,
// and the same seed gives the same.
func TestAnyScenario(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../examples/replay/two-providers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	setup := setupOf(t, string(text))
	rapid.Check(t, func(t *rapid.T) {
		minutes := func(name string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Minute
		}
		s := Scenario{
			Start: time.Date(2026, 12, 1, 20, 0, 0, 0, time.UTC), Workers: rapid.IntRange(1, 3).Draw(t, "workers"),
			Providers: map[string]ModelBehaviour{"cloud": {P50: time.Second, P95: 4 * time.Second, RPM: rapid.SampledFrom([]int{0, 30}).Draw(t, "rpm")}},
		}
		for range rapid.IntRange(1, 2).Draw(t, "streams") {
			s.Traffic = append(s.Traffic, Stream{
				Queue: rapid.SampledFrom([]string{"overnight", "bulk", "elsewhere"}).Draw(t, "queue"), For: minutes("for", 1, 20),
				PerMinute: float64(rapid.IntRange(1, 10).Draw(t, "rate")), Lines: rapid.IntRange(1, 4).Draw(t, "lines"), Input: 100,
				Deadline: minutes("deadline", 10, 100), Poisson: rapid.Bool().Draw(t, "poisson"),
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			s.Faults = append(s.Faults, Fault{
				Region: rapid.SampledFrom([]string{"", "east", "west"}).Draw(t, "region"), At: minutes("at", 0, 10), For: minutes("long", 1, 15),
				Share: rapid.SampledFrom([]float64{.3, .8, 1}).Draw(t, "share"),
				Kind:  rapid.SampledFrom([]Fault{{Kind: "unavailable"}, {Kind: "timeout"}, {Kind: "rate_limited"}, {Kind: "misconfigured"}, {Kind: "content_filtered"}, {Kind: "invalid_output"}}).Draw(t, "kind").Kind,
			})
		}
		seed := rapid.Uint64Range(1, 5).Draw(t, "seed")
		traffic, model, err := s.Build(setup.Keys, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range Policies() {
			run := Run{Setup: setup, Policy: p, Traffic: traffic, World: model, Seed: seed}
			f, err := Simulate(run)
			if err != nil {
				t.Fatal(err)
			}
			if why := f.adds(); why != "" {
				t.Fatalf("%s: %s", p.Name, why)
			}
			if p.Name != Ours {
				continue
			}
			again, _ := Simulate(run)
			if diff := cmp.Diff(fmt.Sprintf("%+v", f.Batches), fmt.Sprintf("%+v", again.Batches)); diff != "" || f.Calls != again.Calls {
				t.Fatalf("%s: the same run gives other figures (%d calls, %d)", p.Name, f.Calls, again.Calls)
			}
		}
	})
}
