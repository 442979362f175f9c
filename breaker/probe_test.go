package breaker

import (
	"errors"
	"testing"
	"time"
)

func (b *bundle) openWith(probes, successes int) {
	b.Helper()
	b.settings.Probes, b.settings.ProbeSuccesses = probes, successes
	b.trip()
	b.pass(30 * time.Second)
}

func TestThreeProbesOfWhichTwoMustSucceed(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes []Outcome
		want     State
		cooldown time.Duration // next, when open
	}{
		"two answers":                 {[]Outcome{Success, Success}, Closed, 30 * time.Second},
		"one answer":                  {[]Outcome{Success}, HalfOpen, 0},
		"an answer and a failure":     {[]Outcome{Success, Failure}, HalfOpen, 0},
		"a failure, then two answers": {[]Outcome{Failure, Success, Limited}, Closed, 30 * time.Second},
		"two failures":                {[]Outcome{Failure, Failure}, Open, 2 * time.Minute},
		"nothing said twice":          {[]Outcome{None, None}, Open, time.Minute},
		"a failure and nothing said":  {[]Outcome{None, Failure}, Open, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			suite(t, func(b *bundle) {
				b.openWith(3, 2)
				probes := []Ticket{b.probe(), b.probe(), b.probe()}
				if _, err := b.store.AdmitProbe(b.Context(), b.key); !isHalfOpen(err) {
					b.Fatalf("a fourth probe: %v", err)
				}
				for i, o := range c.outcomes {
					b.report(probes[i], Report{Outcome: o})
				}
				b.wantState(c.want)
				if st := b.status(); c.cooldown != 0 && st.Cooldown != c.cooldown {
					b.Errorf("next cooldown %s, want %s", st.Cooldown, c.cooldown)
				}
			})
		})
	}
}

func TestADeadProberCostsOneLease(t *testing.T) {
	suite(t, func(b *bundle) {
		b.openWith(2, 2)
		b.probe() // is never reported
		b.report(b.probe(), Report{Outcome: Success})
		if _, err := b.store.AdmitProbe(b.Context(), b.key); !isHalfOpen(err) {
			b.Fatalf("a third probe of the round: %v", err)
		}
		b.pass(40 * time.Second)
		b.report(b.probe(), Report{Outcome: Success})
		b.wantState(Closed)
	})
}

func TestProbesOneAfterTheOther(t *testing.T) {
	suite(t, func(b *bundle) {
		b.openWith(1, 3)
		for range 3 {
			b.wantState(map[bool]State{true: Open, false: HalfOpen}[len(b.saw()) == 1])
			p := b.probe()
			if _, err := b.store.AdmitProbe(b.Context(), b.key); !isHalfOpen(err) {
				b.Fatalf("two at once: %v", err)
			}
			b.report(p, Report{Outcome: Success})
		}
		b.wantState(Closed)
	})
}

func TestSlowCallsAreFailures(t *testing.T) {
	suite(t, func(b *bundle) {
		b.settings.SlowCall = 10 * time.Second
		for range 11 {
			b.report(b.admit(), Report{Outcome: Success, Latency: 10 * time.Second})
		}
		b.wantState(Closed)
		for range 11 {
			b.report(b.admit(), Report{Outcome: Success, Latency: 12345 * time.Millisecond})
		}
		b.wantState(Open)
		if reason := b.rejected().Reason; reason != "slow: took 12.345s" {
			b.Errorf("open because of %q", reason)
		}
	})
}

func TestTasksProbe(t *testing.T) {
	suite(t, func(b *bundle) {
		b.settings.TaskProbes = true
		b.trip()
		b.wantWait(30 * time.Second) // the task is the probe: nothing comes before it
		if _, err := b.store.Admit(b.Context(), b.key, NoProbe); err == nil || errors.Is(err, ErrNotDue) {
			b.Fatalf("admitted while open: %v", err)
		}
		b.pass(30 * time.Second)
		if due := b.due(); len(due) != 0 {
			b.Errorf("due for a prober: %v", due)
		}
		b.notDue()
		if _, err := b.store.Admit(b.Context(), b.key, NoProbe); err == nil {
			b.Fatal("a task that may not probe does")
		}
		p := b.admit()
		if !p.Probe || p.Scope != ScopeModel || p.Lease != 40*time.Second {
			b.Errorf("ticket %+v", p)
		}
		if open := b.rejected(); open.State != HalfOpen || open.RetryAfter != 40*time.Second {
			b.Errorf("the next task: %+v", open)
		}
		b.report(p, Report{Outcome: Success})
		b.wantState(Closed)
		if p := b.admit(); p.Probe {
			b.Errorf("ticket after the close: %+v", p)
		}
	})
}

func TestAfterARefusedProbeATaskProbes(t *testing.T) {
	suite(t, func(b *bundle) {
		b.trip()
		b.pass(30 * time.Second)
		b.report(b.probe(), Report{Outcome: None, Unfit: true, Reason: "max_tokens is too small"})
		b.wantState(Open)
		b.pass(30 * time.Second)
		b.notDue()
		if due := b.due(); len(due) != 0 {
			b.Errorf("due for a prober: %v", due)
		}
		b.report(b.admit(), Report{Outcome: Success})
		b.wantState(Closed)
		b.trip()
		b.pass(time.Minute)
		b.probe() // a prober again: whatever it sends may have changed
	})
}
