package breaker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// bundle is one store under the conformance suite, with a clock that the test
// moves and a list of the transitions that the hook saw.
type bundle struct {
	*testing.T
	store    Store
	key      Key
	settings Settings
	parent   *Settings // nil: as settings

	mu    sync.Mutex
	now   time.Time
	moves []Transition
}

func (b *bundle) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bundle) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bundle) saw() []Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moves
}

// suite runs the test against all stores, each new, with default settings.
func suite(t *testing.T, test func(*bundle)) {
	newBundle := func(t *testing.T) *bundle {
		return &bundle{
			T: t, settings: Settings{}.WithDefaults(), now: time.UnixMilli(1_750_000_000_000),
			key: Key{Provider: "openai", Model: "openai/gpt-4o"},
		}
	}
	hook := func(b *bundle) Option {
		return OnTransition(func(tr Transition) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.moves = append(b.moves, tr)
		})
	}
	t.Run("memory", func(t *testing.T) {
		b := newBundle(t)
		b.store = NewMemory(b.settingsOf, b.clock, hook(b))
		test(b)
	})
	t.Run("redis", func(t *testing.T) {
		b := newBundle(t)
		b.store = b.onRedis(redistest.Client(t), hook(b))
		test(b)
	})
	t.Run("fallback", func(t *testing.T) { // nobody can tell it from its Redis
		b := newBundle(t)
		b.store = b.onFallback(redistest.Client(t), hook(b))
		test(b)
	})
	t.Run("in pipelines", func(t *testing.T) {
		b := newBundle(t)
		r := b.onRedis(redistest.Client(t), hook(b))
		b.store = inPipelines{r, NewFallback(r, NewMemory(b.settingsOf, b.clock), FallbackOptions{})}
		test(b)
	})
}

func (b *bundle) onFallback(rdb redis.UniversalClient, opts ...Option) *Fallback {
	return NewFallback(b.onRedis(rdb, opts...), NewMemory(b.settingsOf, b.clock), FallbackOptions{})
}

func (b *bundle) settingsOf(k Key) Settings {
	if b.parent != nil && k.Scope() == ScopeParent {
		return *b.parent
	}
	return b.settings
}

func (b *bundle) onRedis(rdb redis.UniversalClient, opts ...Option) *Redis {
	s := NewRedis(rdb, b.settingsOf, opts...)
	s.now = func() string { return strconv.FormatInt(b.clock().UnixMilli(), 10) }
	return s
}

func (b *bundle) admit() Ticket {
	b.Helper()
	t, err := b.store.Admit(b.Context(), b.key)
	if err != nil {
		b.Fatalf("admit: %v", err)
	}
	return t
}

func (b *bundle) probe() Ticket {
	b.Helper()
	t, err := b.store.AdmitProbe(b.Context(), b.key)
	if err != nil {
		b.Fatalf("admit probe: %v", err)
	}
	return t
}

func (b *bundle) report(t Ticket, r Report) {
	b.Helper()
	if err := b.store.Report(b.Context(), t, r); err != nil {
		b.Fatalf("report: %v", err)
	}
}

func (b *bundle) fails(n int) {
	b.Helper()
	for range n {
		b.report(b.admit(), Report{Outcome: Failure, Reason: "status 503"})
	}
}

// rejected asks for a call, as a waiting task does, and returns the refusal.
func (b *bundle) rejected() *OpenError {
	b.Helper()
	_, err := b.store.Admit(b.Context(), b.key)
	var open *OpenError
	if !errors.As(err, &open) {
		b.Fatalf("admit: %v, want a rejection", err)
	}
	return open
}

func (b *bundle) notDue() {
	b.Helper()
	if _, err := b.store.AdmitProbe(b.Context(), b.key); !errors.Is(err, ErrNotDue) {
		b.Fatalf("admit probe: %v, want %v", err, ErrNotDue)
	}
}

// trip opens the breaker and has somebody wait for it.
func (b *bundle) trip() *OpenError {
	b.Helper()
	b.fails(b.settings.Failures)
	return b.rejected()
}

func (b *bundle) status() Status {
	b.Helper()
	list, err := b.store.List(b.Context(), []Key{b.key})
	if err != nil {
		b.Fatalf("list: %v", err)
	}
	return list[0]
}

func (b *bundle) wantState(s State) {
	b.Helper()
	if got := b.status().State; got != s {
		b.Fatalf("the breaker is %s, want %s", got, s)
	}
}

// wantWait checks how long a rejected task is told to wait.
func (b *bundle) wantWait(want time.Duration) {
	b.Helper()
	if got := b.rejected().RetryAfter; got != want {
		b.Fatalf("rejected for %s, want %s", got, want)
	}
}

func (b *bundle) due() []Key {
	b.Helper()
	keys, err := b.store.Due(context.Background(), b.key.Provider)
	if err != nil {
		b.Fatalf("due: %v", err)
	}
	return keys
}

func TestLifeOfABreaker(t *testing.T) {
	suite(t, func(b *bundle) {
		b.fails(10)
		b.wantState(Closed)
		b.fails(1)
		open := b.rejected()
		if open.State != Open || open.Reason != "status 503" || open.Scope != ScopeModel || !open.Until.Equal(b.clock().Add(30*time.Second)) {
			b.Errorf("rejected by %+v", open)
		}
		if open.RetryAfter != 70*time.Second {
			b.Errorf("rejected for %s, want the cooldown and a lease", open.RetryAfter)
		}
		st := b.status()
		if st.Failures != 11 || st.Results != 11 || len(st.Ring) != 11 || slices.Contains(st.Ring, false) || st.Window != 20 || st.Cooldown != time.Minute || !st.Until.Equal(open.Until) {
			b.Errorf("status of the open breaker: %+v", st)
		}
		b.pass(30 * time.Second)
		if due := b.due(); len(due) != 1 || due[0] != b.key {
			b.Fatalf("due: %v", due)
		}
		p := b.probe()
		if !p.Probe || p.Lease != 40*time.Second {
			b.Errorf("ticket of the probe: %+v", p)
		}
		b.pass(time.Second)
		half := b.rejected()
		if half.State != HalfOpen || half.RetryAfter != 39*time.Second || !half.Until.Equal(b.clock().Add(39*time.Second)) {
			b.Errorf("rejected by %+v", half)
		}
		b.report(p, Report{Outcome: Success})
		st = b.status()
		if st.State != Closed || st.Results != 0 || st.Reason != "" || !st.Until.IsZero() || st.Cooldown != 30*time.Second {
			b.Errorf("status of the closed breaker: %+v", st)
		}
		b.fails(10) // the ring was cleared
		b.wantState(Closed)
		want := []State{Open, HalfOpen, Closed}
		for i, tr := range b.saw() {
			if tr.To != want[i] || tr.Key != b.key || st.Transitions[len(want)-1-i] != tr {
				b.Errorf("transition %d: hook saw %+v, the history has %+v", i, tr, st.Transitions)
			}
		}
		if len(b.saw()) != len(want) {
			b.Errorf("hook saw %+v", b.saw())
		}
	})
}

func TestNobodyProbesWhatNobodyWants(t *testing.T) {
	suite(t, func(b *bundle) {
		b.fails(11)
		b.pass(time.Minute)
		b.notDue() // no task was rejected yet
		if due := b.due(); len(due) != 0 {
			b.Errorf("due: %v", due)
		}
		b.wantWait(40 * time.Second) // a probe may begin now and must end
		b.pass(time.Hour)            // nobody came back
		b.notDue()
		if due := b.due(); len(due) != 0 {
			b.Errorf("due after an hour: %v", due)
		}
		b.rejected()
		b.probe()
	})
}

func TestRegionsComeBackFromDue(t *testing.T) {
	suite(t, func(b *bundle) {
		b.key.Region = "East US"
		b.trip()
		b.pass(time.Minute)
		if due := b.due(); len(due) != 1 || due[0] != b.key {
			b.Errorf("due: %+v, want %+v", due, b.key)
		}
	})
}

func TestAHardConditionOpensAtOnce(t *testing.T) {
	suite(t, func(b *bundle) {
		b.report(b.admit(), Report{Hard: true, Reason: "misconfigured: unknown model"})
		b.wantWait(5*time.Minute + 40*time.Second)
		b.pass(5 * time.Minute)
		b.report(b.probe(), Report{Outcome: Success})
		b.fails(11)
		b.wantWait(70 * time.Second) // an ordinary cooldown again
	})
}

func TestALimitedProbeCloses(t *testing.T) {
	suite(t, func(b *bundle) {
		b.trip()
		b.pass(time.Minute)
		b.report(b.probe(), Report{Outcome: Limited, RetryAfter: time.Hour})
		b.wantState(Closed)
	})
}

func TestNoEvidenceMovesNothing(t *testing.T) {
	suite(t, func(b *bundle) {
		for range 50 {
			b.report(b.admit(), Report{Outcome: None})
			b.report(b.admit(), Report{Outcome: Limited, RetryAfter: time.Minute})
		}
		if st := b.status(); st.Results != 0 || st.State != Closed {
			b.Errorf("status: %+v", st)
		}
	})
}

func TestMinResults(t *testing.T) {
	suite(t, func(b *bundle) {
		b.settings.MinResults = 15
		b.fails(14)
		b.wantState(Closed)
		b.fails(1)
		b.wantState(Open)
	})
}

func TestStaleResultsAreForgotten(t *testing.T) {
	suite(t, func(b *bundle) {
		b.settings.Stale = time.Minute
		b.fails(10)
		b.pass(time.Minute)
		if st := b.status(); st.Failures != 10 {
			b.Errorf("%d failures at the age of stale, want 10", st.Failures)
		}
		b.pass(time.Millisecond)
		if st := b.status(); st.Failures != 0 {
			b.Errorf("%d failures after it, want 0", st.Failures)
		}
		b.fails(10)
		b.wantState(Closed)
	})
}

func TestABurstBeforeAPauseIsForgotten(t *testing.T) {
	suite(t, func(b *bundle) {
		for range 10 {
			b.report(b.admit(), Report{Outcome: Success})
		}
		b.fails(10)
		b.pass(6 * time.Minute)
		b.fails(10)
		b.wantState(Closed)
	})
}

func TestListOfBreakersNeverUsed(t *testing.T) {
	suite(t, func(b *bundle) {
		list, err := b.store.List(b.Context(), []Key{{Provider: "a", Model: "a/x"}, b.key})
		if err != nil || len(list) != 2 || list[0].Key.Model != "a/x" || list[1].State != Closed || list[1].Window != 20 {
			b.Errorf("list: %+v, %v", list, err)
		}
	})
}
