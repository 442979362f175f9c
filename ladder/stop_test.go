package ladder

import (
	"context"
	"errors"
	"testing"
	"time"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// stopDuring closes Stop in the middle of a model's call.
func stopDuring(b *bundle, name string, r *Request, e *provider.Error) {
	stop := make(chan struct{})
	r.Stop = stop
	b.callers["p/"+name].reply = func(ctx context.Context, n int, req provider.Request) (provider.Answer, error) {
		close(stop)
		if e == nil {
			return answers(ctx, n, req)
		}
		return provider.Answer{}, e
	}
}

func TestStopLetsTheCallInFlightFinish(t *testing.T) {
	b := setup(t, "a", "b")
	r := line()
	stopDuring(b, "a", &r, nil)
	wantEnd(t, b.run(b.ladder(nightly(2, "a", "b")), r), Answered, "")
}

func TestStopStartsNothingFurther(t *testing.T) {
	for name, e := range map[string]*provider.Error{
		"no further try":  down(),
		"no further rung": {Kind: provider.QuotaExhausted, StatusCode: 402},
		"no further wait": tooMany(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "a", "b")
			r := line()
			stopDuring(b, "a", &r, e)
			out := b.run(b.ladder(nightly(2, "a", "b")), r)
			wantEnd(t, out, Interrupted, "")
			if !errors.Is(out.Err, ErrStopped) {
				t.Errorf("err %v", out.Err)
			}
			equal(t, "the call is on record", kinds(out.Progress), []provider.Kind{e.Kind})
			equal(t, "slept", b.slept, nil)
			same(t, "calls of b", b.calls("b"), 0)
		})
	}
}

func TestStopBeforeAnythingCallsNobody(t *testing.T) {
	b := setup(t, "a")
	c := nightly(2, "a")
	c.Rungs = append([]config.Rung{{Text: "no"}}, c.Rungs...)
	stop := make(chan struct{})
	close(stop)
	r := line()
	r.Stop = stop
	wantEnd(t, b.run(b.ladder(c), r), Interrupted, "")
	same(t, "calls", b.calls("a"), 0)
}

func TestStopEndsAWait(t *testing.T) {
	b := setup(t, "a")
	b.pace.until["p/a"] = epoch.Add(20 * time.Second)
	stop := make(chan struct{})
	r := line()
	r.Stop = stop
	b.onSleep = func() { close(stop) } // and the sleeper waits for its context
	out := b.run(b.ladder(nightly(2, "a")), r)
	wantEnd(t, out, Interrupted, "")
	if !errors.Is(out.Err, ErrStopped) {
		t.Errorf("err %v", out.Err)
	}
}

func TestHardEndBreaksTheCallOff(t *testing.T) {
	taken := errors.New("the line is another's")
	for name, reply := range map[string]error{
		"classified by the adapter": &provider.Error{Kind: provider.Canceled, Message: "canceled"},
		"as a broken connection":    &provider.Error{Kind: provider.Unavailable, Message: "EOF"},
		"as the bare error":         context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "a", "b")
			ctx, cancel := context.WithCancelCause(context.Background())
			b.callers["p/a"].reply = func(context.Context, int, provider.Request) (provider.Answer, error) {
				cancel(taken)
				return provider.Answer{}, reply
			}
			out := b.ladder(nightly(2, "a", "b")).whole(ctx, line(), b.journal)
			b.settled()
			wantEnd(t, out, Interrupted, "")
			if !errors.Is(out.Err, taken) {
				t.Errorf("err %v", out.Err)
			}
			equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.Canceled})
			equal(t, "no evidence, but reported", b.breakers.outcomes("a"), []breaker.Outcome{breaker.None})
		})
	}
}

func TestAPaidAnswerSurvivesTheHardEnd(t *testing.T) {
	b := setup(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	b.callers["p/a"].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		cancel()
		return answers(ctx, n, r)
	}
	wantEnd(t, b.ladder(nightly(2, "a")).whole(ctx, line(), b.journal), Answered, "")
	b.settled()
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.Success})
}

func TestCancelledBeforeItBeginsAsksNoStore(t *testing.T) {
	b := setup(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantEnd(t, b.ladder(nightly(2, "a")).whole(ctx, line(), b.journal), Interrupted, "")
	same(t, "calls", b.calls("a"), 0)
}

func TestAFailedCheckpointStartsNoFurtherCall(t *testing.T) {
	b := setup(t, "a", "b")
	b.script("a", down())
	b.journal.err = errors.New("fenced")
	out := b.attempt(1, "a", "b")
	wantEnd(t, out, Interrupted, "")
	if !errors.Is(out.Err, b.journal.err) {
		t.Errorf("err %v", out.Err)
	}
	same(t, "calls of b", b.calls("b"), 0)
	same(t, "the admitted ticket is released", b.breakers.released, 1)
}

func TestACallCutByTheDeadlineSaysNothingAboutTheModel(t *testing.T) {
	b := setup(t, "a", "b")
	b.callers["p/a"].takes = time.Hour
	r := line()
	r.Deadline = epoch.Add(10 * time.Second)
	out := b.run(b.ladder(nightly(2, "a", "b")), r)
	wantEnd(t, out, Deferred, "") // until the deadline, where lines end as expired
	equal(t, "waits", out.Waits, []Wait{{"", ReasonDeadline, r.Deadline}})
	same(t, "limit", b.callers["p/a"].requests[0].Timeout, 10*time.Second)
	equal(t, "kinds", kinds(out.Progress), []provider.Kind{provider.Canceled})
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.None})
	same(t, "calls of b", b.calls("b"), 0)
}

func TestSilenceIsATimeoutWithADeadlineFarAway(t *testing.T) {
	b := setup(t, "a")
	b.callers["p/a"].takes = time.Hour
	r := line()
	r.Deadline = epoch.Add(time.Hour)
	out := b.run(b.ladder(nightly(1, "a")), r)
	wantEnd(t, out, Failed, "timeout")
	equal(t, "evidence", b.breakers.outcomes("a"), []breaker.Outcome{breaker.Failure})
	same(t, "latency", out.Progress.Calls[0].LatencyMS, 30_000)
}

func TestNoTryIsWaitedForPastTheDeadline(t *testing.T) {
	b := setup(t, "a", "b")
	e := down()
	e.RetryAfter = 20 * time.Second
	b.script("a", e)
	r := line()
	r.Deadline = epoch.Add(15 * time.Second)
	out := b.run(b.ladder(nightly(2, "a", "b")), r)
	wantEnd(t, out, Answered, "")
	equal(t, "slept", b.slept, nil)
}

func TestHardEndWhileAStoreIsAsked(t *testing.T) {
	b := setup(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	l := b.ladder(nightly(2, "a"))
	l.gate = ending{l.gate, cancel}
	wantEnd(t, l.whole(ctx, line(), b.journal), Interrupted, "")
}

type ending struct {
	Gate
	cancel func()
}

func (e ending) Enter(ctx context.Context, _ Entry) (Pass, error) {
	e.cancel()
	return Pass{}, ctx.Err()
}
