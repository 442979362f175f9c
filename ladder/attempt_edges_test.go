package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

func TestUnreachableStoreDefersUnspent(t *testing.T) {
	for _, where := range []string{"breakers", "pace", "guard"} {
		b := setup(t, "a", "b")
		down := errors.New("connection refused")
		switch where {
		case "breakers":
			b.breakers.down = down
		case "pace":
			b.pace.down = down
		default:
			b.guard.down = down
		}
		out := b.attempt(2, "a", "b")
		wantEnd(t, out, Deferred, "")
		equal(t, where, out.Waits, []Wait{{"", ReasonStore, epoch.Add(storeRetry)}})
		same(t, "calls", len(out.Progress.Calls), 0)
	}
}

func TestMaxCallsIsFinal(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", down())
	b.script("b", down())
	c := nightly(2, "a", "b")
	c.MaxCalls = 3
	out := b.run(b.ladder(c), line())
	wantEnd(t, out, Final, CodeCallsExhausted)
	same(t, "calls", len(out.Progress.Calls), 3)
}

func TestDefaultMaxCallsIsFullPasses(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", down())
	b.script("b", down())
	l := b.ladder(nightly(2, "a", "b"))
	r := line()
	r.Retries = 1
	for range 2 { // every attempt of the budget gets its full pass
		out := b.run(l, r)
		wantEnd(t, out, Failed, "unavailable")
		r.Progress = out.Progress
	}
	same(t, "calls", len(r.Progress.Calls), 8)
	wantEnd(t, b.run(l, r), Final, CodeCallsExhausted)

	// What spends no retry spends none of them either.
	r.Progress.Calls[0].Kind, r.Progress.Calls[1].Kind = provider.RateLimited, provider.Canceled
	out := b.run(l, r)
	same(t, "calls", len(out.Progress.Calls), 10)
}

func TestTextAnswersWhenCallsAreExhausted(t *testing.T) {
	b := setup(t, "a")
	b.script("a", down())
	c := nightly(2, "a")
	c.MaxCalls = 1
	c.Rungs = append(c.Rungs, config.Rung{Text: "Sorry."})
	out := b.run(b.ladder(c), line())
	wantEnd(t, out, Answered, "")
	same(t, "model", out.Answer.Model, TextModel)
}

func TestAPanicOfTheAdapterIsAFailedCall(t *testing.T) {
	b := setup(t, "a", "b")
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) { panic("boom") }
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Answered, "")
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.Unavailable, provider.OK})
	same(t, "released", b.breakers.released, 1)
	equal(t, "evidence", b.breakers.outcomes("a"), nil)
	if !strings.Contains(b.log.String(), "boom") {
		t.Error("the panic is not logged")
	}
}

func TestCase1_AGoexitOfTheAdapterReleasesItsTicket(t *testing.T) {
	b := setup(t, "a")
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) {
		runtime.Goexit()
		return provider.Answer{}, nil
	}
	l := b.ladder(nightly(2, "a"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.whole(context.Background(), line(), b.journal)
	}()
	<-done
	b.settled()
	same(t, "released", b.breakers.released, 1)
}

func TestAReportThatFailsIsLogged(t *testing.T) {
	b := setup(t, "a")
	l := b.ladder(nightly(2, "a"))
	l.gate = b.gate(lostReports{b.breakers})
	out := l.whole(context.Background(), line(), b.journal)
	wantEnd(t, out, Answered, "")
	if !strings.Contains(b.log.String(), "is not told to its breaker") {
		t.Error("not logged")
	}
}

type lostReports struct{ *fakeBreakers }

func (lostReports) Report(context.Context, breaker.Ticket, breaker.Report) error {
	return errors.New("gone")
}

func TestIdempotencyKeys(t *testing.T) {
	key := func(change func(*Request)) string {
		b := setup(t, "a", "b")
		r := line()
		if change != nil {
			change(&r)
		}
		b.run(b.ladder(nightly(1, "a", "b")), r)
		return b.callers["p/a"].requests[0].IdempotencyKey
	}
	had := func(kinds ...provider.Kind) func(*Request) {
		return func(r *Request) {
			for _, k := range kinds {
				r.Progress.Calls = append(r.Progress.Calls, provider.Call{Model: "p/a", Kind: k})
			}
		}
	}
	first := key(nil)
	same(t, "a redelivery repeats it", key(nil), first)
	same(t, "a call that was broken off is repeated", key(had(provider.Canceled)), first)
	seen := map[string]bool{first: true}
	for _, change := range []func(*Request){
		had(provider.Unavailable),
		func(r *Request) { r.Line++ },
		func(r *Request) { r.Generation++ },
		func(r *Request) { r.Batch = "b2" },
	} {
		k := key(change)
		if seen[k] {
			t.Errorf("key %s twice", k)
		}
		seen[k] = true
	}
}

func TestPricesOfRungAndModel(t *testing.T) {
	cheap := 0.5
	u := provider.Usage{InputTokens: 1_000_000, CachedInputTokens: 400_000, OutputTokens: 100_000}
	for _, tc := range []struct {
		price *config.Price
		want  float64
	}{
		{nil, 0},
		{&config.Price{Input: 1, Output: 10}, 2},
		{&config.Price{Input: 1, CachedInput: &cheap, Output: 10, PerCall: 0.25}, 2.05},
	} {
		same(t, "cost", cost(tc.price, u), provider.Dollars(tc.want))
	}
	priced := &config.Price{Input: 1, PerCall: 1}
	same(t, "a failure that bills nothing", costOf(priced, provider.Unavailable, provider.Usage{}), 0)
	same(t, "a failure that bills tokens", costOf(priced, provider.ContentFiltered, provider.Usage{InputTokens: 1e6}), provider.Dollars(2))

	b := setup(t, "a")
	c := nightly(1, "a")
	c.Rungs[0].Price = &config.Price{PerCall: 3}
	c.Rungs[0].Set = map[string]any{"service_tier": "flex"}
	c.Rungs[0].Drop = []string{"seed"}
	out := b.run(b.ladder(c), line())
	same(t, "the rung's own price", out.Progress.Cost(), provider.Dollars(3))
	req := b.callers["p/a"].requests[0]
	if req.Set["service_tier"] != "flex" || req.Drop[0] != "seed" {
		t.Errorf("request %+v", req)
	}
}

func TestProgressOfTheRequestIsNotShared(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Parameter: "seed"})
	r := line()
	r.Progress.Calls = make([]provider.Call, 0, 8)
	r.Progress.RuledOut = append(make([]int, 0, 8), 5)
	out := b.run(b.ladder(nightly(1, "a", "b")), r)
	equal(t, "ruled out", out.Progress.RuledOut, []int{0, 5})
	same(t, "the request's call", r.Progress.Calls[:1][0], provider.Call{})
	equal(t, "the request's rungs", r.Progress.RuledOut[:2], []int{5, 0})
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := New(Options{Ladder: config.Ladder{Name: "n", Rungs: []config.Rung{
		{Model: "p/none"}, {Text: "{{.metadata"}, {Text: "{{nofunc}}"},
	}}})
	for _, want := range []string{`ladder "n"`, "rung 1", `"p/none" is not configured`, "rung 2", "rung 3", "nofunc", "gate"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "no rungs") {
		t.Errorf("no rungs: %v", err)
	}
}

func TestResponseBodyIsAlwaysJSON(t *testing.T) {
	for _, body := range []string{``, `{"a":1}`, `{"a":`, "\xff"} {
		if got := jsonBody([]byte(body)); !json.Valid(got) {
			t.Errorf("%q became %q", body, got)
		}
	}
}

func TestOnlyA4xxIsTheProvidersWordOnTheRequest(t *testing.T) {
	b := setup(t, "a")
	b.script("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 501, Body: []byte(`{}`)})
	out := b.attempt(1, "a")
	wantEnd(t, out, Final, "invalid_request")
	if out.Response != nil {
		t.Errorf("response %+v", out.Response)
	}
}
