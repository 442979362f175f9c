package gather

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"nightshift/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// carriers counts the pipelines that carry scripts, and can hold the first.
type carriers struct {
	n    atomic.Int64
	hold chan struct{} // nil: none is held
	held chan struct{}
}

func (c *carriers) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}
func (c *carriers) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c *carriers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if Carries(ctx) && c.n.Add(1) == 1 && c.hold != nil {
			close(c.held)
			<-c.hold
		}
		return next(ctx, cmds)
	}
}

func client(t *testing.T, c *carriers) redis.UniversalClient {
	rdb := redistest.Client(t)
	On(rdb)
	rdb.AddHook(c)
	return rdb
}

// echo says what it was given, or fails.
var echo = redis.NewScript("if ARGV[1] == 'bad' then return redis.error_reply('BAD') end redis.call('INCR', KEYS[1]) return ARGV[1]")

func TestEachCallerHasItsOwnReply(t *testing.T) {
	c := &carriers{}
	rdb := client(t, c)
	const callers, rounds = 64, 50
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			want := string(rune('a' + i%26))
			for range rounds {
				if got, err := echo.Run(t.Context(), rdb, []string{"n"}, want).Text(); got != want || err != nil {
					t.Errorf("%q %v, want %q", got, err, want)
				}
				if err := echo.Run(t.Context(), rdb, []string{"n"}, "bad").Err(); err == nil || err.Error() != "ERR BAD" {
					t.Errorf("the error of a script is %v", err)
				}
			}
		})
	}
	all.Wait()
	if n, err := rdb.Get(t.Context(), "n").Int(); n != callers*rounds || err != nil {
		t.Errorf("run %d times (%v), want %d", n, err, callers*rounds)
	}
	if n := c.n.Load(); n > callers*rounds {
		t.Errorf("%d pipelines for %d scripts", n, 2*callers*rounds)
	}
}

// A pipeline of scripts stays in its order; one with other commands goes alone.
func TestPipelinesAreGatheredWhole(t *testing.T) {
	rdb := client(t, &carriers{})
	if err := echo.Load(t.Context(), rdb).Err(); err != nil {
		t.Fatal(err)
	}
	var a, b, bad *redis.Cmd
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		a = echo.EvalSha(t.Context(), p, []string{"n"}, "a")
		bad = echo.EvalSha(t.Context(), p, []string{"n"}, "bad")
		b = echo.EvalSha(t.Context(), p, []string{"n"}, "b")
		return nil
	})
	if a.Val() != "a" || b.Val() != "b" || bad.Err() == nil || !errors.Is(err, bad.Err()) {
		t.Errorf("%v %v %v, and %v", a, b, bad, err)
	}
	tx, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		a = echo.EvalSha(t.Context(), p, []string{"n"}, "c")
		return nil
	})
	if len(tx) != 1 || a.Val() != "c" || err != nil {
		t.Errorf("a transaction: %v %v", a, err)
	}
}

// Neither a caller that gives up nor a pipeline that does not come back holds
// up the others.
func TestAHeldPipelineHoldsItsOwnAlone(t *testing.T) {
	c := &carriers{hold: make(chan struct{}), held: make(chan struct{})}
	rdb := client(t, c)
	if err := echo.Load(t.Context(), rdb).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- echo.EvalSha(ctx, rdb, []string{"n"}, "a").Err() }()
	<-c.held
	var all sync.WaitGroup
	for range 3 * flights { // more than may be under way
		all.Go(func() {
			if err := echo.EvalSha(t.Context(), rdb, []string{"n"}, "b").Err(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the held one says %v", err)
	}
	close(c.hold)
}
