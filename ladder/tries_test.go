package ladder

import (
	"testing"
	"time"

	"nightshift/provider"
)

// Pauses between tries double up to their bound; half of it, by the test's chance.
func TestPausesBetweenTriesGrow(t *testing.T) {
	b := setup(t, "a")
	b.script("a", down())
	b.attempt(8, "a")
	equal(t, "pauses", b.slept, []time.Duration{
		250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second,
	})
}

// Only what passes by itself is tried again on its rung.
func TestOnlyPassingKindsAreRepeated(t *testing.T) {
	for kind, m := range meanings {
		if kind == provider.OK || kind == provider.RateLimited { // a park is waited for, and spends no try
			continue
		}
		b := setup(t, "a")
		b.script("a", &provider.Error{Kind: kind, StatusCode: 400})
		b.attempt(3, "a")
		want := 1
		if m.verdict == repeatOrNext {
			want = 3
		}
		same(t, string(kind), b.calls("a"), want)
	}
}

// A Retry-After is the floor of the pause; a long one is left to the next rung,
// and to the line's next attempt.
func TestRetryAfterBetweenTries(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration
		calls int
	}{
		{0, 2},
		{time.Millisecond, 2},
		{inlineWait - 1, 2},
		{inlineWait, 1},
		{24 * time.Hour, 1},
	} {
		b := setup(t, "a")
		e := down()
		e.RetryAfter = tc.after
		b.script("a", e)
		out := b.attempt(2, "a")
		wantEnd(t, out, Failed, "unavailable")
		same(t, tc.after.String(), b.calls("a"), tc.calls)
		if tc.calls == 2 {
			equal(t, "pause", b.slept, []time.Duration{max(tryBase/2, tc.after)})
		}
		floor := b.Now().Add(min(tc.after, maxCooldown))
		if tc.after > 0 && !out.NotBefore.Equal(floor) {
			t.Errorf("%s: not before %s, want %s", tc.after, out.NotBefore, floor)
		}
	}
}

// A pause that would reach the deadline, or the margin before it, is not begun.
func TestNoPauseBeyondTheTimeThatIsLeft(t *testing.T) {
	b := setup(t, "a")
	e := down()
	e.RetryAfter = 20 * time.Second
	b.script("a", e)
	r := line()
	r.Deadline = epoch.Add(15 * time.Second)
	wantEnd(t, b.run(b.ladder(nightly(2, "a")), r), Failed, "unavailable")
	same(t, "calls", b.calls("a"), 1)

	b = setup(t, "a")
	b.script("a", e)
	r.Deadline, r.Margin = epoch.Add(time.Minute), 40*time.Second
	out := b.run(climbing(b, withTries(modelRung("a", 0), 2), sorry), r)
	wantEnd(t, out, Failed, "unavailable")
	same(t, "calls", b.calls("a"), 1)
	same(t, "last resort", out.LastResort, epoch.Add(20*time.Second))
}

// max_calls counts over all attempts, rate limits among them where it is set.
func TestMaxCallsCountsEveryAttempt(t *testing.T) {
	b := setup(t, "a")
	b.script("a", tooMany(time.Minute), tooMany(time.Minute), down())
	c := nightly(2, "a")
	c.MaxCalls = 2
	l := b.ladder(c)
	r := line()
	out := b.run(l, r)
	wantEnd(t, out, Deferred, "")
	r.Progress = out.Progress
	b.pass(time.Minute)
	out = b.run(l, r) // no park is waited for when no call is left
	wantEnd(t, out, Final, CodeCallsExhausted)
	same(t, "calls", b.calls("a"), 2)
	equal(t, "skips", whys(out), []string{"p/a: the line has no calls left"})
}
