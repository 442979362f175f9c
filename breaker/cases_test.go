package breaker

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// The tests of this file are the breaker's cases of the list of faults, by
// their numbers. Case 1 also has one in watch_test.go, for probers that panic.

func TestCase01_AProbeThatIsNeverReported(t *testing.T) {
	suite(t, func(b *bundle) {
		b.trip()
		b.pass(30 * time.Second)
		lost := b.probe()
		b.pass(39999 * time.Millisecond)
		if _, err := b.store.AdmitProbe(b.Context(), b.key); !isHalfOpen(err) {
			b.Fatalf("a second probe during the lease: %v", err)
		}
		b.pass(time.Millisecond)
		if due := b.due(); len(due) != 1 {
			b.Fatalf("due after the lease: %v", due)
		}
		next := b.probe()
		if next.ID == lost.ID {
			b.Error("the token of the lost probe came back")
		}
		b.report(next, Report{Outcome: Success})
		b.wantState(Closed)
	})
}

func isHalfOpen(err error) bool {
	var open *OpenError
	return errors.As(err, &open) && open.State == HalfOpen
}

func TestCase02_AProbeThatEndsInTheCallersError(t *testing.T) {
	for name, end := range map[string]func(b *bundle, p Ticket){
		"no evidence": func(b *bundle, p Ticket) { b.report(p, Report{Outcome: None, Reason: "invalid request"}) },
		"released": func(b *bundle, p Ticket) {
			if err := b.store.Release(b.Context(), p); err != nil {
				b.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			suite(t, func(b *bundle) {
				b.trip()
				b.pass(30 * time.Second)
				end(b, b.probe())
				b.wantState(Open)
				b.wantWait(70 * time.Second) // the same cooldown
				if reason := b.rejected().Reason; reason != "status 503" {
					b.Errorf("open because of %q", reason)
				}
				b.pass(30 * time.Second)
				b.probe()
			})
		})
	}
}

func TestCase03_ALateSuccessDuringTheProbe(t *testing.T) {
	suite(t, func(b *bundle) {
		late := b.admit()
		b.trip()
		b.report(late, Report{Outcome: Success})
		b.wantState(Open)
		b.pass(30 * time.Second)
		p := b.probe()
		b.report(late, Report{Outcome: Success})
		b.wantState(HalfOpen)
		if _, err := b.store.AdmitProbe(b.Context(), b.key); !isHalfOpen(err) {
			b.Errorf("the late result freed a permit: %v", err)
		}
		b.report(p, Report{Outcome: Success})
		b.report(late, Report{Outcome: Failure})
		if st := b.status(); st.State != Closed || st.Results != 0 {
			b.Errorf("the late result counts after the close: %+v", st)
		}
	})
}

func TestCase04_TheReportOfALeaseThatEnded(t *testing.T) {
	suite(t, func(b *bundle) {
		b.trip()
		b.pass(30 * time.Second)
		a := b.probe()
		b.pass(40 * time.Second)
		b.report(a, Report{Outcome: Success}) // nobody else probes yet: no-op all the same
		b.wantState(HalfOpen)
		second := b.probe()
		b.report(a, Report{Outcome: Success})
		b.report(a, Report{Outcome: Failure})
		b.wantState(HalfOpen)
		b.report(second, Report{Outcome: Success})
		b.wantState(Closed)
	})
}

func TestCase06_ConcurrentFailuresMakeOneTransition(t *testing.T) {
	suite(t, func(b *bundle) {
		tickets := make([]Ticket, b.settings.Failures+1)
		for i := range tickets {
			tickets[i] = b.admit()
		}
		var wg sync.WaitGroup
		for _, tk := range tickets {
			wg.Go(func() { b.report(tk, Report{Outcome: Failure}) })
		}
		wg.Wait()
		until := b.rejected().Until
		b.pass(time.Second)
		b.report(tickets[0], Report{Outcome: Failure, RetryAfter: time.Minute})
		if moves := b.saw(); len(moves) != 1 || !b.rejected().Until.Equal(until) {
			b.Errorf("transitions %+v; until %s, then %s", moves, until, b.rejected().Until)
		}
	})
}

func TestCase07_CooldownsDoubleToTheCap(t *testing.T) {
	suite(t, func(b *bundle) {
		b.trip()
		for _, seconds := range []int{30, 60, 120, 240, 300, 300} {
			cooldown := time.Duration(seconds) * time.Second
			b.wantWait(cooldown + 40*time.Second)
			b.pass(cooldown - time.Millisecond)
			b.notDue()
			b.pass(time.Millisecond)
			b.report(b.probe(), Report{Outcome: Failure})
		}
		b.rejected()
		b.pass(5 * time.Minute)
		b.report(b.probe(), Report{Outcome: Success})
		b.trip()
		b.wantWait(70 * time.Second) // the first cooldown again
	})
}

func TestCase08_RetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		first, last time.Duration
		cooldown    time.Duration
	}{
		"1 then 60":           {time.Second, time.Minute, time.Minute},
		"60 then 1":           {time.Minute, time.Second, time.Minute},
		"shorter is no help":  {time.Second, time.Second, 30 * time.Second},
		"days are the cap":    {0, 72 * time.Hour, 5 * time.Minute},
		"the largest number":  {0, 1<<63 - 1, 5 * time.Minute},
		"negative is nothing": {0, -time.Hour, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			suite(t, func(b *bundle) {
				b.report(b.admit(), Report{Outcome: Failure, RetryAfter: c.first})
				b.fails(9)
				b.report(b.admit(), Report{Outcome: Failure, RetryAfter: c.last})
				b.wantWait(c.cooldown + 40*time.Second)
				b.pass(c.cooldown)
				b.report(b.probe(), Report{Outcome: Failure, RetryAfter: c.last})
				b.wantWait(max(c.cooldown, time.Minute) + 40*time.Second)
				b.pass(max(c.cooldown, time.Minute))
				b.probe() // and it still probes
			})
		})
	}
}

func TestCase10_SixtyFourWorkersRaceForOneProbe(t *testing.T) {
	suite(t, func(b *bundle) {
		b.trip()
		b.pass(30 * time.Second)
		var won atomic.Int32
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 64 {
			wg.Go(func() {
				<-start
				switch _, err := b.store.AdmitProbe(b.Context(), b.key); {
				case err == nil:
					won.Add(1)
				case !isHalfOpen(err):
					b.Errorf("admit probe: %v", err)
				}
			})
		}
		close(start)
		wg.Wait()
		if won.Load() != 1 {
			b.Errorf("%d probes, want 1", won.Load())
		}
	})
}

func TestCase11_TheReplyOfAReportIsLost(t *testing.T) {
	suite(t, func(b *bundle) {
		for range 10 {
			tk := b.admit()
			for range 3 {
				b.report(tk, Report{Outcome: Failure})
			}
		}
		if st := b.status(); st.Failures != 10 || st.State != Closed {
			b.Fatalf("counted %d times, want 10: %+v", st.Failures, st)
		}
		b.trip1()
		b.pass(30 * time.Second)
		p := b.probe()
		b.report(p, Report{Outcome: Failure})
		b.report(p, Report{Outcome: Failure})
		b.wantWait(100 * time.Second) // doubled once
	})
}

// trip1 adds the one failure that lacks.
func (b *bundle) trip1() {
	b.fails(1)
	b.rejected()
}

func TestCase11_TheReplyOfAnAdmissionIsLost(t *testing.T) {
	ask := func(b *bundle, op Op) Reply {
		store := b.store
		switch s := store.(type) {
		case *Fallback:
			store = s.shared
		case inPipelines:
			store = s.Redis
		}
		switch s := store.(type) {
		case *Memory:
			return s.do(b.key, &op)
		case *Redis:
			r, err := s.do(b.Context(), b.key, &op)
			if err != nil {
				b.Fatal(err)
			}
			return r
		}
		panic("unknown store")
	}
	suite(t, func(b *bundle) {
		b.trip()
		b.pass(30 * time.Second)
		op := Op{Kind: OpAdmitProbe, ID: 42}
		first := ask(b, op)
		b.pass(time.Second)
		again := ask(b, op)
		if first.Code != Granted || again.Code != Granted || again.Epoch != first.Epoch || again.Lease != 39_000 {
			b.Errorf("asked twice: %+v, then %+v", first, again)
		}
		if r := ask(b, Op{Kind: OpAdmitProbe, ID: 43}); r.Code != Rejected {
			b.Errorf("another prober: %+v", r)
		}
		b.report(again.ticket(b.key, 42), Report{Outcome: Success})
		b.wantState(Closed)
	})
}

func TestCase12_TheClockSteps(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"back a second": -time.Second, "back a year": -365 * 24 * time.Hour,
		"ahead an hour": time.Hour, "ahead a year": 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			suite(t, func(b *bundle) {
				b.fails(5)
				b.pass(step)
				b.fails(6)
				if step > time.Hour {
					b.fails(5) // the first five are stale
				}
				bounded := func() {
					b.Helper()
					if wait := b.rejected().RetryAfter; wait < 0 || wait > 5*time.Minute+40*time.Second {
						b.Fatalf("rejected for %s", wait)
					}
				}
				bounded()
				b.pass(step)
				bounded()
				b.pass(5 * time.Minute)
				bounded()
				b.probe()
				b.pass(step)
				bounded()
				b.pass(40 * time.Second)
				b.report(b.probe(), Report{Outcome: Success})
				b.pass(step)
				b.fails(11)
				b.wantState(Open)
			})
		})
	}
}

func TestCase13_RedisLosesTheBreaker(t *testing.T) {
	rdb := redistest.Client(t)
	lose := func(b *bundle) {
		if err := rdb.FlushAll(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Millisecond)
	}
	b := &bundle{T: t, settings: Settings{}.WithDefaults(), now: time.UnixMilli(1_750_000_000_000), key: Key{Provider: "a", Model: "a/b"}}
	b.store = b.onRedis(rdb)
	call := b.admit()
	b.trip()
	b.pass(30 * time.Second)
	probe := b.probe()
	lose(b)
	old := func() {
		b.Helper()
		b.report(call, Report{Outcome: Failure, Hard: true})
		b.report(probe, Report{Outcome: Failure})
		b.report(probe, Report{Outcome: Success})
	}
	old()
	if n := rdb.DBSize(b.Context()).Val(); n != 0 {
		t.Errorf("old tickets made %d keys", n)
	}
	fresh := b.admit()
	old()
	if st := b.status(); st.State != Closed || st.Results != 0 {
		t.Errorf("old tickets moved the new record: %+v", st)
	}
	b.report(fresh, Report{Outcome: Failure})
	if st := b.status(); st.Failures != 1 {
		t.Errorf("the new ticket did not count: %+v", st)
	}
	if _, err := rdb.ZScore(b.Context(), dueKey("a"), "a/b").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("the due set holds the lost breaker: %v", err)
	}
}

func TestCase14_TripsAtFourCallsAMinute(t *testing.T) { tripsAtPace(t, 15*time.Second) }

func TestCase14_TripsAtOneCallAMinute(t *testing.T) { tripsAtPace(t, time.Minute) }

func TestCase14_TripsAtOneCallInFiveMinutes(t *testing.T) { tripsAtPace(t, 5*time.Minute) }

// tripsAtPace has every call fail, one each interval, from a cold ring and from
// one that is full of successes at the same pace.
func tripsAtPace(t *testing.T, interval time.Duration) {
	for name, before := range map[string]int{"cold": 0, "full": 40} {
		t.Run(name, func(t *testing.T) {
			suite(t, func(b *bundle) {
				for range before {
					b.report(b.admit(), Report{Outcome: Success})
					b.pass(interval)
				}
				for range 10 {
					b.fails(1)
					b.pass(interval)
				}
				b.wantState(Closed)
				b.fails(1)
				b.wantState(Open)
			})
		})
	}
}
