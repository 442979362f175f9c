// Package standby lets a process go on while a store that it shares with others
// cannot be asked.
//
//	          no answer in time             one question a second
//	shared ───────────────────────▶ away ───────────────────────────▶ answered:
//	   ▲                                                              catch up
//	   └───────────────────────────────────────────────────────────────── done
//
// While the store is away, one call a second asks it; all others are told at
// once that they must decide by themselves. When it answers, it first hears what
// it missed; only then it decides again.
package standby

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// retryAway is how often a store that is away is asked again.
	retryAway = time.Second
	// catchLimit bounds one go at catching up, which the call that found the
	// store back waits for.
	catchLimit = 2 * time.Second
)

// Options may all be zero.
type Options struct {
	// Name is what the store holds, in the log.
	Name string
	// Timeout bounds a question. Defaults to 2 s.
	Timeout time.Duration
	// Now is the process's clock. Defaults to time.Now.
	Now func() time.Time
	// IsAnswer says that an error is the store's answer, and not its absence.
	// Defaults to none being one.
	IsAnswer func(error) bool
	// CatchUp tells the store what it missed, before it decides again and after
	// Owe. One call runs at a time; after an error the store stays away, and
	// what is untold is for the next call. Defaults to nothing.
	CatchUp func(ctx context.Context) error
	// OnChange is told when the store goes away and when it decides again, in order.
	OnChange func(away bool)
	// Logger gets one line a change. Defaults to discarding.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.IsAnswer == nil {
		o.IsAnswer = func(error) bool { return false }
	}
	if o.CatchUp == nil {
		o.CatchUp = func(context.Context) error { return nil }
	}
	if o.OnChange == nil {
		o.OnChange = func(bool) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Switch says who decides: the shared store, or the process itself. It is safe
// for concurrent use.
type Switch struct {
	o Options

	away     atomic.Bool
	owing    atomic.Bool  // there is something to catch up on
	nextTry  atomic.Int64 // while away, ms of the clock
	change   sync.Mutex   // of side, so that changes are told in order
	catching sync.Mutex
}

// New returns a switch whose store is taken to be there.
func New(o Options) *Switch { return &Switch{o: o.withDefaults()} }

// Away says that the process decides by itself.
func (s *Switch) Away() bool { return s.away.Load() }

// Owe has CatchUp called after the next answer, also where the store is not away.
func (s *Switch) Owe() { s.owing.Store(true) }

// Ask puts a question to the shared store and says whether it was answered.
// Where it was, err is the answer's, see Options.IsAnswer. Where it was not, err
// is nil and the process decides by itself, unless ctx ended: then err says so.
func (s *Switch) Ask(ctx context.Context, question func(context.Context) error) (answered bool, err error) {
	if s.away.Load() && !s.mayTry() {
		return false, nil
	}
	short, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	err = question(short)
	switch {
	case err == nil || s.o.IsAnswer(err):
		s.catchUp(ctx)
		return true, err
	case ctx.Err() != nil:
		return false, err
	}
	s.turn(true, err)
	return false, nil
}

// mayTry lets one call a second ask a store that is away.
func (s *Switch) mayTry() bool {
	now, next, pause := s.now(), s.nextTry.Load(), retryAway.Milliseconds()
	return (now >= next || next > now+pause) && s.nextTry.CompareAndSwap(next, now+pause)
}

func (s *Switch) now() int64 { return s.o.Now().UnixMilli() }

// catchUp tells a store that answers what it missed, and then has it decide.
// Who finds another at it leaves that to the other.
func (s *Switch) catchUp(ctx context.Context) {
	if !s.away.Load() && !s.owing.Load() || !s.catching.TryLock() {
		return
	}
	defer s.catching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, catchLimit)
	defer cancel()
	s.owing.Store(false) // before: what comes meanwhile is owed again
	if err := s.o.CatchUp(ctx); err != nil {
		s.owing.Store(true)
		return
	}
	s.turn(false, nil)
}

// turn notes who decides and tells of it, once a change.
func (s *Switch) turn(away bool, why error) {
	if s.away.Load() == away {
		return
	}
	s.change.Lock()
	defer s.change.Unlock()
	if s.away.Load() == away {
		return
	}
	if away {
		s.nextTry.Store(s.now() + retryAway.Milliseconds())
		s.o.Logger.Warn("shared store cannot be asked, this process decides from its own memory", "store", s.o.Name, "error", why)
	} else {
		s.o.Logger.Info("shared store can be asked again", "store", s.o.Name)
	}
	s.away.Store(away)
	s.o.OnChange(away)
}
