package limit

import (
	"context"
	"errors"
	"testing"
	"time"
)

// cutGuard is a guard whose connection the test cuts.
type cutGuard struct {
	*GuardMemory
	broken, hangs bool
}

func (c *cutGuard) away(ctx context.Context) error {
	switch {
	case c.hangs:
		<-ctx.Done()
		return ctx.Err()
	case c.broken:
		return errors.New("connection refused")
	}
	return nil
}

func (c *cutGuard) Reserve(ctx context.Context, ch Charge) error {
	if err := c.away(ctx); err != nil {
		return err
	}
	return c.GuardMemory.Reserve(ctx, ch)
}

func (c *cutGuard) Settle(ctx context.Context, ch Charge, usd int64) error {
	if err := c.away(ctx); err != nil {
		return err
	}
	return c.GuardMemory.Settle(ctx, ch, usd)
}

func (c *cutGuard) Release(ctx context.Context, ch Charge) error {
	if err := c.away(ctx); err != nil {
		return err
	}
	return c.GuardMemory.Release(ctx, ch)
}

// aloneGuard is ann's guard of two calls, in a process whose Redis can be cut off.
func aloneGuard(t *testing.T) (*guardBundle, *GuardFallback, *cutGuard) {
	g := newGuards(nil)
	g.limits["ann"] = GuardLimits{Calls: 2}
	cut := &cutGuard{GuardMemory: g.memory}
	f := NewGuardFallback(cut, func() time.Time { return g.now }, FallbackOptions{Timeout: time.Second})
	return &guardBundle{T: t, guards: g, store: g.memory}, f, cut
}

func TestGuardAloneBooksWhenRedisIsBack(t *testing.T) {
	b, f, cut := aloneGuard(t)
	known := b.charge("1", 5)
	b.ok(f.Reserve(t.Context(), known))
	cut.broken = true
	lone, unsent, flying := b.charge("2", 10), b.charge("3", 10), b.charge("4", 10)
	for _, c := range []Charge{lone, unsent, flying} {
		b.ok(f.Reserve(t.Context(), c)) // whatever the limit is
	}
	b.ok(f.Settle(t.Context(), known, 7))
	b.ok(f.Settle(t.Context(), lone, 20))
	b.ok(f.Release(t.Context(), unsent))
	if s := b.status(); s.Calls != 1 || s.USD != 5 {
		t.Fatalf("while it is cut off, it heard %+v", s)
	}
	cut.broken = false
	b.now = b.now.Add(2 * time.Second)
	other := b.charge("5", 0)
	other.Producer = "bob"
	b.ok(f.Reserve(t.Context(), other))
	if s := b.status(); s.Calls != 3 || s.USD != 7+20+10 {
		t.Errorf("afterwards %+v", s)
	}
	b.ok(f.Settle(t.Context(), flying, 1))
	if s := b.status(); s.Calls != 3 || s.USD != 7+20+1 || len(f.owed) != 0 {
		t.Errorf("at the end %+v, owed %d", s, len(f.owed))
	}
}

func TestGuardAloneKeepsWhatItWasRefused(t *testing.T) {
	b, f, cut := aloneGuard(t)
	for range 2 {
		b.ok(f.Reserve(t.Context(), b.charge("", 0)))
	}
	var over *OverError
	if err := f.Reserve(t.Context(), b.charge("3", 0)); !errors.As(err, &over) {
		t.Fatal(err)
	}
	cut.hangs = true
	b.now = b.now.Add(10 * time.Minute)
	var still *OverError
	if err := f.Reserve(t.Context(), b.charge("3", 0)); !errors.As(err, &still) || still.Wait != over.Wait-10*time.Minute {
		t.Fatalf("got %v, was %v", err, over)
	}
	b.ok(f.Reserve(t.Context(), Charge{Producer: "ann", Ticket: "probe", Always: true}))
	b.now = b.now.Add(still.Wait)
	b.ok(f.Reserve(t.Context(), b.charge("3", 0)))
}

func TestGuardAloneEndsWithItsCaller(t *testing.T) {
	b, f, cut := aloneGuard(t)
	cut.hangs = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Reserve(ctx, b.charge("1", 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("our own end is not the store's: %v", err)
	}
}
