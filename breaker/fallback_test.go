package breaker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

// cut is a store whose connection the test cuts.
type cut struct {
	Store
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

func (c *cut) Admit(ctx context.Context, k Key, o ...AdmitOption) (Ticket, error) {
	if err := c.fail(ctx); err != nil {
		return Ticket{}, err
	}
	return c.Store.Admit(ctx, k, o...)
}

func (c *cut) AdmitProbe(ctx context.Context, k Key) (Ticket, error) {
	if err := c.fail(ctx); err != nil {
		return Ticket{}, err
	}
	return c.Store.AdmitProbe(ctx, k)
}

func (c *cut) Report(ctx context.Context, t Ticket, r Report) error {
	if err := c.fail(ctx); err != nil {
		return err
	}
	return c.Store.Report(ctx, t, r)
}

func (c *cut) Due(ctx context.Context, p string) ([]Key, error) {
	if err := c.fail(ctx); err != nil {
		return nil, err
	}
	return c.Store.Due(ctx, p)
}

func (c *cut) List(ctx context.Context, k []Key) ([]Status, error) {
	if err := c.fail(ctx); err != nil {
		return nil, err
	}
	return c.Store.List(ctx, k)
}

// lone is a process whose Redis can be cut off, beside one whose cannot.
type lone struct {
	*bundle
	cut     *cut
	others  *Redis
	log     bytes.Buffer
	changes []bool
}

func alone(t *testing.T) *lone {
	l := &lone{bundle: &bundle{
		T: t, settings: Settings{}.WithDefaults(), now: time.UnixMilli(1_750_000_000_000),
		key: Key{Provider: "openai", Model: "openai/gpt-4o"},
	}}
	l.others = l.onRedis(redistest.Client(t))
	l.cut = &cut{Store: l.others}
	l.store = NewFallback(l.cut, NewMemory(l.settingsOf, l.clock), FallbackOptions{
		Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(&l.log, nil)),
		OnChange: func(away bool) { l.changes = append(l.changes, away) },
	})
	return l
}

func TestFallbackGoesOnWithTheFailuresSeen(t *testing.T) {
	l := alone(t)
	l.fails(10)
	l.cut.broken = true
	l.fails(1)
	l.wantWait(70 * time.Second)
	l.pass(30 * time.Second)
	if due := l.due(); len(due) != 1 {
		t.Fatalf("due: %v", due)
	}
	l.report(l.probe(), Report{Outcome: Success})
	l.admit()
	if !slices.Equal(l.changes, []bool{true}) || strings.Count(l.log.String(), "own memory") != 1 {
		t.Errorf("told of %v, log:\n%s", l.changes, l.log.String())
	}
	l.cut.broken = false
	l.pass(time.Second)
	l.admit()
	l.admit()
	if !slices.Equal(l.changes, []bool{true, false}) || l.store.(*Fallback).Away() || strings.Count(l.log.String(), "can be asked again") != 1 {
		t.Errorf("told of %v, log:\n%s", l.changes, l.log.String())
	}
}

func TestFallbackKnowsWhatOthersOpened(t *testing.T) {
	for _, scope := range []Scope{ScopeModel, ScopeParent} {
		l := alone(t)
		l.admit()
		tk, err := l.others.Admit(t.Context(), l.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.others.Report(t.Context(), tk, Report{Hard: true, Scope: scope, Reason: "quota"}); err != nil {
			t.Fatal(err)
		}
		l.rejected()
		l.cut.broken = true
		open := l.rejected()
		if open.Scope != scope || open.Reason != "quota" || open.RetryAfter != 5*time.Minute+40*time.Second {
			t.Errorf("rejected by %+v", open)
		}
		l.cut.broken = false
		l.pass(5 * time.Minute)
		if err := l.others.Force(t.Context(), map[Scope]Key{ScopeModel: l.key, ScopeParent: l.key.Parent()}[scope], Force{Action: ForceClose}); err != nil {
			t.Fatal(err)
		}
		l.admit()
		l.cut.broken = true
		l.admit() // and that it is closed again
	}
}

func TestFallbackComesBackWithoutAJump(t *testing.T) {
	l := alone(t)
	l.cut.broken = true
	l.fails(11)
	l.rejected()
	l.cut.broken = false
	l.pass(10 * time.Second)
	if open := l.rejected(); open.RetryAfter != 60*time.Second {
		t.Errorf("rejected by %+v", open)
	}
	if l.store.(*Fallback).Away() {
		t.Error("still away")
	}
	if st := l.redisStatus(); st.State != Open || st.Failures != 11 || st.Reason != "status 503" {
		t.Errorf("Redis was told %+v", st)
	}
	l.wantWait(70 * time.Second) // by Redis, whose cooldown began as it was told
	l.pass(30 * time.Second)
	l.report(l.probe(), Report{Outcome: Success})
	l.admit()
}

// redisStatus is the breaker as the others have it.
func (l *lone) redisStatus() Status {
	l.Helper()
	list, err := l.others.List(l.Context(), []Key{l.key})
	if err != nil {
		l.Fatal(err)
	}
	return list[0]
}

func TestFallbackAsksAStoreThatIsAwayOnceASecond(t *testing.T) {
	l := alone(t)
	l.cut.hangs = true
	for range 20 {
		l.fails(1)
		l.pass(100 * time.Millisecond)
		if l.status().State != Closed {
			break
		}
	}
	if l.cut.asked > 3 {
		t.Errorf("asked %d times", l.cut.asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.pass(time.Hour)
	if _, err := l.store.Admit(ctx, l.key); !errors.Is(err, context.Canceled) {
		t.Errorf("our own end is not the store's: %v", err)
	}
}

func TestFallbackKeepsAProbesReportForLater(t *testing.T) {
	l := alone(t)
	l.trip()
	l.pass(30 * time.Second)
	p := l.probe()
	l.cut.broken = true
	if err := l.store.Report(t.Context(), p, Report{Outcome: Success}); err == nil {
		t.Error("the report seems delivered")
	}
	l.cut.broken = false
	l.pass(time.Second)
	l.report(p, Report{Outcome: Success})
	l.wantState(Closed)
	l.admit()
}
