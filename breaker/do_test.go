package breaker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDo(t *testing.T) {
	suite(t, func(b *bundle) {
		b.settings.TaskProbes, b.settings.SlowCall = true, time.Hour
		fail := func(context.Context) Report { return Report{Outcome: Failure} }
		for range 11 {
			if err := Do(b.Context(), b.store, b.key, fail); err != nil {
				b.Fatal(err)
			}
		}
		err := Do(b.Context(), b.store, b.key, func(context.Context) Report { panic("called while open") })
		var open *OpenError
		if !errors.As(err, &open) {
			b.Fatalf("%v is no rejection", err)
		}
		b.pass(30 * time.Second)
		func() {
			defer func() { _ = recover() }()
			_ = Do(b.Context(), b.store, b.key, func(context.Context) Report { panic("boom") })
		}()
		b.wantState(Open) // the lease was given back
		b.pass(30 * time.Second)
		ctx, cancel := context.WithCancel(b.Context())
		err = Do(ctx, b.store, b.key, func(ctx context.Context) Report {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 40*time.Second {
				b.Errorf("the probe may last until %s", deadline)
			}
			cancel() // the report outlives the call's context
			return Report{Outcome: Success}
		})
		if err != nil {
			b.Fatal(err)
		}
		b.wantState(Closed)
		slow := func(context.Context) Report { return Report{Outcome: Success, Latency: 2 * time.Hour} }
		if err := Do(b.Context(), b.store, b.key, slow); err != nil || b.status().Failures != 1 {
			b.Errorf("%v, %+v", err, b.status())
		}
	})
}

// A call that is the probe and hangs must end while its report still counts:
// else the breaker would be probed once a lease, and its cooldown never grow.
func TestDoEndsASilentProbeBeforeItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory(fixed(Settings{Window: 1, TaskProbes: true}), nil)
		k := Key{Provider: "openai", Model: "openai/gpt-4o"}
		silent := func(ctx context.Context) Report {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return Report{Outcome: Failure, Reason: "silent"}
		}
		for range 2 {
			if err := Do(t.Context(), s, k, silent); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		if st, _ := s.List(t.Context(), []Key{k}); st[0].State != Open || st[0].Cooldown != 2*time.Minute {
			t.Errorf("after a silent probe: %+v", st[0])
		}
	})
}

// A baseline of one failed call in a hundred must not trip the breaker. The
// figure is printed with -v.
func TestAYearOfABaselineOfErrorsDoesNotTrip(t *testing.T) {
	const rate = 100 // one in so many fails
	for name, gap := range map[string]time.Duration{"four calls a minute": 15 * time.Second, "one call a minute": time.Minute} {
		now := time.UnixMilli(1_750_000_000_000)
		trips := 0
		m := NewMemory(fixed(Settings{}), func() time.Time { return now }, OnTransition(func(Transition) { trips++ }))
		key, calls, worst := Key{Provider: "a", Model: "a/x"}, 0, 0
		seed := uint64(1)
		for end := now.AddDate(1, 0, 0); now.Before(end); now = now.Add(gap) {
			seed = seed*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
			out := Success
			if seed>>33%rate == 0 {
				out = Failure
			}
			tk, err := m.Admit(t.Context(), key)
			if err != nil {
				break
			}
			_ = m.Report(t.Context(), tk, Report{Outcome: out})
			calls++
			if out == Failure {
				rec := m.record(key)
				n, _ := rec.failures()
				worst = max(worst, n)
			}
		}
		t.Logf("%s: %d calls in a year, at most %d failures in a window of 20, %d trips", name, calls, worst, trips)
		if trips != 0 || worst == 0 {
			t.Errorf("%s: %d transitions", name, trips)
		}
	}
}
