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
//
// What one server keeps goes away and comes back together: several parts of a
// process share one switch, and each registers what its part has missed.
package standby

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
	// retryFlush is the pause between two tries of a process that ends.
	retryFlush = 200 * time.Millisecond
)

// Options may all be zero.
type Options struct {
	// Name is what the store holds, in the log.
	Name string
	// Timeout bounds a question. Defaults to 2 s.
	Timeout time.Duration
	// Now is the process's clock. Defaults to time.Now.
	Now func() time.Time
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
	owing    atomic.Bool   // there is something to catch up on
	nextTry  atomic.Int64  // while away, ms of the clock
	change   sync.Mutex    // of side, so that changes are told in order
	catching chan struct{} // holds one: one call of the catch-ups at a time
	mu       sync.Mutex
	catchUps []func(context.Context) error
}

// New returns a switch whose store is taken to be there.
func New(o Options) *Switch {
	return &Switch{o: o.withDefaults(), catching: make(chan struct{}, 1)}
}

// Register adds what tells the store what a part of the process kept for it. It
// is called before the store decides again and after Owe, never twice at a time;
// after an error the store stays away, and what is untold is for the next call.
func (s *Switch) Register(catchUp func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUps = append(s.catchUps, catchUp)
}

// Away says that the process decides by itself.
func (s *Switch) Away() bool { return s.away.Load() }

// Owe has the catch-ups called after the next answer, also where the store is not away.
func (s *Switch) Owe() { s.owing.Store(true) }

// Ask puts a question to the shared store and says whether it was answered. An
// error of the question is the store's absence: a refusal is for the question to
// keep. Where it was not answered, the process decides by itself, and err is nil,
// unless ctx ended: then err says so.
func (s *Switch) Ask(ctx context.Context, question func(context.Context) error) (answered bool, err error) {
	if s.away.Load() && !s.mayTry() {
		return false, nil
	}
	short, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	err = question(short)
	switch {
	case err == nil:
		s.catchUp(ctx)
		return true, nil
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
	if !s.away.Load() && !s.owing.Load() {
		return
	}
	select {
	case s.catching <- struct{}{}:
	default:
		return
	}
	defer func() { <-s.catching }()
	ctx, cancel := context.WithTimeout(ctx, catchLimit)
	defer cancel()
	s.owing.Store(false) // before: what comes meanwhile is owed again
	if err := s.tell(ctx); err != nil {
		s.owing.Store(true)
		return
	}
	s.turn(false, nil)
}

// tell has every part tell what it kept, also where another one cannot.
func (s *Switch) tell(ctx context.Context) error {
	s.mu.Lock()
	all := slices.Clone(s.catchUps)
	s.mu.Unlock()
	var errs []error
	for _, catchUp := range all {
		errs = append(errs, catchUp(ctx))
	}
	return errors.Join(errs...)
}

// Flush tells the store what it missed, for a process that ends: nobody asks any
// more, so that nothing else would. It tries until that is done or ctx ends, and
// leaves who decides as it is.
func (s *Switch) Flush(ctx context.Context) error {
	select {
	case s.catching <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.catching }()
	for s.away.Load() || s.owing.Load() {
		s.owing.Store(false)
		err := s.tell(ctx)
		if err == nil {
			return nil
		}
		s.owing.Store(true)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryFlush):
		}
	}
	return nil
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
