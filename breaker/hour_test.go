package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// night is a provider, a fleet of 8 and an hour of outage, in virtual time and
// with the default numbers. Each worker has work for every model that comes back
// as soon as it may.
type night struct {
	*bundle
	keys []Key

	mu     sync.Mutex
	down   bool
	probes map[string]int // by what is probed, in the outage
	calls  int            // of tasks, in the outage
}

func (n *night) ask(what string) Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.down {
		return Report{Outcome: Success}
	}
	if what == "" {
		n.calls++
	} else {
		n.probes[what]++
	}
	return Report{Outcome: Failure, Reason: "status 503"}
}

func (n *night) set(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

// Probe is a Prober.
func (n *night) Probe(_ context.Context, t Ticket) Report {
	time.Sleep(time.Second)
	if t.Scope == ScopeParent {
		return n.ask(t.Key.Parent().String())
	}
	return n.ask(t.Key.String())
}

// work calls one model, one call after the other.
func (n *night) work(ctx context.Context, k Key) {
	for ctx.Err() == nil {
		wait := time.Second
		err := Do(ctx, n.store, k, func(context.Context) Report {
			time.Sleep(2 * time.Second)
			return n.ask("")
		})
		var open *OpenError
		if errors.As(err, &open) {
			wait = open.RetryAfter
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// run lives through the hour and returns how long after it all models are open
// to calls again.
func (n *night) run(fleet int) (recovered time.Duration) {
	ctx, cancel := context.WithCancel(n.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range fleet {
		wg.Go(func() { Watcher{Store: n.store, Providers: []string{n.key.Provider}, Prober: n}.Run(ctx) })
		for _, k := range n.keys {
			wg.Go(func() { n.work(ctx, k) })
		}
	}
	time.Sleep(10 * time.Minute)
	n.set(true)
	time.Sleep(time.Hour)
	n.set(false)
	start := time.Now()
	for !n.allClosed() {
		time.Sleep(time.Second)
	}
	return time.Since(start)
}

func (n *night) allClosed() bool {
	list, err := n.store.List(context.Background(), append(Parents(n.keys), n.keys...))
	if err != nil {
		n.Error(err)
	}
	for _, st := range list {
		if st.State != Closed {
			return false
		}
	}
	return true
}

func TestAnHourOfOutageOfAFleetOfEight(t *testing.T) {
	const cooldown = 5*time.Minute + 3*time.Second // a look and a probe beside it
	for _, models := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(models, " models"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &night{
					bundle: &bundle{T: t, settings: Settings{}.WithDefaults(), key: Key{Provider: "openai", Model: "openai/0"}},
					probes: map[string]int{},
				}
				n.store = NewMemory(n.settingsOf, nil)
				for i := range models {
					n.keys = append(n.keys, Key{Provider: "openai", Model: fmt.Sprint("openai/", i)})
				}
				recovered := n.run(8)
				t.Logf("%d models, fleet of 8, an hour: %d calls by tasks, probes %v; recovery seen after %s", models, n.calls, n.probes, recovered)
				for what, probes := range n.probes {
					if probes > 15 {
						t.Errorf("%d probes of %s", probes, what)
					}
				}
				if models > 1 && len(n.probes) > 1 {
					t.Errorf("models are probed beside their parent: %v", n.probes)
				}
				if recovered > cooldown {
					t.Errorf("recovery was seen after %s", recovered)
				}
				if most := 11 + 8*models; n.calls > most { // those that trip, and those in flight then
					t.Errorf("%d calls by tasks, want at most %d", n.calls, most)
				}
			})
		})
	}
}
