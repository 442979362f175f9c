package breaker

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// proberFunc is a Prober.
type proberFunc func(context.Context, Key) Report

func (f proberFunc) Probe(ctx context.Context, t Ticket) Report { return f(ctx, t.Key) }

// inVirtualTime runs the test in a bubble with a memory store whose breaker of
// key is open and wanted.
func inVirtualTime(t *testing.T, test func(t *testing.T, b *bundle)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bundle{T: t, settings: Settings{}.WithDefaults(), key: Key{Provider: "openai", Model: "openai/gpt-4o"}}
		b.store = NewMemory(b.settingsOf, nil)
		b.trip()
		test(t, b)
	})
}

// watch runs watchers of the prober until the returned function is called.
func (b *bundle) watch(n int, p Prober) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	for range n {
		go func() {
			Watcher{Store: b.store, Providers: []string{"other", "openai"}, Prober: p}.Run(ctx)
			done <- struct{}{}
		}()
	}
	return func() {
		cancel()
		for range n {
			<-done
		}
	}
}

func TestWatcherProbesWithoutATask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bundle) {
		start := time.Now()
		var probes []time.Duration
		stop := b.watch(8, proberFunc(func(ctx context.Context, key Key) Report {
			probes = append(probes, time.Since(start))
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 30*time.Second || key != b.key {
				t.Errorf("probe of %v until %v", key, deadline)
			}
			if len(probes) < 3 {
				return Report{Outcome: Failure}
			}
			return Report{Outcome: Success}
		}))
		time.Sleep(10 * time.Minute)
		stop()
		if len(probes) != 3 || probes[0] > 31*time.Second || probes[1] > 92*time.Second || probes[2] > 213*time.Second {
			t.Errorf("probes at %v", probes)
		}
		b.wantState(Closed)
	})
}

func TestWatchersLeaveIdleBreakersAlone(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bundle) {
		var probes atomic.Int32
		stop := b.watch(8, proberFunc(func(context.Context, Key) Report {
			probes.Add(1)
			return Report{Outcome: Failure}
		}))
		defer stop()
		time.Sleep(time.Hour)
		seen := probes.Load()
		time.Sleep(24 * time.Hour)
		if probes.Load() != seen || seen > 6 {
			t.Errorf("%d probes in the first hour, %d in the next day; nobody waited", seen, probes.Load()-seen)
		}
	})
}

func TestCase01_AProberThatPanics(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context){
		"panic":  func(context.Context) { panic("boom") },
		"goexit": func(context.Context) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, b *bundle) {
				var probes atomic.Int32
				stop := b.watch(2, proberFunc(func(ctx context.Context, _ Key) Report {
					if probes.Add(1) == 1 {
						end(ctx)
					}
					return Report{Outcome: Success}
				}))
				defer stop()
				time.Sleep(32 * time.Second)
				b.wantState(Open)
				b.wantCooldown(30 * time.Second)
				time.Sleep(30 * time.Second)
				b.wantState(Closed)
			})
		})
	}
}

// wantCooldown checks the cooldown in force.
func (b *bundle) wantCooldown(want time.Duration) {
	b.Helper()
	if got := b.status().Cooldown; got != 2*want {
		b.Errorf("next cooldown %s, want %s", got, 2*want)
	}
}

func TestCase01_AWatcherStoppedDuringItsProbe(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bundle) {
		begun := make(chan struct{})
		stop := b.watch(1, proberFunc(func(ctx context.Context, _ Key) Report {
			close(begun)
			<-ctx.Done()
			time.Sleep(time.Second) // Run waits for it
			return Report{Outcome: Failure, Reason: "context canceled"}
		}))
		<-begun
		b.wantState(HalfOpen)
		stop()
		b.wantState(Open)
		b.wantCooldown(30 * time.Second) // being stopped is no evidence
	})
}

func TestASlowProbeFailsBeforeItsLeaseEnds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bundle) {
		var probes atomic.Int32
		stop := b.watch(4, proberFunc(func(ctx context.Context, _ Key) Report {
			probes.Add(1)
			<-ctx.Done()
			return Report{Outcome: Failure, Reason: "timeout"}
		}))
		defer stop()
		time.Sleep(62 * time.Second)
		b.wantState(Open)
		b.wantCooldown(time.Minute)
		if probes.Load() != 1 {
			t.Errorf("%d probes", probes.Load())
		}
	})
}

func TestAProberThatIgnoresItsDeadlineIsAloneInItsProcess(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bundle) {
		var probes atomic.Int32
		stop := b.watch(1, proberFunc(func(context.Context, Key) Report {
			probes.Add(1)
			time.Sleep(2 * time.Minute)
			return Report{Outcome: Success}
		}))
		time.Sleep(140 * time.Second) // its lease ended long ago
		if probes.Load() != 1 {
			t.Errorf("%d probes side by side", probes.Load())
		}
		b.wantState(HalfOpen)
		stop()
		b.wantState(HalfOpen) // what it found came too late
	})
}

// flaky fails every report until the time comes.
type flaky struct {
	Store
	until time.Time
}

func (f flaky) Report(ctx context.Context, t Ticket, r Report) error {
	if time.Now().Before(f.until) {
		return errors.New("connection refused")
	}
	return f.Store.Report(ctx, t, r)
}

func TestAProbesResultOutlivesAShortOutageOfTheStore(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bundle) {
		b.store = flaky{b.store, time.Now().Add(34 * time.Second)}
		stop := b.watch(1, proberFunc(func(context.Context, Key) Report { return Report{Outcome: Success} }))
		defer stop()
		time.Sleep(35 * time.Second)
		b.wantState(Closed)
	})
}
