package ladder

import (
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/limit"
	"nightshift/provider"
)

// paced is a bundle whose ladder goes by a real pacer in virtual time.
func paced(b *bundle, c config.Ladder, limits limit.Limits) (*Ladder, *limit.Memory) {
	p := limit.NewMemory(func(m limit.Model) limit.Limits {
		if m.Model == "p/a" {
			return limits
		}
		return limit.Limits{}
	}, b.Now)
	l := b.ladder(c)
	l.gate = StoreGate{b.breakers, p, b.guard}
	return l, p
}

func pace(t *testing.T, p *limit.Memory, name string) limit.Pace {
	t.Helper()
	list, err := p.List(t.Context(), []limit.Model{{Provider: "p", Model: "p/" + name}})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func TestAShortWaitForATurnIsSpentInTheAttempt(t *testing.T) {
	b := setup(t, "a", "b")
	l, p := paced(b, nightly(1, "a", "b"), limit.Limits{RPM: 6})
	wantEnd(t, b.run(l, line()), Answered, "")
	out := b.run(l, line())
	wantEnd(t, out, Answered, "")
	same(t, "answered by", out.Answer.Model, "p/a")
	var slept time.Duration
	for _, d := range b.slept {
		slept += d
		if d > 2*time.Second {
			t.Errorf("slept %s at once: limits that change are noticed late", d)
		}
	}
	if slept < 8*time.Second || slept > 11*time.Second {
		t.Errorf("slept %s of the 10 s between two calls", slept)
	}
	same(t, "a turn is no refusal", out.Progress.FirstLimited, time.Time{})
	same(t, "in flight", pace(t, p, "a").InFlight, 0)
	same(t, "waiting", pace(t, p, "a").Waiting, 0)
}

func TestALongWaitForATurnIsADeferral(t *testing.T) {
	b := setup(t, "a", "b")
	l, p := paced(b, nightly(1, "a", "b"), limit.Limits{RPM: 1})
	wantEnd(t, b.run(l, line()), Answered, "")
	out := b.run(l, line())
	wantEnd(t, out, Deferred, "")
	same(t, "reason", out.Waits[0].Reason, ReasonLimited)
	equal(t, "slept", b.slept, nil)
	same(t, "waiting", pace(t, p, "a").Waiting, 0)
	same(t, "first limited", out.Progress.FirstLimited, b.Now())

	r := line()
	r.Progress = out.Progress
	r.Progress.FirstLimited = b.Now().Add(-time.Hour)
	out = b.run(l, r) // its patience is over
	wantEnd(t, out, Answered, "")
	same(t, "answered by", out.Answer.Model, "p/b")
}

func TestTheSecondModelKeepsItsOwnCapWhenTheFirstFallsAway(t *testing.T) {
	b := setup(t, "b", "a") // a, of one call in 10 s, is the second
	b.open("b", time.Hour)
	l, _ := paced(b, nightly(1, "b", "a"), limit.Limits{RPM: 6})
	began := b.Now()
	for range 6 {
		wantEnd(t, b.run(l, line()), Answered, "")
	}
	if took := b.Now().Sub(began); took < 45*time.Second {
		t.Errorf("six calls in %s at six a minute", took)
	}
}

func TestStopGivesThePlaceBack(t *testing.T) {
	b := setup(t, "a")
	l, p := paced(b, nightly(1, "a"), limit.Limits{RPM: 6})
	wantEnd(t, b.run(l, line()), Answered, "")
	stop := make(chan struct{})
	r := line()
	r.Stop = stop
	b.onSleep = func() { close(stop) }
	wantEnd(t, b.run(l, r), Interrupted, "")
	same(t, "waiting", pace(t, p, "a").Waiting, 0)
}

func over(scope limit.GuardScope, wait time.Duration) *limit.OverError {
	return &limit.OverError{Scope: scope, Producer: "anna", Batch: "b1", Wait: wait}
}

func TestTheGuardDefersUntilItsPlace(t *testing.T) {
	for _, scope := range []limit.GuardScope{limit.GuardProducer, limit.GuardGlobal, limit.GuardBudget} {
		b := setup(t, "a", "b")
		b.guard.over = over(scope, 17*time.Minute)
		c := nightly(1, "a", "b")
		c.Rungs = append(c.Rungs, config.Rung{Text: "sorry"})
		l := b.ladder(c)
		l.rand = func() float64 { return 0 }
		out := b.run(l, line())
		wantEnd(t, out, Deferred, "")
		equal(t, "waits", out.Waits, []Wait{{"", ReasonGuard, epoch.Add(17 * time.Minute)}})
		same(t, "calls", len(b.events), 0)
		same(t, "after does not count from it", out.Progress.FirstRefused, time.Time{})
	}
}

func TestLinesThatWaitForABudgetComeBackApart(t *testing.T) {
	for share, want := range map[float64]time.Duration{0: 5 * time.Second, 0.5: 7500 * time.Millisecond} {
		b := setup(t, "a")
		b.guard.over = over(limit.GuardBudget, 5*time.Second)
		l := b.ladder(nightly(1, "a"))
		l.rand = func() float64 { return share }
		out := b.run(l, line())
		wantEnd(t, out, Deferred, "")
		equal(t, "waits", out.Waits, []Wait{{"", ReasonGuard, epoch.Add(want)}})
	}
}

func TestASpentBudgetIsFinal(t *testing.T) {
	b := setup(t, "a")
	b.guard.over = over(limit.GuardBudget, 0)
	wantEnd(t, b.attempt(1, "a"), Final, CodeBudgetExhausted)
}

func TestDegradeGoesOnWithWhatCostsNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		price *config.Price // of the second model
		by    string
	}{
		{"a model without a price", nil, "p/b"},
		{"a model whose price is zeros", &config.Price{}, "p/b"},
		{"a text", &config.Price{PerCall: 1}, TextModel},
	} {
		b := setup(t, "a", "b")
		m := b.models["p/b"]
		m.Price = tc.price
		b.models["p/b"] = m
		b.guard.over = over(limit.GuardProducer, time.Minute)
		c := nightly(1, "a", "b")
		c.Rungs = append(c.Rungs, config.Rung{Text: "sorry"})
		l := b.ladder(c)
		l.degrades = true
		out := b.run(l, line())
		wantEnd(t, out, Answered, "")
		same(t, tc.name, out.Answer.Model, tc.by)
		same(t, tc.name+" is counted", len(b.guard.settled), len(b.events))
	}
}

func TestEveryCallIsCountedAtItsRealCost(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", down(), down())
	r := line()
	r.Producer = "anna"
	out := b.run(b.ladder(nightly(2, "a", "b")), r)
	wantEnd(t, out, Answered, "")
	same(t, "counted", len(b.guard.settled), 3)
	var usd provider.USD
	for _, c := range b.guard.settled {
		usd += provider.USD(c.USD)
		if c.Producer != "anna" || c.Batch != "b1" || c.Line != "b1:7" || c.Always {
			t.Errorf("charged %+v", c)
		}
	}
	same(t, "cost", usd, out.Progress.Cost())
	same(t, "results", len(b.pace.results), 3)
	same(t, "tokens", b.pace.results[2].Tokens, 110)
}

func TestAProbeCountsAndIsNeverRefused(t *testing.T) {
	b := setup(t, "a")
	b.guard.over = over(limit.GuardGlobal, time.Hour)
	p, err := NewProber(ProberOptions{Models: b.models, Callers: map[string]Caller{"p/a": b.callers["p/a"]}, Gate: b.gate(b.breakers), Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	ticket := breaker.Ticket{Key: breaker.Key{Provider: "p", Model: "p/a"}, Lease: time.Minute}
	same(t, "outcome", p.Probe(t.Context(), ticket).Outcome, breaker.Success)
	same(t, "counted", len(b.guard.settled), 1)
	same(t, "producer", b.guard.settled[0].Producer, limit.System)

	// A parked model is not called, by a probe neither, and that counts nothing.
	b.pace.until["p/a"] = b.Now().Add(time.Minute)
	same(t, "outcome while parked", p.Probe(t.Context(), ticket).Outcome, breaker.None)
	same(t, "calls", b.calls("a"), 1)
	same(t, "counted while parked", len(b.guard.settled), 1)
	b.settled()
}

func TestAModelHasItsShareOfTheSlots(t *testing.T) {
	b := setup(t, "a")
	l := b.ladder(nightly(1, "a"))
	l.share = limit.NewShare(2, func(string) bool { return true })
	m := limit.Model{Provider: "p", Model: "p/a"}
	if !l.share.Take("q", m) {
		t.Fatal("no share for the first")
	}
	out := b.run(l, line())
	wantEnd(t, out, Deferred, "")
	equal(t, "waits", out.Waits, []Wait{{"p/a", ReasonLimited, epoch.Add(limit.ShareWait)}})
	l.share.Give(m)
	wantEnd(t, b.run(l, line()), Answered, "")
	if !l.share.Take("q", m) {
		t.Error("the attempt kept its share")
	}
}
