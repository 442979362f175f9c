package ladder

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func in(d time.Duration) Wait { return Wait{Model: "p/a", Reason: ReasonBreaker, Until: epoch.Add(d)} }

func TestDeferUntil(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name     string
		waits    []Wait
		now      time.Duration
		deadline time.Duration
		spread   time.Duration
		random   float64
		want     time.Duration
	}{
		{name: "case 25: the earliest of all", waits: []Wait{in(40 * time.Second), in(20 * time.Second), in(time.Minute)}, want: 20 * time.Second},
		{name: "rounded up", waits: []Wait{in(20*time.Second + ms)}, want: 21 * time.Second},
		{name: "whole seconds stay", waits: []Wait{in(20 * time.Second)}, now: 500 * ms, want: 20 * time.Second},
		{name: "never in the past", waits: []Wait{in(-time.Hour)}, want: time.Second},
		{name: "never now", waits: []Wait{in(0)}, want: time.Second},
		{name: "after now, within its second", waits: []Wait{in(300 * ms)}, now: 500 * ms, want: time.Second},
		{name: "a wait without a time is max_cooldown", waits: []Wait{{Reason: ReasonBreaker}}, want: 5 * time.Minute},
		{name: "which can be the earliest", waits: []Wait{in(time.Hour), {Reason: ReasonBreaker}}, want: 5 * time.Minute},
		{name: "or not", waits: []Wait{{Reason: ReasonBreaker}, in(time.Minute)}, want: time.Minute},
		{name: "no waits", want: 5 * time.Minute},
		{name: "spread", waits: []Wait{in(20 * time.Second)}, spread: 10 * time.Second, random: 0.5, want: 25 * time.Second},
		{name: "spread in whole seconds", waits: []Wait{in(20 * time.Second)}, spread: 3 * time.Second, random: 0.9, want: 22 * time.Second},
		{name: "not past the deadline", waits: []Wait{in(time.Hour)}, deadline: 10*time.Second + 400*ms, want: 10 * time.Second},
		{name: "nor by the spread", waits: []Wait{in(8 * time.Second)}, deadline: 10 * time.Second, spread: 10 * time.Second, random: 0.9, want: 10 * time.Second},
		{name: "in the deadline's last second", waits: []Wait{in(time.Hour)}, now: 10*time.Second + 100*ms, deadline: 10*time.Second + 400*ms, want: 11 * time.Second},
		{name: "a deadline that passed", waits: []Wait{in(time.Hour)}, now: time.Minute, deadline: 10 * time.Second, want: time.Minute + time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Deferring{Waits: tc.waits, Now: epoch.Add(tc.now), MaxCooldown: 5 * time.Minute, Spread: tc.spread, Random: tc.random}
			if tc.deadline != 0 {
				d.Deadline = epoch.Add(tc.deadline)
			}
			if got := DeferUntil(d).Sub(epoch); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDeferUntilProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Int64Range(-int64(time.Hour), int64(time.Hour))
		d := Deferring{
			Now:         epoch.Add(time.Duration(span.Draw(t, "now"))),
			MaxCooldown: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "cap")),
			Spread:      time.Duration(rapid.Int64Range(0, int64(maxSpread)).Draw(t, "spread")),
			Random:      rapid.Float64Range(0, 0.999999).Draw(t, "random"),
		}
		for _, u := range rapid.SliceOfN(span, 0, 5).Draw(t, "waits") {
			d.Waits = append(d.Waits, Wait{Until: epoch.Add(time.Duration(u))})
		}
		if rapid.Bool().Draw(t, "unknown") {
			d.Waits = append(d.Waits, Wait{})
		}
		if rapid.Bool().Draw(t, "has deadline") {
			d.Deadline = d.Now.Add(time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "deadline")))
		}
		got := DeferUntil(d)
		if got.Nanosecond() != 0 || !got.After(d.Now) {
			t.Fatalf("%s is no whole second after %s", got, d.Now)
		}
		earliest := d.Now.Add(d.MaxCooldown)
		for i, w := range d.Waits {
			u := w.Until
			if u.IsZero() {
				u = d.Now.Add(d.MaxCooldown)
			}
			if i == 0 || u.Before(earliest) {
				earliest = u
			}
		}
		if d.Deadline.IsZero() && got.Before(earliest) {
			t.Fatalf("%s is before %s, when something changes", got, earliest)
		}
		bound := later(earliest, d.Now).Add(2*time.Second + d.Spread)
		if got.After(bound) {
			t.Fatalf("%s is after %s", got, bound)
		}
		if !d.Deadline.IsZero() && got.After(d.Deadline) && got.Sub(d.Now) > time.Second {
			t.Fatalf("%s is past the deadline %s", got, d.Deadline)
		}
	})
}

func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		waiters int
		rate    float64
		want    time.Duration
	}{
		{0, 10, 0},
		{1, 0.01, 0},
		{10, 5, 2 * time.Second},
		{2, 4, 500 * time.Millisecond},
		{1000, 5, 10 * time.Second},
		{2, 0, 10 * time.Second},
		{2, -1, 10 * time.Second},
	} {
		same(t, "spread", Spread(tc.waiters, tc.rate), tc.want)
	}
}

func TestBackoff(t *testing.T) {
	for _, tc := range []struct {
		failures int
		floor    time.Duration
		random   float64
		want     time.Duration
	}{
		{1, 0, 0, time.Second},
		{1, 0, 0.999, 5 * time.Second},
		{3, 0, 0.5, 10 * time.Second},
		{7, 0, 0.5, 150 * time.Second}, // bounded by the cap: 300 s, not 320
		{1000, 0, 0.999999, 5 * time.Minute},
		{0, 0, 0.5, 3 * time.Second},
		{1, time.Minute, 0.5, time.Minute},
		{1, time.Minute + 1, 0.5, time.Minute + time.Second},
	} {
		got := Backoff(tc.failures, epoch, epoch.Add(tc.floor), tc.random).Sub(epoch)
		same(t, "backoff", got, tc.want)
	}
	same(t, "without a floor", Backoff(1, epoch, time.Time{}, 0.5), epoch.Add(3*time.Second))
}

func TestBackoffProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := epoch.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now")))
		floor := epoch.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "floor")))
		got := Backoff(rapid.IntRange(0, 2000).Draw(t, "failures"), now, floor, rapid.Float64Range(0, 0.999999).Draw(t, "random"))
		if got.Nanosecond() != 0 || !got.After(now) || got.Before(floor) || got.After(later(now.Add(backoffCap), floor).Add(time.Second)) {
			t.Fatalf("backoff until %s, now %s, floor %s", got, now, floor)
		}
	})
}

// Who waits for a text at the deadline is told of the outage, and not of the text.
func TestCauseIsWhatKeepsTheLine(t *testing.T) {
	rung := Wait{"nightshift/text", ReasonRung, epoch.Add(time.Second)}
	limited := Wait{"p/a", ReasonLimited, epoch.Add(time.Hour)}
	open := Wait{"p/b", ReasonBreaker, epoch.Add(time.Minute)}
	same(t, "cause", Cause([]Wait{rung, limited, open}), open)
	same(t, "alone", Cause([]Wait{rung}), rung)
	same(t, "nothing", Cause(nil), Wait{})
}

// The places of a guard are apart already: who goes later than his gives it away.
func TestAPlaceIsNotSpread(t *testing.T) {
	now := time.Unix(1000, 0)
	d := Deferring{Now: now, MaxCooldown: time.Hour, Spread: 10 * time.Second, Random: 0.99, Waits: []Wait{
		{Model: "p/a", Reason: ReasonBreaker, Until: now.Add(time.Hour)},
		{Reason: ReasonGuard, Until: now.Add(90*time.Second + 1)},
	}}
	if at := DeferUntil(d); !at.Equal(now.Add(91 * time.Second)) {
		t.Errorf("%s after now", at.Sub(now))
	}
	d.Waits[0].Until = now.Add(time.Minute)
	if at := DeferUntil(d); !at.Equal(now.Add(69 * time.Second)) {
		t.Errorf("behind a breaker, %s after now", at.Sub(now))
	}
}
