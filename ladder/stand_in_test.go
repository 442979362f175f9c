package ladder

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/provider"
)

// taskBundle is model a with a breaker that lines have to probe.
type taskBundle struct {
	*bundle
	store  *breaker.Memory
	ladder *Ladder
}

// setupTask has the breaker open, with its cooldown over.
func setupTask(t *testing.T, change ...func(*Options)) *taskBundle {
	b := &taskBundle{bundle: setup(t, "a")}
	b.store = breaker.NewMemory(func(breaker.Key) breaker.Settings {
		return breaker.Settings{TaskProbes: true, Cooldown: 30 * time.Second}
	}, b.Now)
	o := Options{
		Ladder: nightly(1, "a"), Models: b.models, Callers: map[string]Caller{"p/a": b.callers["p/a"]}, Gate: b.gate(b.store),
		Prober: b.prober(), Sleeper: b, Now: b.Now, Rand: func() float64 { return 0 }, Observer: b,
	}
	for _, c := range change {
		c(&o)
	}
	var err error
	if b.ladder, err = New(o); err != nil {
		t.Fatal(err)
	}
	for range 11 {
		ticket, err := b.store.Admit(context.Background(), keyA)
		if err != nil {
			t.Fatal(err)
		}
		_ = b.store.Report(context.Background(), ticket, breaker.Report{Outcome: breaker.Failure, Reason: "test"})
	}
	b.pass(30 * time.Second)
	return b
}

// unsafe runs an attempt of a line that must not be a probe.
func (b *taskBundle) unsafe() Outcome {
	r := line()
	r.NoProbe = true
	return b.ladder.whole(context.Background(), r, b.journal)
}

func (b *taskBundle) status() breaker.Status {
	b.t.Helper()
	s, err := b.store.List(context.Background(), []breaker.Key{keyA})
	if err != nil {
		b.t.Fatal(err)
	}
	return s[0]
}

// sent says what each call was: a short prompt of ours, or the line.
func (b *taskBundle) sent() string {
	var all []string
	for _, r := range b.callers["p/a"].requests {
		what := "line"
		if string(r.Body) == string(probeBody) {
			what = "prompt"
		}
		all = append(all, what)
	}
	return strings.Join(all, " ")
}

func (b *taskBundle) want(sent string, state breaker.State) {
	b.t.Helper()
	same(b.t, "sent", b.sent(), sent)
	same(b.t, "state", b.status().State, state)
}

func TestALineIsTheProbe(t *testing.T) {
	b := setupTask(t)
	wantEnd(t, b.ladder.whole(context.Background(), line(), b.journal), Answered, "")
	b.want("line", breaker.Closed)
	same(t, "scope of the call", b.events[0].Scope, breaker.ScopeModel)
	same(t, "purpose of the call", b.events[0].Purpose, ForLine)
}

func TestALineThatMustNotBeTheProbeHasOneSentInItsPlace(t *testing.T) {
	b := setupTask(t)
	out := b.unsafe()
	wantEnd(t, out, Answered, "")
	b.want("prompt line", breaker.Closed)
	same(t, "calls of the line", len(out.Progress.Calls), 1)
	e := b.events[0]
	if e.Purpose != ForProbe || e.Scope != breaker.ScopeModel || e.Call.Cost == 0 {
		t.Errorf("event of the probe: %+v", e)
	}
	same(t, "purpose of the line's call", b.events[1].Purpose, ForLine)
	same(t, "scope of the line's call", b.events[1].Scope, "")
}

func TestNoProbeIsSentBeforeItsTime(t *testing.T) {
	b := setupTask(t)
	b.pass(-time.Second)
	wantEnd(t, b.unsafe(), Deferred, "")
	b.want("", breaker.Open)
}

func TestAFailedProbeInItsPlaceKeepsTheLineWaiting(t *testing.T) {
	b := setupTask(t)
	b.script("a", down(), nil)
	out := b.unsafe()
	wantEnd(t, out, Deferred, "")
	b.want("prompt", breaker.Open)
	same(t, "calls of the line", len(out.Progress.Calls), 0)
	if wait := out.Waits[0].Until.Sub(b.Now()); wait < time.Minute {
		t.Errorf("waits %s, want a doubled cooldown", wait)
	}
	b.pass(time.Minute)
	wantEnd(t, b.unsafe(), Answered, "")
	b.want("prompt prompt line", breaker.Closed)
}

// The 429 shows an open door; the line waits for the park like any other.
func TestA429ToAProbeInItsPlaceParksTheModel(t *testing.T) {
	b := setupTask(t)
	b.script("a", &provider.Error{Kind: provider.RateLimited, StatusCode: 429, RetryAfter: 7 * time.Second}, nil)
	wantEnd(t, b.unsafe(), Answered, "")
	b.want("prompt line", breaker.Closed)
	equal(t, "slept", b.slept, []time.Duration{7 * time.Second})
}

// Where the model takes no prompt of ours, nothing but a line can show that it
// is back, and not to try one would be to wait for ever.
func TestALineIsTheProbeAfterAllWhereNothingElseCanBe(t *testing.T) {
	b := setupTask(t)
	b.script("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400}, down(), nil)
	out := b.unsafe()
	wantEnd(t, out, Failed, "unavailable")
	b.want("prompt line", breaker.Open)
	same(t, "cooldown", b.status().Cooldown, 2*time.Minute) // the next; the line's failure was the probe's
	b.pass(time.Minute)
	wantEnd(t, b.unsafe(), Answered, "")
	b.want("prompt line line", breaker.Closed)
	if limit := b.callers["p/a"].requests[1].FirstToken; limit > 30*time.Second {
		t.Errorf("the line's call may be silent for %s, longer than the lease", limit)
	}
}

func TestWithoutAProberTheLineIsTheProbe(t *testing.T) {
	b := setupTask(t, func(o *Options) { o.Prober = nil })
	wantEnd(t, b.unsafe(), Answered, "")
	b.want("line", breaker.Closed)
}

func TestAPanicOfAProbeInItsPlaceGivesTheLeaseBack(t *testing.T) {
	b := setupTask(t)
	b.callers["p/a"].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		if n == 0 {
			panic(errors.New("boom"))
		}
		return answers(ctx, n, r)
	}
	wantEnd(t, b.unsafe(), Deferred, "")
	b.want("prompt", breaker.Open)
	same(t, "cooldown", b.status().Cooldown, time.Minute) // the next; this one was not doubled
	b.pass(30 * time.Second)
	wantEnd(t, b.unsafe(), Answered, "")
}

func TestStoppingDuringAProbeInItsPlaceInterruptsTheLine(t *testing.T) {
	b := setupTask(t)
	ctx, cancel := context.WithCancel(context.Background())
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) {
		cancel()
		return provider.Answer{}, &provider.Error{Kind: provider.Unavailable, Message: "EOF"}
	}
	r := line()
	r.NoProbe = true
	wantEnd(t, b.ladder.whole(ctx, r, b.journal), Interrupted, "")
	b.want("prompt", breaker.Open)
	same(t, "probes under way", b.status().Probing, 0)
}

// breakerFirst refuses a line that must not be a probe by the breaker, as a
// RedisGate does, whatever the pace says.
type breakerFirst struct{ Gate }

func (g breakerFirst) Enter(ctx context.Context, e Entry) (Pass, error) {
	if e.NoProbe {
		return Pass{}, &breaker.OpenError{Key: e.Key, RetryAfter: time.Minute}
	}
	return g.Gate.Enter(ctx, e)
}

func TestAPlaceForAProbeThatIsNotWaitedForIsGivenBack(t *testing.T) {
	b := setupTask(t, func(o *Options) { o.Gate = breakerFirst{o.Gate} })
	b.pace.until["p/a"] = b.Now().Add(5 * time.Second)
	out := b.unsafe()
	wantEnd(t, out, Deferred, "")
	same(t, "reason", out.Waits[0].Reason, ReasonBreaker)
	same(t, "places", len(b.pace.out), 0)
	same(t, "calls", b.calls("a"), 0)
}
