package ladder

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/sim"
	"nightshift/provider"
)

// realBundle is a ladder over the real adapter, the provider simulator and the
// breakers in memory.
type realBundle struct {
	*bundle
	sim     *sim.Server
	store   *breaker.Memory
	callers map[string]Caller
	ladder  *Ladder
	prober  *Prober
}

// setupReal has every model meet the fault; "" is none.
func setupReal(t *testing.T, tries int, fault sim.Kind, names ...string) *realBundle {
	b := &realBundle{bundle: setup(t, names...), sim: sim.New(sim.Script{}, sim.Options{}), callers: map[string]Caller{}}
	if err := b.sim.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.sim.Close(); err != nil {
			t.Error(err)
		}
	})
	adapter := provider.NewOpenAI(provider.OpenAIOptions{BaseURL: b.sim.URL()})
	t.Cleanup(adapter.Close)
	for _, n := range names {
		b.callers["p/"+n] = adapter
		if fault != "" {
			b.fault(n, fault)
		}
	}
	b.store = breaker.NewMemory(func(k breaker.Key) breaker.Settings {
		if k.Scope() == breaker.ScopeParent { // these tests are about the models'
			return breaker.Settings{Window: 100, Failures: 100}
		}
		return breaker.Settings{Window: 20, Failures: 3, Cooldown: 30 * time.Second}
	}, b.Now)
	b.build(nightly(tries, names...))
	return b
}

// build makes the ladder and the prober, of the models as they are now.
func (b *realBundle) build(c config.Ladder) {
	b.t.Helper()
	var err error
	b.prober, err = NewProber(ProberOptions{
		Models: b.models, Callers: b.callers, Gate: b.gate(b.store), Now: b.Now, Observer: b, Logger: testLogger(&b.log),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.ladder, err = New(Options{
		Ladder: c, Models: b.models, Callers: b.callers, Gate: b.gate(b.store), Prober: b.prober,
		Sleeper: b, Now: b.Now, Rand: func() float64 { return 0 }, Observer: b,
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *realBundle) fault(name string, k sim.Kind) {
	b.t.Helper()
	if err := b.sim.AddFaults(name, sim.Fault{Kind: k}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *realBundle) hits(name string) int { return int(b.sim.Counts().Models[name].Calls) }

func (b *realBundle) attempt() Outcome {
	return b.ladder.whole(context.Background(), line(), b.journal)
}

func (b *realBundle) status(name string) breaker.Status {
	return b.listed(breaker.Key{Provider: "p", Model: "p/" + name})
}

func (b *realBundle) listed(k breaker.Key) breaker.Status {
	b.t.Helper()
	s, err := b.store.List(context.Background(), []breaker.Key{k})
	if err != nil {
		b.t.Fatal(err)
	}
	return s[0]
}

func TestCase16_RealBreakersGetOneFailureATry(t *testing.T) {
	for _, tries := range []int{1, 2} {
		b := setupReal(t, tries, sim.Unavailable, "a", "b", "c")
		wantEnd(t, b.attempt(), Failed, "unavailable")
		for _, n := range []string{"a", "b", "c"} {
			s := b.status(n)
			same(t, "failures of "+n, s.Failures, tries)
			same(t, "results of "+n, s.Results, tries)
			same(t, "requests to "+n, b.hits(n), tries)
		}
	}
}

func TestCase14_24_RealBreakersOpenAndTheLineWaits(t *testing.T) {
	b := setupReal(t, 2, sim.Unavailable, "a", "b")
	wantEnd(t, b.attempt(), Failed, "unavailable")
	wantEnd(t, b.attempt(), Failed, "unavailable") // the third failure opens each
	r := line()
	r.Retries = 0
	out := b.ladder.whole(context.Background(), r, b.journal)
	wantEnd(t, out, Deferred, "")
	same(t, "waits", len(out.Waits), 2)
	same(t, "requests to a", b.hits("a"), 3)

	until := DeferUntil(Deferring{Waits: out.Waits, Now: b.Now(), MaxCooldown: 5 * time.Minute})
	b.pass(30 * time.Second)
	b.sim.ClearFaults()
	key := breaker.Key{Provider: "p", Model: "p/a"}
	ticket, err := b.store.AdmitProbe(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.store.Report(context.Background(), ticket, b.prober.Probe(context.Background(), ticket)); err != nil {
		t.Fatal(err)
	}
	same(t, "state after the probe", b.status("a").State, breaker.Closed)
	b.pass(until.Sub(b.Now()))
	out = b.attempt()
	wantEnd(t, out, Answered, "")
	u := out.Answer.Usage
	if u.InputTokens == 0 || u.OutputTokens == 0 || !strings.Contains(string(out.Answer.Body), "choices") {
		t.Errorf("answer %+v: %s", out.Answer, out.Answer.Body)
	}
	same(t, "cost", out.Progress.Cost(), cost(b.models["p/a"].Price, u))
	same(t, "purpose of the probe", b.events[6].Purpose, ForProbe)
}

func TestRealKinds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault sim.Kind
		end   End
		code  string
		hits  int
	}{
		{"quota", sim.Quota, Failed, "quota_exhausted", 1},
		{"refused key", sim.Unauthorized, Failed, "misconfigured", 1},
		{"case 21: no choices", sim.EmptyChoices, Failed, "unavailable", 2},
		{"a page in place of an answer", sim.HTML, Failed, "unavailable", 2},
		{"a connection that breaks", sim.Reset, Failed, "unavailable", 2},
		{"case 17: filter", sim.Filter, Final, "content_filtered", 1},
		{"invalid", sim.BadRequest, Final, "invalid_request", 1},
		{"case 19: too long", sim.Context, Final, "context_exceeded", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := setupReal(t, 2, tc.fault, "a")
			out := b.attempt()
			wantEnd(t, out, tc.end, tc.code)
			same(t, "requests", b.hits("a"), tc.hits)
			if final := tc.end == Final; final != (out.Response != nil) || final && !strings.Contains(string(out.Response.Body), "error") {
				t.Errorf("response %+v", out.Response)
			}
			same(t, "state of the model", b.status("a").State, breaker.Closed)
			want := breaker.Closed
			if tc.fault == sim.Quota || tc.fault == sim.Unauthorized {
				want = breaker.Open // for all models that share the key
			}
			same(t, "state of the provider", b.listed(breaker.Key{Provider: "p"}).State, want)
		})
	}
}

func TestARefusalIn200HasNoResponse(t *testing.T) {
	b := setupReal(t, 2, sim.Refusal, "a")
	out := b.attempt()
	wantEnd(t, out, Final, "content_filtered")
	if out.Response != nil {
		t.Errorf("response %+v", out.Response)
	}
	if out.Progress.Cost() == 0 {
		t.Error("a refusal is billed")
	}
}

func TestARealHangIsATimeout(t *testing.T) {
	b := setupReal(t, 1, "", "a", "b")
	b.ladder.rungs[0].model.FirstToken = 50 * time.Millisecond
	b.fault("a", sim.Hang)
	out := b.attempt()
	wantEnd(t, out, Answered, "")
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.Timeout, provider.OK})
	same(t, "failures", b.status("a").Failures, 1)
}

func TestDefaultSleeperWaitsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		if err := (timers{}).Sleep(t.Context(), time.Minute); err != nil || time.Since(started) != time.Minute {
			t.Errorf("slept %s: %v", time.Since(started), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := (timers{}).Sleep(ctx, time.Minute); err == nil {
			t.Error("slept on after its context ended")
		}
	})
}

func TestAStoreThatHangsOnAReportHoldsTheSlotForSecondsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "a")
		l, err := New(Options{
			Ladder: nightly(1, "a"), Models: b.models, Callers: map[string]Caller{"p/a": b.callers["p/a"]},
			Gate: b.gate(hanging{b.breakers}),
		})
		if err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		wantEnd(t, l.whole(t.Context(), line(), b.journal), Answered, "")
		same(t, "held", time.Since(started), reportTimeout)
	})
}

type hanging struct{ *fakeBreakers }

func (hanging) Report(ctx context.Context, _ breaker.Ticket, _ breaker.Report) error {
	<-ctx.Done()
	return ctx.Err()
}
