package breaker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// flight counts the probes in flight of a fleet.
type flight struct {
	mu        sync.Mutex
	now, most int
	begun     []Key
}

func (f *flight) enter(k Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = append(f.begun, k)
	f.now++
	f.most = max(f.most, f.now)
}

func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
}

// slow is a prober whose probes take a while.
func (f *flight) slow(o Outcome) Prober {
	return proberFunc(func(_ context.Context, k Key) Report {
		f.enter(k)
		defer f.leave()
		time.Sleep(500 * time.Millisecond) // it is over before the next look at all
		return Report{Outcome: o}
	})
}

func TestOneWatcherSendsAWholeRound(t *testing.T) {
	for name, c := range map[string]struct {
		watchers, probes, successes, most, begun int
	}{
		"one of three":         {1, 3, 1, 3, 3},
		"two of three":         {1, 3, 2, 3, 3},
		"three, one at a time": {1, 1, 3, 1, 3},
		"eight workers":        {8, 3, 2, 3, 3},
		"one probe":            {8, 1, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, b *bundle) {
				b.settings.Probes, b.settings.ProbeSuccesses = c.probes, c.successes
				var f flight
				stop := b.watch(c.watchers, f.slow(Success))
				defer stop()
				time.Sleep(58 * time.Second)
				b.wantState(Closed)
				if f.most != c.most || len(f.begun) != c.begun {
					t.Errorf("%d probes, at most %d at a time; want %d and %d", len(f.begun), f.most, c.begun, c.most)
				}
			})
		})
	}
}

func TestAWholeRoundOfAParentGoesThroughItsModelsInTurn(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bundle) {
		b.store = NewMemory(b.settingsOf, nil)
		b.parent = &Settings{Probes: 2, ProbeSuccesses: 2}
		b.failBoth()
		for _, k := range []Key{b.key, other} {
			b.as(k, func() { b.rejected() }) // the work that waits
		}
		var f flight
		stop := b.watch(1, f.slow(Success))
		defer stop()
		time.Sleep(37 * time.Second)
		b.wantOf(b.key.Parent(), Closed)
		// Both leases are got at once, so either probe may begin first.
		slices.SortFunc(f.begun, func(a, b Key) int { return strings.Compare(a.Model, b.Model) })
		if want := []Key{b.key, other}; !slices.Equal(f.begun, want) || f.most != 2 {
			t.Errorf("probed through %v, %d at a time", f.begun, f.most)
		}
	})
}

// asks counts the questions of watchers.
type asks struct {
	Store
	mu           sync.Mutex
	dues, admits int
}

func (a *asks) Due(ctx context.Context, p string) ([]Key, error) {
	a.mu.Lock()
	a.dues++
	a.mu.Unlock()
	return a.Store.Due(ctx, p)
}

func (a *asks) AdmitProbe(ctx context.Context, k Key) (Ticket, error) {
	a.mu.Lock()
	a.admits++
	a.mu.Unlock()
	return a.Store.AdmitProbe(ctx, k)
}

func TestAWatcherAsksNoMoreThanItMust(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, b *bundle) {
		b.settings.Probes, b.settings.ProbeSuccesses = 3, 3
		counted := &asks{Store: b.store}
		b.store = counted
		var f flight
		stop := b.watch(1, f.slow(Failure))
		time.Sleep(10 * time.Minute)
		stop()
		// Two providers are looked at once a second; each lease leads to one look more.
		if most := 2*601 + len(f.begun); counted.dues > most || counted.admits > len(f.begun) {
			t.Errorf("%d looks, at most %d are needed; %d leases asked for, %d got", counted.dues, most, counted.admits, len(f.begun))
		}
	})
}

// A process that lacks a model takes no lease for it, which it could only lose.
func TestAModelThatThisProcessLacksIsLeftToOthers(t *testing.T) {
	for name, c := range map[string]struct {
		models []Key
		want   State
	}{
		"another's": {[]Key{other}, Open},
		"its own":   {[]Key{other, {Provider: "openai", Model: "openai/gpt-4o"}}, Closed},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, b *bundle) {
				var f flight
				ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
				defer cancel()
				Watcher{Store: b.store, Providers: []string{"openai"}, Models: c.models, Prober: f.slow(Success)}.Run(ctx)
				b.wantState(c.want)
			})
		})
	}
}
