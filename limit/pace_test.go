package limit

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

// paced is a pacer under test, with a clock and limits that the test moves.
type paced struct {
	*testing.T
	Pacer
	mu     sync.Mutex
	now    time.Time
	limits Limits
}

func (p *paced) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *paced) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

func (p *paced) onRedis() *Redis {
	r := NewRedis(redistest.Client(p.T), func(Model) Limits { return p.limits })
	r.now = func() string { return strconv.FormatInt(p.clock().UnixMilli(), 10) }
	return r
}

func (p *paced) inMemory() *Memory { return NewMemory(func(Model) Limits { return p.limits }, p.clock) }

// pacers runs the test against all pacers, each new.
func pacers(t *testing.T, l Limits, test func(*paced)) {
	for name, build := range map[string]func(*paced) Pacer{
		"memory": func(p *paced) Pacer { return p.inMemory() },
		"redis":  func(p *paced) Pacer { return p.onRedis() },
		"fallback": func(p *paced) Pacer { // nobody can tell it from its Redis
			return NewFallback(p.onRedis(), p.inMemory(), FallbackOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &paced{T: t, now: time.UnixMilli(1_750_000_000_000), limits: l}
			p.Pacer = build(p)
			test(p)
		})
	}
}

func (p *paced) ask(a Ask) Slot {
	p.Helper()
	a.Model = model
	s, err := p.Reserve(p.Context(), a)
	if err != nil {
		p.Fatal(err)
	}
	return s
}

// want asks and compares.
func (p *paced) want(ticket string, want Slot) {
	p.Helper()
	if s := p.ask(Ask{Ticket: ticket}); s != want {
		p.Fatalf("%s: %+v, want %+v", ticket, s, want)
	}
}

var letGo = Slot{Verdict: Go}

func (p *paced) goes(ticket string) {
	p.Helper()
	p.want(ticket, letGo)
}

// waits asks and wants a place.
func (p *paced) waits(ticket string, why Reason) Slot {
	p.Helper()
	s := p.ask(Ask{Ticket: ticket})
	if s.Verdict != Wait || s.Reason != why || s.Wait <= 0 || s.Wait > 2*time.Second {
		p.Fatalf("%s: %+v, want a place because of %s", ticket, s, why)
	}
	return s
}

func (p *paced) ends(ticket string, r Result) time.Duration {
	p.Helper()
	d, err := p.Settle(p.Context(), model, ticket, r)
	if err != nil {
		p.Fatal(err)
	}
	return d
}

func (p *paced) list() Pace {
	p.Helper()
	l, err := p.List(p.Context(), []Model{model})
	if err != nil {
		p.Fatal(err)
	}
	return l[0]
}

func TestCase23_NobodyCallsBeforeARetryAfterHasPassed(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		p.goes("a")
		if d := p.ends("a", Result{Kind: Limited, RetryAfter: 30 * time.Second}); d != 30*time.Second {
			p.Fatalf("parked for %s", d)
		}
		for range 30 {
			for _, worker := range []string{"a", "b", "c"} {
				p.waits(worker, ReasonParked)
			}
			p.pass(999 * time.Millisecond)
		}
		p.pass(29 * time.Millisecond)
		p.waits("a", ReasonParked)
		p.pass(time.Millisecond)
		p.goes("a")
	})
}

func TestALongParkIsNotWaitedFor(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		if _, err := p.Park(p.Context(), model, "", time.Minute); err != nil {
			p.Fatal(err)
		}
		p.want("a", Slot{Refuse, time.Minute, ReasonParked, time.Minute})
		if l := p.list(); l.Waiting != 0 || l.Parked != time.Minute {
			p.Errorf("%+v", l)
		}
	})
}

func TestCase46_TheLaterRetryAfterWins(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		p.goes("a")
		p.goes("b")
		p.ends("a", Result{Kind: Limited, RetryAfter: time.Minute})
		if d := p.ends("b", Result{Kind: Limited, RetryAfter: 5 * time.Second}); d != time.Minute {
			p.Errorf("parked for %s", d)
		}
		p.pass(6 * time.Second)
		p.want("c", Slot{Refuse, 54 * time.Second, ReasonParked, 54 * time.Second})
	})
}

func TestCase48_LimitsThatChangeWhileFullAreFollowed(t *testing.T) {
	pacers(t, Limits{RPM: 5}, func(p *paced) {
		p.goes("a")
		p.waits("b", ReasonRequests)
		p.limits.RPM = 1
		for range 12 {
			p.pass(time.Second)
			if s := p.ask(Ask{Ticket: "b", Patience: time.Minute}); s.Verdict != Wait {
				p.Fatalf("%+v under one a minute", s)
			}
		}
		p.limits.RPM = 5
		for range 9 {
			p.pass(time.Second)
			p.waits("b", ReasonRequests)
		}
		p.pass(time.Second)
		p.goes("b")
		p.waits("c", ReasonRequests)
		for range 11 {
			p.pass(time.Second)
			p.waits("c", ReasonRequests)
		}
		p.pass(time.Second)
		p.goes("c")
	})
}

// Expired lines take no slots: they cancel or do not ask, and the live go on.
func TestCase50_TheDeadDoNotDelayTheLive(t *testing.T) {
	pacers(t, Limits{RPM: 60}, func(p *paced) {
		p.goes("first")
		for i := range 25 {
			p.waits("dead"+strconv.Itoa(i), ReasonRequests)
		}
		p.pass(4001 * time.Millisecond) // none of them asked again in time
		p.goes("live")
		for i := range 500 {
			if err := p.Cancel(p.Context(), model, "canceled"+strconv.Itoa(i)); err != nil {
				p.Fatal(err)
			}
		}
		p.waits("next", ReasonRequests)
		p.pass(time.Second)
		p.goes("next")
	})
}

func TestFirstComeFirstServed(t *testing.T) {
	pacers(t, Limits{RPM: 60}, func(p *paced) {
		p.goes("0")
		for _, ticket := range []string{"a", "b", "c"} {
			p.waits(ticket, ReasonRequests)
		}
		for _, ticket := range []string{"a", "b", "c"} {
			p.pass(time.Second)
			for _, other := range []string{"c", "b", "new"} {
				if other > ticket || other == "new" {
					p.waits(other, ReasonRequests)
				}
			}
			p.goes(ticket)
		}
	})
}

func TestAFreeSlotWaitsForNobodyWhoIsLate(t *testing.T) {
	pacers(t, Limits{Concurrency: 2}, func(p *paced) {
		p.goes("1")
		p.goes("2")
		p.waits("late", ReasonConcurrency)
		p.waits("b", ReasonConcurrency)
		p.ends("1", Result{Kind: Passed})
		p.waits("b", ReasonConcurrency) // the first may still come
		p.ends("2", Result{Kind: Passed})
		p.goes("b")
		p.goes("late")
	})
}

func TestADeadWorkersCallsEndWithTheirLease(t *testing.T) {
	pacers(t, Limits{Concurrency: 1}, func(p *paced) {
		if s := p.ask(Ask{Ticket: "dead", Lease: 20 * time.Second}); s != letGo {
			p.Fatalf("%+v", s)
		}
		p.pass(19 * time.Second)
		p.waits("a", ReasonConcurrency)
		p.pass(time.Second)
		p.goes("a")
		p.ends("dead", Result{Kind: Passed}) // it lived after all: no slot is freed twice
		p.waits("b", ReasonConcurrency)
	})
}

func TestALostReplyDoesNoHarm(t *testing.T) {
	pacers(t, Limits{Concurrency: 1}, func(p *paced) {
		p.goes("a")
		p.goes("a")
		p.waits("b", ReasonConcurrency)
		p.waits("b", ReasonConcurrency)
		if l := p.list(); l.InFlight != 1 || l.Waiting != 1 {
			p.Fatalf("%+v", l)
		}
		for range 2 {
			p.ends("a", Result{Kind: Passed, Tokens: 5, Latency: time.Second})
		}
		if l := p.list(); l.InFlight != 0 || l.Calls != 1 || l.Latency != time.Second {
			p.Fatalf("%+v", l)
		}
		for range 2 {
			if err := p.Cancel(p.Context(), model, "b"); err != nil {
				p.Fatal(err)
			}
		}
		p.goes("c")
	})
}

func TestTokensAreCorrectedBothWays(t *testing.T) {
	pacers(t, Limits{TPM: 6000}, func(p *paced) { // 100 a second, a bucket of 1000
		ask := func(ticket string, tokens int64, want Slot) {
			p.Helper()
			if s := p.ask(Ask{Ticket: ticket, Tokens: tokens}); s != want {
				p.Fatalf("%s: %+v, want %+v", ticket, s, want)
			}
		}
		wait := func(d time.Duration) Slot { return Slot{Verdict: Wait, Wait: d, Reason: ReasonTokens} }
		ask("a", 1000, letGo)
		p.ends("a", Result{Kind: Passed, Tokens: 400})
		ask("b", 600, letGo)
		p.ends("b", Result{Kind: Passed, Tokens: 650})
		ask("c", 10, wait(600*time.Millisecond))
		p.pass(600 * time.Millisecond)
		ask("c", 10, letGo)
	})
}

func TestARequestLargerThanTheBucketGoesAlone(t *testing.T) {
	pacers(t, Limits{TPM: 6000}, func(p *paced) {
		ask := func(ticket string, tokens int64) Verdict { return p.ask(Ask{Ticket: ticket, Tokens: tokens}).Verdict }
		if ask("small", 100) != Go || ask("large", 3000) != Wait || ask("later", 1) != Wait {
			t.Fatal("it does not wait for a full bucket, or others pass it")
		}
		p.pass(time.Second)
		if ask("later", 1) != Wait || ask("large", 3000) != Go || ask("later", 1) != Wait {
			t.Fatal("it does not go alone with a full bucket")
		}
		for range 20 { // it left a debt of 2000
			p.pass(time.Second)
			if ask("later", 1) != Wait {
				t.Fatal("the debt is forgotten")
			}
		}
		p.pass(time.Second)
		if ask("later", 1) != Go {
			t.Fatal("the debt never ends")
		}
	})
}

func TestLanesAreParkedApart(t *testing.T) {
	pacers(t, Limits{}, func(p *paced) {
		if s := p.ask(Ask{Ticket: "a", Lane: "flex"}); s != letGo {
			p.Fatal(s)
		}
		p.ends("a", Result{Kind: Limited, Lane: "flex", RetryAfter: 10 * time.Second})
		p.goes("b")
		if s := p.ask(Ask{Ticket: "c", Lane: "flex"}); s != (Slot{Wait, 2 * time.Second, ReasonParked, 10 * time.Second}) {
			p.Fatal(s)
		}
		if l := p.list(); l.Waiting != 0 || l.Parked != 0 || l.LearnedRate != 0 {
			p.Fatalf("%+v", l)
		}
		p.pass(10 * time.Second)
		if s := p.ask(Ask{Ticket: "c", Lane: "flex"}); s != letGo {
			p.Fatal(s)
		}
	})
}

func TestAModelWhoseBreakerClosedStartsSlowlyAndDoubles(t *testing.T) {
	pacers(t, Limits{RPM: 60_000}, func(p *paced) {
		if err := p.Restart(p.Context(), model); err != nil {
			p.Fatal(err)
		}
		var went []int
		n := 0
		for range 6 {
			before := n
			for range 10 { // a second of instant calls
				for ; p.ask(Ask{Ticket: strconv.Itoa(n)}).Verdict == Go; n++ {
					p.ends(strconv.Itoa(n), Result{Kind: Passed, Latency: time.Millisecond})
				}
				p.pass(100 * time.Millisecond)
			}
			went = append(went, n-before)
		}
		for i, least := 0, 1; i < len(went); i, least = i+1, least*2 {
			if went[i] < least || went[i] > 3*least+1 {
				t.Fatalf("calls a second %v, want about 2, 4, 8", went)
			}
		}
	})
}

func TestAClockThatStepsBackStopsNobody(t *testing.T) {
	for _, back := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		pacers(t, Limits{RPM: 600, Concurrency: 5}, func(p *paced) {
			for i := range 5 {
				p.goes(strconv.Itoa(i))
				p.pass(100 * time.Millisecond)
			}
			p.pass(-back)
			for i := range 5 {
				p.ends(strconv.Itoa(i), Result{Kind: Passed})
			}
			p.pass(2 * time.Second)
			for i := range 5 {
				p.goes("again" + strconv.Itoa(i))
			}
		})
	}
}
