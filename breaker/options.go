package breaker

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
)

// Option configures a store.
type Option func(*notifier)

// OnTransition has f called after each transition that this store made, outside
// of its locks and one at a time. The memory store keeps their order; the Redis
// store tells of those that its own process made, as their replies come in. f
// may use the store. It should be quick: the call that made the transition, or
// another that runs at the time, waits for it. A panic in f is logged.
func OnTransition(f func(Transition)) Option {
	return func(n *notifier) { n.hook = f }
}

// WithLogger has the store log to l; the default discards.
func WithLogger(l *slog.Logger) Option {
	return func(n *notifier) { n.log = l }
}

// notifier hands transitions to the hook in the order of their add.
type notifier struct {
	hook func(Transition)
	log  *slog.Logger

	mu      sync.Mutex
	queue   []Transition
	running bool // somebody is in drain
}

func newNotifier(opts []Option) *notifier {
	n := &notifier{log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		o(n)
	}
	return n
}

// changed says whether an operation made a transition.
func (r *Reply) changed() bool { return r.Change.From != "" || r.ParentChange.From != "" }

// add queues the transitions of an operation on a model, if there are any and
// somebody listens: the parent's first. It never calls the hook and may be
// called under a lock.
func (n *notifier) add(key Key, r *Reply) {
	if !r.changed() || n.hook == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.ParentChange.From != "" {
		n.queue = append(n.queue, r.ParentChange.transition(key.Parent()))
	}
	if r.Change.From != "" {
		n.queue = append(n.queue, r.Change.transition(key))
	}
}

// drain calls the hook for what is queued. If another goroutine is at it, that
// one also takes what is queued by now.
func (n *notifier) drain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running {
		return
	}
	n.running = true
	defer func() { n.running = false }()
	for len(n.queue) > 0 {
		t := n.queue[0]
		n.queue = n.queue[1:]
		n.call(t)
	}
	n.queue = nil
}

// call calls the hook without the lock, which it holds again whatever the hook
// does: return, panic or Goexit.
func (n *notifier) call(t Transition) {
	n.mu.Unlock()
	defer n.mu.Lock()
	defer func() {
		if p := recover(); p != nil {
			n.log.LogAttrs(context.Background(), slog.LevelError, "transition hook panicked",
				slog.String("breaker", t.Key.String()), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	n.hook(t)
}
