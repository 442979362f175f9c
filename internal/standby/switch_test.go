package standby

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errDown = errors.New("connection refused")

// side is a switch over a store that the test breaks, in virtual time.
type side struct {
	*Switch
	*testing.T
	down, deaf bool // cannot be asked; does not take what it missed
	asked      int
	caught     int
	changes    []bool
}

func inVirtualTime(t *testing.T, test func(*side)) {
	synctest.Test(t, func(t *testing.T) {
		s := &side{T: t}
		s.Switch = New(Options{OnChange: func(away bool) { s.changes = append(s.changes, away) }})
		s.Register(func(context.Context) error {
			if s.caught++; s.deaf {
				return errDown
			}
			return nil
		})
		test(s)
	})
}

// ask asks and says whether the store answered.
func (s *side) ask() bool {
	answered, err := s.Ask(s.Context(), func(context.Context) error {
		if s.asked++; s.down {
			return errDown
		}
		return nil
	})
	if err != nil {
		s.Error(err)
	}
	return answered
}

func TestAStoreGoesAwayAndComesBack(t *testing.T) {
	inVirtualTime(t, func(s *side) {
		if !s.ask() || s.Away() || s.caught != 0 {
			t.Error("a store that is there does not decide")
		}
		s.down = true
		for range 100 {
			if s.ask() || !s.Away() {
				t.Error("a store that is away decides")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if s.asked > 12 {
			t.Errorf("asked %d times in ten seconds", s.asked)
		}
		s.down = false
		time.Sleep(time.Second)
		if !s.ask() || s.Away() || s.caught != 1 || !slices.Equal(s.changes, []bool{true, false}) {
			t.Errorf("away %v, told %d times, changes %v", s.Away(), s.caught, s.changes)
		}
		s.ask()
		if s.caught != 1 {
			t.Error("told with nothing to tell")
		}
	})
}

func TestAStoreThatMissedSomethingDoesNotDecide(t *testing.T) {
	inVirtualTime(t, func(s *side) {
		s.down = true
		s.ask()
		s.down, s.deaf = false, true
		for range 3 {
			time.Sleep(time.Second)
			if !s.ask() || !s.Away() {
				t.Error("it decides")
			}
		}
		s.deaf = false
		time.Sleep(time.Second)
		if s.ask(); s.Away() || s.caught != 4 {
			t.Errorf("away %v, told %d times", s.Away(), s.caught)
		}
	})
}

func TestWhatIsOwedIsToldWithTheNextAnswer(t *testing.T) {
	inVirtualTime(t, func(s *side) {
		s.deaf = true
		s.Owe()
		s.ask()
		s.deaf = false
		s.ask()
		if s.ask(); s.caught != 2 || s.Away() || len(s.changes) != 0 {
			t.Errorf("told %d times, changes %v", s.caught, s.changes)
		}
	})
}

func TestOneCallCatchesUpAndNobodyWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var caught atomic.Int32
		s := New(Options{})
		s.Register(func(context.Context) error {
			caught.Add(1)
			time.Sleep(time.Second)
			return nil
		})
		s.Owe()
		var wg sync.WaitGroup
		var quick atomic.Int32
		for range 8 {
			wg.Go(func() {
				start := time.Now()
				_, _ = s.Ask(t.Context(), func(context.Context) error { return nil })
				if time.Since(start) == 0 {
					quick.Add(1)
				}
			})
		}
		wg.Wait()
		if caught.Load() != 1 || quick.Load() != 7 {
			t.Errorf("%d catch up, %d did not wait", caught.Load(), quick.Load())
		}
	})
}

func TestASilentStoreIsWaitedForOnce(t *testing.T) {
	inVirtualTime(t, func(s *side) {
		silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		start := time.Now()
		for range 5 {
			if answered, err := s.Ask(s.Context(), silent); answered || err != nil {
				t.Errorf("answered %v, %v", answered, err)
			}
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("waited %s", d)
		}
	})
}

func TestOurOwnEndIsNotTheStores(t *testing.T) {
	inVirtualTime(t, func(s *side) {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		if _, err := s.Ask(ctx, func(ctx context.Context) error { return ctx.Err() }); !errors.Is(err, context.Canceled) || s.Away() {
			t.Errorf("away %v, %v", s.Away(), err)
		}
	})
}

func TestPartsShareASwitch(t *testing.T) {
	inVirtualTime(t, func(s *side) {
		told := 0
		s.Register(func(context.Context) error { told++; return nil })
		s.down = true
		s.ask()
		s.down, s.deaf = false, true
		time.Sleep(time.Second)
		if s.ask(); !s.Away() || told != 1 || s.caught != 1 {
			t.Errorf("away %v; a part that cannot tell keeps others from it: %d and %d", s.Away(), told, s.caught)
		}
		s.deaf = false
		time.Sleep(time.Second)
		if s.ask(); s.Away() || told != 2 || s.caught != 2 {
			t.Errorf("away %v; told %d and %d times", s.Away(), told, s.caught)
		}
	})
}

// A process that ends has nobody who asks: what is owed is told all the same, as
// soon as the store takes it, and not for longer than there is time.
func TestAProcessThatEndsTellsWhatItOwes(t *testing.T) {
	inVirtualTime(t, func(s *side) {
		if err := s.Flush(s.Context()); err != nil || s.caught != 0 {
			t.Errorf("with nothing owed: told %d times, %v", s.caught, err)
		}
		s.Owe()
		s.deaf = true
		short, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := s.Flush(short); !errors.Is(err, errDown) || s.caught < 2 {
			t.Errorf("a store that takes nothing: told %d times, %v", s.caught, err)
		}
		s.deaf, s.caught = false, 0
		for range 2 { // the second time nothing is left
			if err := s.Flush(s.Context()); err != nil || s.caught != 1 {
				t.Errorf("told %d times, %v", s.caught, err)
			}
		}
	})
}

// Who is at telling is waited for: the process ends after it.
func TestFlushWaitsForWhoTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := New(Options{}), false
		s.Register(func(context.Context) error {
			time.Sleep(time.Second)
			told = true
			return nil
		})
		s.Owe()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = s.Ask(t.Context(), func(context.Context) error { return nil }) })
		time.Sleep(time.Millisecond)
		if err := s.Flush(t.Context()); err != nil || !told {
			t.Errorf("told %v, %v", told, err)
		}
		wg.Wait()
	})
}
