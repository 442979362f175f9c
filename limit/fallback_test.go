package limit

import (
	"context"
	"errors"
	"testing"
	"time"
)

// severed is a pacer whose connection the test cuts.
type severed struct {
	Pacer
	broken bool
	failed int // further answers that are lost
}

var errCut = errors.New("connection refused")

func (c *severed) fail() error {
	if c.broken {
		return errCut
	}
	if c.failed--; c.failed >= 0 {
		return errCut
	}
	return nil
}

func (c *severed) Reserve(ctx context.Context, a Ask) (Slot, error) {
	if err := c.fail(); err != nil {
		return Slot{}, err
	}
	return c.Pacer.Reserve(ctx, a)
}

func (c *severed) Settle(ctx context.Context, m Model, ticket string, r Result) (time.Duration, error) {
	if err := c.fail(); err != nil {
		return 0, err
	}
	return c.Pacer.Settle(ctx, m, ticket, r)
}

func (c *severed) Cancel(ctx context.Context, m Model, ticket string) error {
	if err := c.fail(); err != nil {
		return err
	}
	return c.Pacer.Cancel(ctx, m, ticket)
}

func (c *severed) Park(ctx context.Context, m Model, lane string, d time.Duration) (time.Duration, error) {
	if err := c.fail(); err != nil {
		return 0, err
	}
	return c.Pacer.Park(ctx, m, lane, d)
}

func (c *severed) List(ctx context.Context, models []Model) ([]Pace, error) {
	if err := c.fail(); err != nil {
		return nil, err
	}
	return c.Pacer.List(ctx, models)
}

// island is a process whose Redis can be cut off, beside others whose cannot.
type island struct {
	*paced
	cut    *severed
	others *paced
}

func onIsland(t *testing.T, l Limits) *island {
	p := &paced{T: t, now: time.UnixMilli(1_750_000_000_000), limits: l}
	r := p.onRedis()
	i := &island{paced: p, cut: &severed{Pacer: r}, others: &paced{T: t, Pacer: r}}
	p.Pacer = NewFallback(i.cut, p.inMemory(), FallbackOptions{Timeout: time.Second})
	return i
}

// back has Redis answer again, and the process notice it.
func (i *island) back() {
	i.cut.broken = false
	i.pass(time.Second)
	i.list()
}

func TestAloneASlotGetsOneCall(t *testing.T) {
	i := onIsland(t, Limits{})
	i.goes("before")
	i.cut.broken = true
	store := Slot{Verdict: Wait, Wait: time.Second, Reason: ReasonStore}
	if s := i.ask(Ask{Ticket: "a", Alone: true}); s != letGo {
		t.Fatalf("%+v", s)
	}
	if s := i.ask(Ask{Ticket: "a"}); s != letGo { // its answer was lost
		t.Fatalf("%+v", s)
	}
	if s := i.ask(Ask{Ticket: "b"}); s != store {
		t.Fatalf("%+v", s)
	}
	i.back()
	i.goes("b")
}

func TestCallsMadeAloneAreBooked(t *testing.T) {
	i := onIsland(t, Limits{RPM: 60, TPM: 60_000})
	i.goes("before")
	i.cut.broken = true
	i.ends("before", Result{Kind: Passed, Latency: time.Second})
	i.pass(time.Second)
	if s := i.ask(Ask{Ticket: "a", Tokens: 100, Alone: true}); s != letGo {
		t.Fatalf("%+v", s)
	}
	if s := i.ask(Ask{Ticket: "b", Tokens: 100, Alone: true}); s.Verdict != Wait || s.Reason != ReasonRequests {
		t.Fatalf("configured limits do not hold alone: %+v", s)
	}
	i.ends("a", Result{Kind: Passed, Tokens: 100, Latency: time.Second})
	if l := i.others.list(); l.Calls != 0 || l.InFlight != 1 {
		t.Fatalf("%+v", l)
	}
	i.back()
	if l := i.others.list(); l.Calls != 2 || l.InFlight != 0 {
		t.Fatalf("%+v", l)
	}
}

func TestParksHoldAloneAndAreToldLater(t *testing.T) {
	i := onIsland(t, Limits{})
	if _, err := i.others.Park(t.Context(), model, "", 20*time.Second); err != nil {
		t.Fatal(err)
	}
	i.waits("a", ReasonParked)
	i.cut.broken = true
	i.pass(10 * time.Second)
	if s := i.ask(Ask{Ticket: "a", Alone: true}); s.Reason != ReasonParked || s.Parked != 10*time.Second {
		t.Fatalf("a park of others is forgotten: %+v", s)
	}
	i.pass(10 * time.Second)
	if s := i.ask(Ask{Ticket: "a", Alone: true}); s != letGo {
		t.Fatalf("%+v", s)
	}
	if d := i.ends("a", Result{Kind: Limited, RetryAfter: time.Minute}); d != time.Minute {
		t.Fatalf("parked for %s", d)
	}
	i.pass(10 * time.Second)
	i.others.goes("other")
	i.back()
	want := Slot{Refuse, 49 * time.Second, ReasonParked, 49 * time.Second}
	i.others.want("next", want)
	i.want("b", want)
}

func TestAParkThatTheStoreHasNotHeardHolds(t *testing.T) {
	i := onIsland(t, Limits{Concurrency: 1})
	i.cut.broken = true
	if _, err := i.Park(t.Context(), model, "", 20*time.Second); err != nil {
		t.Fatal(err)
	}
	i.cut.broken = false
	i.pass(time.Second)
	if s := i.ask(Ask{Ticket: "a"}); s.Reason != ReasonParked || s.Verdict != Wait {
		t.Fatalf("the store lets go what is parked here: %+v", s)
	}
	i.list() // the slot that it gave goes back
	i.pass(19 * time.Second)
	i.goes("b")
}

func TestWhatFailsHalfWayIsToldAgain(t *testing.T) {
	i := onIsland(t, Limits{})
	i.cut.broken = true
	for _, ticket := range []string{"a", "b"} {
		if s := i.ask(Ask{Ticket: ticket, Alone: true}); s != letGo {
			t.Fatalf("%+v", s)
		}
		i.ends(ticket, Result{Kind: Passed})
	}
	i.cut.broken = false
	for _, failed := range []int{2, 0} { // the question, then what was missed
		i.cut.failed = failed
		i.pass(2 * time.Second)
		i.list()
	}
	i.pass(2 * time.Second)
	i.list()
	if l := i.others.list(); l.Calls != 2 {
		t.Fatalf("%+v", l)
	}
}

func TestCanceledAlone(t *testing.T) {
	i := onIsland(t, Limits{Concurrency: 1})
	i.goes("a")
	i.cut.broken = true
	if err := i.Cancel(t.Context(), model, "a"); err != nil {
		t.Fatal(err)
	}
	if l := i.others.list(); l.InFlight != 1 {
		t.Fatalf("%+v", l)
	}
	i.back()
	if l := i.others.list(); l.InFlight != 0 {
		t.Fatalf("%+v", l)
	}
}
