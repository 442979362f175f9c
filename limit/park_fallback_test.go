package limit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// cut is a store whose connection the test cuts.
type cut struct {
	ParkStore
	broken, hangs bool
	asked         int
}

func (c *cut) fail(ctx context.Context) error {
	c.asked++
	switch {
	case c.hangs:
		<-ctx.Done()
		return ctx.Err()
	case c.broken:
		return errors.New("connection refused")
	}
	return nil
}

func (c *cut) Parked(ctx context.Context, m Model) (time.Duration, error) {
	if err := c.fail(ctx); err != nil {
		return 0, err
	}
	return c.ParkStore.Parked(ctx, m)
}

func (c *cut) Park(ctx context.Context, m Model, retryAfter time.Duration) (time.Duration, error) {
	if err := c.fail(ctx); err != nil {
		return 0, err
	}
	return c.ParkStore.Park(ctx, m, retryAfter)
}

// lone is a process whose Redis can be cut off, beside others whose cannot.
type lone struct {
	*bundle
	cut    *cut
	others *bundle
	log    bytes.Buffer
}

func alone(t *testing.T) *lone {
	l := &lone{bundle: &bundle{T: t, now: time.UnixMilli(1_750_000_000_000)}}
	redis := l.onRedis()
	l.others = &bundle{T: t, store: redis}
	l.cut = &cut{ParkStore: redis}
	l.store = NewParkFallback(l.cut, NewParkMemory(l.clock), FallbackOptions{
		Timeout: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&l.log, nil)),
	})
	return l
}

func (l *lone) wantLines(gone, back int) {
	l.Helper()
	text := l.log.String()
	if strings.Count(text, "own memory") != gone || strings.Count(text, "can be asked again") != back {
		l.Errorf("log, want %d and %d lines:\n%s", gone, back, text)
	}
}

func TestParksOfOthersAreKnownWhileRedisIsAway(t *testing.T) {
	l := alone(t)
	l.others.park(time.Minute, time.Minute)
	l.parked(time.Minute)
	l.cut.broken = true
	l.pass(20 * time.Second)
	l.parked(40 * time.Second)
	l.pass(40 * time.Second)
	l.parked(0)
	l.wantLines(1, 0)
}

func TestParksMadeAloneAreToldLater(t *testing.T) {
	l := alone(t)
	l.cut.broken = true
	l.park(time.Minute, time.Minute)
	l.parked(time.Minute)
	l.others.parked(0)
	l.cut.broken = false
	l.pass(10 * time.Second)
	l.parked(50 * time.Second)
	l.others.parked(50 * time.Second)
	l.wantLines(1, 1)
	l.pass(50 * time.Second)
	l.parked(0)
	l.others.parked(0)
}

func TestCase46_TheLaterTimeWinsAlsoAfterwards(t *testing.T) {
	for name, c := range map[string]struct{ alone, others time.Duration }{
		"found alone":     {time.Minute, 20 * time.Second},
		"known to others": {20 * time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			l := alone(t)
			l.cut.broken = true
			l.park(c.alone, c.alone)
			l.others.now = l.now
			l.others.park(c.others, c.others)
			l.cut.broken = false
			l.pass(time.Second)
			l.parked(59 * time.Second)
			l.others.parked(59 * time.Second)
		})
	}
}

func TestTheWaitDoublesAlsoAlone(t *testing.T) {
	l := alone(t)
	l.park(0, time.Second)
	l.cut.broken = true
	l.pass(time.Second)
	l.park(0, 2*time.Second)
	l.pass(2 * time.Second)
	l.park(0, 4*time.Second)
}

func TestAParkThatIsOverIsNotTold(t *testing.T) {
	l := alone(t)
	l.cut.broken = true
	l.park(time.Second, time.Second)
	l.pass(time.Minute)
	l.cut.broken = false
	l.parked(0)
	l.others.parked(0)
	l.wantLines(1, 1)
}

func TestARedisThatIsAwayIsAskedOnceASecond(t *testing.T) {
	l := alone(t)
	l.cut.hangs = true
	for range 20 {
		l.parked(0)
		l.pass(100 * time.Millisecond)
	}
	if l.cut.asked > 2 {
		t.Errorf("asked %d times in two seconds", l.cut.asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.pass(time.Hour)
	if _, err := l.store.Parked(ctx, model); !errors.Is(err, context.Canceled) {
		t.Errorf("our own end is not the store's: %v", err)
	}
	l.wantLines(1, 0)
}

func TestAParkOutlivesACallThatEnds(t *testing.T) {
	l := alone(t)
	l.cut.hangs = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := l.store.Park(ctx, model, time.Minute); !errors.Is(err, context.Canceled) || d != time.Minute {
		t.Errorf("parked for %s, %v", d, err)
	}
	l.cut.hangs = false
	l.parked(time.Minute)
	l.parked(time.Minute)
	l.others.parked(time.Minute)
}

func TestATripToRedisThatFailsHalfWayIsRepeated(t *testing.T) {
	l := alone(t)
	l.cut.broken = true
	l.park(time.Minute, time.Minute)
	l.cut.broken = false
	l.cut.ParkStore = &brokenPark{ParkStore: l.cut.ParkStore, times: 2}
	for range 2 {
		l.pass(time.Second)
		_, _ = l.store.Parked(t.Context(), model)
		l.others.parked(0)
	}
	l.pass(time.Second)
	l.parked(57 * time.Second)
	l.others.parked(57 * time.Second)
	l.wantLines(1, 1)
}

// brokenPark answers questions and fails the first parks.
type brokenPark struct {
	ParkStore
	times int
}

func (b *brokenPark) Park(ctx context.Context, m Model, retryAfter time.Duration) (time.Duration, error) {
	if b.times--; b.times >= 0 {
		return 0, errors.New("connection reset")
	}
	return b.ParkStore.Park(ctx, m, retryAfter)
}
