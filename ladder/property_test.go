package ladder

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/provider"
)

// world draws a ladder of up to four models, some open or parked, whose calls
// end in anything, and an optional text at its end.
func world(t *rapid.T, tb testing.TB) (*bundle, config.Ladder) {
	b := setup(tb)
	c := config.Ladder{Name: "n", OnFilter: rapid.SampledFrom([]string{"fail", "next"}).Draw(t, "filter")}
	c.Patience = time.Duration(rapid.IntRange(0, 600).Draw(t, "patience")) * time.Second
	c.MaxCalls = rapid.IntRange(0, 6).Draw(t, "max_calls")
	kinds := []provider.Kind{
		provider.OK, provider.Unavailable, provider.Unavailable, provider.Timeout, provider.RateLimited, provider.RateLimited,
		provider.QuotaExhausted, provider.Misconfigured, provider.InvalidRequest, provider.ContextExceeded, provider.ContentFiltered,
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "models") {
		name := fmt.Sprint(i)
		b.add(name)
		m := b.models["p/"+name]
		m.Context = 1000 * rapid.IntRange(0, 3).Draw(t, "context")
		b.models["p/"+name] = m
		b.callers["p/"+name].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
			k := rapid.SampledFrom(kinds).Draw(t, "kind")
			switch k {
			case provider.OK:
				return answers(ctx, n, r)
			case provider.Timeout: // silent to its end
				b.pass(min(r.Timeout, r.FirstToken) - time.Second)
				e := &provider.Error{Kind: k}
				if r.FirstToken < r.Timeout {
					e.Err = provider.ErrStalled
				}
				return provider.Answer{}, e
			}
			after := time.Duration(rapid.IntRange(0, 60).Draw(t, "retry-after")) * time.Second
			return provider.Answer{}, &provider.Error{Kind: k, StatusCode: 400, RetryAfter: after, Parameter: rapid.SampledFrom([]string{"", "seed"}).Draw(t, "parameter")}
		}
		switch rapid.IntRange(0, 4).Draw(t, "state") {
		case 0:
			b.open(name, time.Duration(rapid.IntRange(0, 100).Draw(t, "open for"))*time.Second)
		case 1:
			b.pace.until["p/"+name] = epoch.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "parked for")) * time.Second)
		}
		r := config.Rung{Model: "p/" + name, Tries: rapid.IntRange(1, 3).Draw(t, "tries")}
		if i > 0 {
			r.After = time.Duration(rapid.SampledFrom([]int{0, 0, 60, 600}).Draw(t, "after")) * time.Second
		}
		c.Rungs = append(c.Rungs, r)
	}
	switch rapid.IntRange(0, 2).Draw(t, "text") {
	case 1:
		c.Rungs = append(c.Rungs, config.Rung{Text: "sorry"})
	case 2:
		c.Rungs = append(c.Rungs, config.Rung{Text: "sorry", AtDeadline: true})
	}
	return b, c
}

func TestAttemptProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, c := world(rt, t)
		wasOpen := map[string]bool{}
		for k := range b.breakers.open {
			wasOpen[k] = true
		}
		r := line()
		r.Retries = rapid.IntRange(0, 2).Draw(rt, "retries")
		if rapid.Bool().Draw(rt, "has a deadline") {
			r.Deadline, r.Margin = epoch.Add(20*time.Minute), time.Minute
		}
		l := b.ladder(c)
		for range rapid.IntRange(1, 8).Draw(rt, "attempts") {
			before := len(r.Progress.Calls)
			out := l.whole(context.Background(), r, b.journal)
			checkOutcome(rt, b, c, r, out)
			checkDeadline(rt, b, c, r, out)
			if out.End == Failed {
				out.Progress.Failures++
			}
			checkCalls(rt, b, wasOpen, c, r.Retries, out.Progress.Calls, before)
			r.Progress = out.Progress
			if out.End == Answered || out.End == Final {
				return
			}
			b.pass(time.Duration(rapid.IntRange(0, 300).Draw(rt, "later")) * time.Second)
		}
	})
}

// checkCalls holds what a caller pays for: no call to an open breaker, none
// more than max_calls, every one on record and reported once.
func checkCalls(t *rapid.T, b *bundle, wasOpen map[string]bool, c config.Ladder, retries int, calls []provider.Call, before int) {
	made, reported := 0, 0
	for key, m := range b.callers {
		made += len(m.requests)
		if wasOpen[key] && len(m.requests) > 0 {
			t.Fatalf("%s was called though its breaker is open", key)
		}
	}
	for _, rs := range b.breakers.reports {
		reported += len(rs)
	}
	if made != len(calls) || made != reported || len(b.events) != made || len(b.breakers.out) != 0 {
		t.Fatalf("%d calls made, %d on record, %d reported, %d observed, %d tickets out",
			made, len(calls), reported, len(b.events), len(b.breakers.out))
	}
	if c.MaxCalls > 0 && made > c.MaxCalls {
		t.Fatalf("%d calls, max_calls %d", made, c.MaxCalls)
	}
	pass, spent := 0, 0
	for _, r := range c.Rungs {
		pass += r.Tries
	}
	for _, k := range calls {
		if k.Kind != provider.RateLimited {
			spent++
		}
	}
	if c.MaxCalls == 0 && spent > pass*(retries+1) {
		t.Fatalf("%d calls, a pass is %d, retries %d", spent, pass, retries)
	}
	if wrote := b.journal.wrote; len(calls)-before > 1 && wrote[len(wrote)-1] != len(calls)-1 {
		t.Fatalf("the last checkpoint has %d calls of %d", wrote[len(wrote)-1], len(calls))
	}
}

// checkOutcome holds that an end has what it needs, and only that.
func checkOutcome(t *rapid.T, b *bundle, c config.Ladder, r Request, out Outcome) {
	now := out.Progress.Calls[len(r.Progress.Calls):]
	failed := slices.ContainsFunc(now, func(c provider.Call) bool { return meanings[c.Kind].evidence == breaker.Failure })
	switch out.End {
	case Answered:
		if out.Answer.Degraded != (out.Answer.Rung > 0) || len(out.Answer.Body) == 0 || len(out.Waits) > 0 {
			t.Fatalf("answered: %+v", out)
		}
	case Deferred:
		// A line whose calls are spent waits for its last resort alone.
		spent := !out.LastResort.IsZero() && slices.Equal(out.Waits, []Wait{{Reason: ReasonRung, Until: out.LastResort}})
		if failed && !spent || len(out.Waits) == 0 {
			t.Fatalf("deferred with %d waits, failed %t", len(out.Waits), failed)
		}
	case Failed:
		if !failed || out.Code == "" || out.Message == "" || len(out.Waits) > 0 {
			t.Fatalf("failed: %+v", out)
		}
	case Final:
		if out.Code == "" || out.Message == "" || len(out.Waits) > 0 {
			t.Fatalf("final: %+v", out)
		}
	default:
		t.Fatalf("ended in %d: %v", out.End, out.Err)
	}
	last := c.Rungs[len(c.Rungs)-1]
	if last.Text != "" && !last.AtDeadline && (out.End == Failed || out.Code == CodeCallsExhausted) {
		t.Fatalf("ended in %d (%s) above a text that is always admissible", out.End, out.Code)
	}
}

// checkDeadline holds that a text at the deadline is neither early nor late,
// that no call begins after the margin before it, and that the line comes back
// in time for it.
func checkDeadline(t *rapid.T, b *bundle, c config.Ladder, r Request, out Outcome) {
	last := c.Rungs[len(c.Rungs)-1]
	if !last.AtDeadline || r.Deadline.IsZero() {
		return
	}
	margin := MarginAt(r.Deadline, r.Margin)
	text := out.End == Answered && out.Answer.Model == TextModel
	if now := b.Now(); text && (now.Before(margin) || !now.Before(r.Deadline)) {
		t.Fatalf("the text came at %s, the margin is %s and the deadline %s", now, margin, r.Deadline)
	}
	for _, made := range out.Progress.Calls[len(r.Progress.Calls):] {
		if !made.StartedAt.Before(margin) {
			t.Fatalf("a call began at %s, the margin is %s", made.StartedAt, margin)
		}
	}
	if waits := out.End == Deferred || out.End == Failed; waits && b.Now().Before(margin) && !out.LastResort.Equal(margin) {
		t.Fatalf("the line comes back by %s, the margin is %s", out.LastResort, margin)
	}
}
