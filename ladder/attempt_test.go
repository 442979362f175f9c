package ladder

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/provider"
)

func testLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestFirstRungAnswers(t *testing.T) {
	b := setup(t, "a", "b")
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Answered, "")
	ans := out.Answer
	if ans.Degraded || ans.Rung != 0 || ans.Model != "p/a" || ans.Provider != "p" || ans.Tier != "premium" ||
		ans.StatusCode != 200 || ans.RequestID != "req-a-0" || string(ans.Body) != `{"ok":true}` || ans.Usage.InputTokens != 100 {
		t.Errorf("answer %+v", ans)
	}
	same(t, "calls of b", b.calls("b"), 0)
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.Success})
	same(t, "checkpoints", len(b.journal.wrote), 0)

	want := provider.Call{
		Model: "p/a", Kind: provider.OK, StartedAt: epoch, LatencyMS: 1000, RequestID: "req-a-0",
		Usage: provider.Usage{InputTokens: 100, OutputTokens: 10}, Cost: provider.Dollars(0.00012),
	}
	equal(t, "calls on record", out.Progress.Calls, []provider.Call{want})
	same(t, "event", b.events[0], CallEvent{
		Purpose: ForLine, Key: breaker.Key{Provider: "p", Model: "p/a"}, Call: want, Latency: time.Second,
		StatusCode: 200, Ladder: "nightly", Batch: "b1", Line: 7,
	})
	req := b.callers["p/a"].requests[0]
	if req.Model != "a" || req.Timeout != 10*time.Minute || req.FirstToken != 30*time.Second || req.Idle != 30*time.Second || req.Endpoint != "/v1/chat/completions" || req.IdempotencyKey == "" {
		t.Errorf("request %+v", req)
	}
}

func TestCase16_EachBreakerGetsOneFailureATry(t *testing.T) {
	for _, tries := range []int{1, 2} {
		b := setup(t, "a", "b", "c")
		for _, n := range []string{"a", "b", "c"} {
			b.script(n, down())
		}
		out := b.attempt(tries, "a", "b", "c")
		wantEnd(t, out, Failed, "unavailable")
		for _, n := range []string{"a", "b", "c"} {
			equal(t, "evidence of "+n, b.breakers.outcomes(n), slices.Repeat([]breaker.Outcome{breaker.Failure}, tries))
			same(t, "calls of "+n, b.calls(n), tries)
		}
		same(t, "calls on record", len(out.Progress.Calls), 3*tries)
		same(t, "checkpoints before further calls", len(b.journal.wrote), 3*tries-1)
		same(t, "first checkpoint", b.journal.wrote[0], 1)
	}
}

func TestFallsToTheNextRungAndIsDegraded(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", down())
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Answered, "")
	if !out.Answer.Degraded || out.Answer.Rung != 1 || out.Answer.Model != "p/b" {
		t.Errorf("answer %+v", out.Answer)
	}
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.Unavailable, provider.Unavailable, provider.OK})
	same(t, "detail", out.Progress.Calls[0].Detail, "unavailable: status 503: overloaded")
	// One pause between the two tries: half of the first bound.
	equal(t, "pauses", b.slept, []time.Duration{tryBase / 2})
}

func TestStartingRungIsDegradedBelowTheFirst(t *testing.T) {
	b := setup(t, "a", "b")
	r := line()
	r.Rung = 1
	out := b.run(b.ladder(nightly(2, "a", "b")), r)
	wantEnd(t, out, Answered, "")
	same(t, "calls of a", b.calls("a"), 0)
	same(t, "degraded", out.Answer.Degraded, true)

	r.Rung = 9 // the ladder was shortened since
	out = b.run(b.ladder(nightly(2, "a", "b")), r)
	wantEnd(t, out, Answered, "")
	same(t, "calls of a", b.calls("a"), 1)
}

func TestNeverGoesBackUp(t *testing.T) {
	b := setup(t, "a", "b")
	r := line()
	r.Rung, r.Progress.RuledOut = 1, []int{1}
	out := b.run(b.ladder(nightly(2, "a", "b")), r)
	wantEnd(t, out, Final, "invalid_request")
	same(t, "calls", b.calls("a")+b.calls("b"), 0)
}

func TestCase17_ARefusalMovesNoBreakerAndTriesNoOther(t *testing.T) {
	refusal := &provider.Error{
		Kind: provider.ContentFiltered, StatusCode: 400, Code: "content_filter", Message: "filtered",
		RequestID: "r1", Body: []byte(`{"error":{"code":"content_filter"}}`),
	}
	b := setup(t, "a", "b")
	b.script("a", refusal)
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Final, "content_filtered")
	same(t, "calls", b.calls("a")+10*b.calls("b"), 1)
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.None})
	if out.Response == nil || out.Response.StatusCode != 400 || string(out.Response.Body) != string(refusal.Body) || out.Response.RequestID != "r1" {
		t.Errorf("response %+v", out.Response)
	}

	b = setup(t, "a", "b")
	b.script("a", refusal)
	c := nightly(2, "a", "b")
	c.OnFilter = "next"
	out = b.run(b.ladder(c), line())
	wantEnd(t, out, Answered, "")
	equal(t, "ruled out", out.Progress.RuledOut, []int{0})
	b.script("b", refusal)
	out = b.run(b.ladder(c), line())
	wantEnd(t, out, Final, "content_filtered")
	equal(t, "ruled out", out.Progress.RuledOut, []int{0, 1})
}

func TestCase18_AHardConditionIsOneCallAndOpensTheBreaker(t *testing.T) {
	for _, e := range []*provider.Error{
		{Kind: provider.QuotaExhausted, StatusCode: 429, Scope: provider.ScopeParent},
		{Kind: provider.QuotaExhausted, StatusCode: 402, Scope: provider.ScopeParent},
		{Kind: provider.QuotaExhausted, StatusCode: 400, Scope: provider.ScopeParent},
		{Kind: provider.Misconfigured, StatusCode: 401, Scope: provider.ScopeParent},
		{Kind: provider.Misconfigured, StatusCode: 404, Scope: provider.ScopeModel},
	} {
		b := setup(t, "a", "b")
		b.script("a", e)
		out := b.attempt(2, "a", "b")
		wantEnd(t, out, Answered, "")
		same(t, "calls of a", b.calls("a"), 1)
		if r := b.breakers.reports["p/a"]; len(r) != 1 || !r[0].Hard {
			t.Errorf("%s: reports %+v", e, r)
		}
		equal(t, "parks", parked(b), nil)

		b = setup(t, "a")
		b.script("a", e)
		wantEnd(t, b.attempt(2, "a"), Failed, string(e.Kind))
	}
}

func parked(b *bundle) []string {
	var out []string
	for k := range b.pace.until {
		out = append(out, k)
	}
	return out
}

func TestCase19_TooLongSkipsSmallerWindows(t *testing.T) {
	long := &provider.Error{Kind: provider.ContextExceeded, StatusCode: 400, Code: "context_length_exceeded", Body: []byte(`{}`)}
	for _, tc := range []struct {
		name     string
		contexts [4]int
		ruled    []int
		by       string
	}{
		{"smaller and equal are skipped", [4]int{1000, 500, 1000, 2000}, []int{0, 1, 2}, "p/d"},
		{"unknown ones are tried", [4]int{1000, 500, 0, 2000}, []int{0, 1}, "p/c"},
		{"from an unknown one nothing follows", [4]int{0, 500, 1000, 2000}, []int{0}, "p/b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := setup(t, "a", "b", "c", "d")
			for i, n := range []string{"a", "b", "c", "d"} {
				m := b.models["p/"+n]
				m.Context = tc.contexts[i]
				b.models["p/"+n] = m
			}
			b.script("a", long)
			out := b.attempt(2, "a", "b", "c", "d")
			wantEnd(t, out, Answered, "")
			equal(t, "ruled out", out.Progress.RuledOut, tc.ruled)
			same(t, "answered by", out.Answer.Model, tc.by)
			equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.None})
		})
	}
	b := setup(t, "a")
	b.script("a", long)
	out := b.attempt(2, "a")
	wantEnd(t, out, Final, "context_exceeded")
	same(t, "status", out.Response.StatusCode, 400)
}

func TestInvalidRequestIsFinalAfterOneCall(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", &provider.Error{Kind: provider.InvalidRequest, StatusCode: 422, Body: []byte("<p>no</p>")})
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Final, "invalid_request")
	same(t, "calls", len(out.Progress.Calls), 1)
	same(t, "body is JSON", string(out.Response.Body), `"\u003cp\u003eno\u003c/p\u003e"`)
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.None})
}

func TestUnsupportedParameterTriesTheNextRung(t *testing.T) {
	e := &provider.Error{Kind: provider.InvalidRequest, StatusCode: 400, Code: "unsupported_parameter", Parameter: "top_k", Body: []byte(`{}`)}
	b := setup(t, "a", "b")
	b.script("a", e)
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Answered, "")
	equal(t, "ruled out", out.Progress.RuledOut, []int{0})

	// The next attempt does not call it again.
	r := line()
	r.Progress = out.Progress
	b.run(b.ladder(nightly(2, "a", "b")), r)
	same(t, "calls of a", b.calls("a"), 1)

	b.script("b", e)
	wantEnd(t, b.attempt(2, "a", "b"), Final, "invalid_request")
}

func TestOpenBreakersDefer(t *testing.T) {
	b := setup(t, "a", "b")
	b.open("a", time.Minute)
	b.open("b", 20*time.Second)
	r := line()
	r.Retries = 0
	out := b.run(b.ladder(nightly(2, "a", "b")), r)
	wantEnd(t, out, Deferred, "")
	equal(t, "waits", out.Waits, []Wait{
		{"p/a", ReasonBreaker, epoch.Add(time.Minute)}, {"p/b", ReasonBreaker, epoch.Add(20 * time.Second)},
	})
	same(t, "first refused", out.Progress.FirstRefused, epoch)
	same(t, "calls", len(out.Progress.Calls), 0)
	same(t, "avoided", len(b.avoided), 2)
	same(t, "waits for", first(out.Waits).Model, "p/b")

	r.Progress = out.Progress
	b.pass(time.Hour)
	out = b.run(b.ladder(nightly(2, "a", "b")), r)
	same(t, "first refused stays", out.Progress.FirstRefused, epoch)
}

func TestARealFailureAmongOpenBreakersIsAFailure(t *testing.T) {
	b := setup(t, "a", "b")
	b.open("b", time.Minute)
	e := down()
	e.RetryAfter = time.Hour
	b.script("a", e)
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Failed, "unavailable")
	same(t, "calls: a long Retry-After is not waited for", b.calls("a"), 1)
	same(t, "floor, clamped to the cap", out.NotBefore, epoch.Add(time.Second+5*time.Minute))
	same(t, "waits", len(out.Waits), 0)
	same(t, "the breaker is told of the Retry-After", b.breakers.reports["p/a"][0].RetryAfter, time.Hour)
}

func TestBreakerThatOpensBetweenTwoTries(t *testing.T) {
	b := setup(t, "a", "b")
	b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) {
		b.open("a", time.Minute)
		return provider.Answer{}, down()
	}
	out := b.attempt(2, "a", "b")
	wantEnd(t, out, Answered, "")
	same(t, "calls of a", b.calls("a"), 1)
	same(t, "answered by", out.Answer.Model, "p/b")
}

func TestShortRetryAfterIsTheFloorBetweenTries(t *testing.T) {
	b := setup(t, "a")
	e := down()
	e.RetryAfter = 7 * time.Second
	b.script("a", e, nil)
	wantEnd(t, b.attempt(2, "a"), Answered, "")
	equal(t, "pauses", b.slept, []time.Duration{7 * time.Second})
}
