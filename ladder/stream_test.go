package ladder

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nightshift/breaker"
	"nightshift/internal/sim"
	"nightshift/provider"
)

func TestAModelsOwnLimitsAreTheCalls(t *testing.T) {
	b := setup(t, "a")
	m := b.models["p/a"]
	m.Timeout, m.FirstToken, m.Idle = 3*time.Minute, 20*time.Second, 5*time.Second
	b.models["p/a"] = m
	b.attempt(1, "a")
	r := b.callers["p/a"].requests[0]
	if r.Timeout != m.Timeout || r.FirstToken != m.FirstToken || r.Idle != m.Idle {
		t.Errorf("request %+v", r)
	}
}

// The line's deadline ends the call before its timeout would; a silence that
// ends it first is the model's all the same.
func TestSilenceBeforeTheDeadlineIsATimeout(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want provider.Kind
	}{{provider.ErrStalled, provider.Timeout}, {context.DeadlineExceeded, provider.Canceled}} {
		b := setup(t, "a")
		b.script("a", &provider.Error{Kind: provider.Timeout, Message: "silent", Err: tt.err})
		r := line()
		r.Deadline = epoch.Add(time.Minute)
		out := b.run(b.ladder(nightly(1, "a")), r)
		equal(t, "kinds", kinds(out.Progress), []provider.Kind{tt.want})
	}
}

// leased admits every call as a probe, and counts the reports.
type leased struct {
	*fakeBreakers
	lease   time.Duration
	reports *atomic.Int64
}

func (l leased) Report(ctx context.Context, t breaker.Ticket, r breaker.Report) error {
	l.reports.Add(1)
	return l.fakeBreakers.Report(ctx, t, r)
}

func (l leased) Admit(ctx context.Context, k breaker.Key, _ ...breaker.AdmitOption) (breaker.Ticket, error) {
	t, err := l.fakeBreakers.Admit(ctx, k)
	t.Probe, t.Lease = true, l.lease
	return t, err
}

// A line's own call that is a probe is reported before its lease ends if it
// still answers, and never twice.
func TestAProbeThatOutlastsItsLeaseIsReportedBefore(t *testing.T) {
	for name, tt := range map[string]struct {
		takes  time.Duration
		err    error
		want   breaker.Outcome
		during int64 // reports while the call is under way, before the lease ends
	}{
		"short":                   {time.Second, nil, breaker.Success, 0},
		"short, and it fails":     {time.Second, down(), breaker.Failure, 0},
		"long":                    {3 * time.Minute, nil, breaker.Success, 1},
		"long, and it breaks off": {3 * time.Minute, down(), breaker.Success, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, "a")
				reports := new(atomic.Int64)
				during := int64(0)
				b.callers["p/a"].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
					time.Sleep(min(tt.takes, 45*time.Second))
					during = reports.Load()
					time.Sleep(max(0, tt.takes-45*time.Second))
					if tt.err != nil {
						return provider.Answer{}, tt.err
					}
					return answers(ctx, n, r)
				}
				l := b.ladder(nightly(1, "a"))
				l.gate = b.gate(leased{b.breakers, 45 * time.Second, reports})
				b.run(l, line())
				same(t, "limit of the first token", b.callers["p/a"].requests[0].FirstToken, 30*time.Second)
				same(t, "reports before the lease ends", during, tt.during)
				equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{tt.want})
			})
		})
	}
	b := setup(t, "a")
	l := b.ladder(nightly(1, "a"))
	l.gate = b.gate(leased{b.breakers, 20 * time.Second, new(atomic.Int64)})
	b.run(l, line())
	same(t, "first token within a short lease", b.callers["p/a"].requests[0].FirstToken, 15*time.Second)
}

// Through the real adapter: a silent model is noticed by its silence, long
// before the timeout, each time with one call and one failure.
func TestCase15_ASilentStreamCountsOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		fault sim.Fault
		want  provider.Kind
	}{
		"before the head":     {sim.Fault{Kind: sim.Hang}, provider.Timeout},
		"before the first":    {sim.Fault{Kind: sim.Stall, KeepAlive: 5 * time.Millisecond}, provider.Timeout},
		"after one token":     {sim.Fault{Kind: sim.Stall, AfterTokens: 1, KeepAlive: 5 * time.Millisecond}, provider.Timeout},
		"cut off in a stream": {sim.Fault{Kind: sim.CutOff, AfterTokens: 1}, provider.Unavailable},
		"an error in it":      {sim.Fault{Kind: sim.StreamError, AfterTokens: 1}, provider.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupReal(t, 1, "", "a", "b")
			m := &b.ladder.rungs[0].model
			m.Timeout, m.FirstToken, m.Idle = time.Hour, 100*time.Millisecond, 100*time.Millisecond
			if err := b.sim.AddFaults("a", tt.fault); err != nil {
				t.Fatal(err)
			}
			out := b.attempt()
			wantEnd(t, out, Answered, "")
			equal(t, "kinds", kinds(out.Progress), []provider.Kind{tt.want, provider.OK})
			same(t, "failures", b.status("a").Failures, 1)
			same(t, "results", b.status("a").Results, 1)
			same(t, "requests", b.hits("a"), 1)
			if e := b.events[1]; e.FirstToken <= 0 || e.FirstToken > time.Minute {
				t.Errorf("first token of the answer after %v", e.FirstToken)
			}
		})
	}
}

func TestCase41_ARefusedStreamIsFinalAndKeepsItsText(t *testing.T) {
	b := setupReal(t, 2, sim.BadRequest, "a")
	out := b.attempt()
	wantEnd(t, out, Final, "invalid_request")
	same(t, "requests", b.hits("a"), 1)
	if out.Response == nil || !strings.Contains(string(out.Response.Body), "The request is invalid.") {
		t.Errorf("response %+v", out.Response)
	}
}
