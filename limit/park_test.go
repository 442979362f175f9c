package limit

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var model = Model{Provider: "openai", Model: "openai/gpt-4o"}

func (p *paced) parks(retryAfter, want time.Duration) {
	p.Helper()
	if got, err := p.Park(p.Context(), model, "", retryAfter); err != nil || got != want {
		p.Fatalf("parked for %s (%v), want %s", got, err, want)
	}
	p.parked(want)
}

func (p *paced) parked(want time.Duration) {
	p.Helper()
	if got := p.list().Parked; got != want {
		p.Fatalf("still parked for %s, want %s", got, want)
	}
}

func TestCase22_WithoutAHeaderTheWaitDoubles(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		p.parked(0)
		for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			want := time.Duration(seconds) * time.Second
			p.parks(0, want)
			p.pass(want)
			p.parked(0)
			p.pass(want) // the next refusal follows within twice the wait
		}
		p.pass(time.Minute)
		p.pass(time.Millisecond) // later than twice the wait: the streak is over
		p.parks(0, time.Second)
	})
}

func TestCallsThatAreTakenEndAStreak(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		taken := func(n int, every time.Duration) {
			p.Helper()
			for range n {
				p.pass(every)
				p.goes("taken")
				p.ends("taken", Result{Kind: Passed})
			}
		}
		limited := func(want time.Duration) {
			p.Helper()
			p.goes("limited")
			if d := p.ends("limited", Result{Kind: Limited}); d != want {
				p.Fatalf("parked for %s, want %s", d, want)
			}
		}
		taken(20, time.Millisecond)
		limited(time.Second)
		p.pass(time.Second)
		taken(5, 200*time.Millisecond)
		limited(time.Second)
		p.pass(time.Second)
		taken(3, 300*time.Millisecond)
		limited(2 * time.Second)
	})
}

func TestRefusalsOfOneMomentCountOnce(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if got, err := p.Park(p.Context(), model, "", 0); err != nil || got != time.Second {
					p.Errorf("parked for %s, %v", got, err)
				}
			})
		}
		wg.Wait()
		p.pass(time.Second)
		p.parks(0, 2*time.Second)
	})
}

func TestRetryAfterIsClamped(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		p.parks(-time.Hour, time.Second) // nonsense is none
		p.parks(time.Microsecond, time.Second)
		p.parks(72*time.Hour, time.Hour)
		p.parks(1<<63-1, time.Hour)
	})
}

func TestModelsAreParkedApart(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		p.parks(time.Minute, time.Minute)
		l, err := p.List(p.Context(), []Model{{Provider: "openai", Model: "openai/o3"}})
		if err != nil || l[0].Parked != 0 {
			p.Errorf("another model is parked: %+v, %v", l, err)
		}
	})
}

func TestAClockThatStepsBackDoesNotParkForEver(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		p.parks(time.Second, time.Second)
		p.pass(-time.Minute)
		p.parked(61 * time.Second)
		p.pass(-time.Millisecond)
		p.parked(0)
		p.parks(0, time.Second)
	})
}
