package convoy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"nightshift/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers each call with the key, the shared argument and its own; "bad" is an
// error, after which Redis has done what came before.
var echo = redis.NewScript(`
local answers = {}
for arg = 2, #ARGV do
  redis.call('RPUSH', KEYS[1], ARGV[arg])
  if ARGV[arg] == 'bad' then error('bad') end
  answers[#answers + 1] = KEYS[1] .. ARGV[1] .. ARGV[arg]
end
return answers`)

// road is a convoy over a real Redis, whose pipelines can be held up.
type road struct {
	*testing.T
	rdb    *redis.Client
	convoy *Convoy

	mu      sync.Mutex
	trips   [][]redis.Cmder
	open    chan struct{} // nil, or closed when pipelines may go on
	reached chan struct{} // gets one for each pipeline that is held up
}

func newRoad(t *testing.T) *road {
	r := &road{T: t, rdb: redistest.Client(t), reached: make(chan struct{}, 100)}
	r.rdb.AddHook(r)
	r.convoy = New(r.rdb)
	return r
}

func (r *road) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (r *road) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (r *road) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !strings.HasPrefix(cmds[0].Name(), "eval") { // the greeting of a connection
			return next(ctx, cmds)
		}
		r.mu.Lock()
		open := r.open
		r.trips = append(r.trips, cmds)
		r.mu.Unlock()
		if open != nil {
			r.reached <- struct{}{}
			select {
			case <-open:
			case <-ctx.Done():
			}
		}
		return next(ctx, cmds)
	}
}

// hold has pipelines wait until the returned function is called.
func (r *road) hold() (release func()) {
	open := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.trips = open, nil
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open == open {
			r.open = nil
		}
		close(open)
	}
}

// calls are how many commands each pipeline had.
func (r *road) calls() (n []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cmds := range r.trips {
		n = append(n, len(cmds))
	}
	return n
}

func call(key, shared, own string) Call {
	return Call{Script: echo, Keys: []string{key}, Shared: []any{shared}, Own: []any{own}}
}

// ask sends one call.
func (r *road) ask(ctx context.Context, c Call) (string, error) {
	var p Party
	answer := p.Add(c)
	r.convoy.Send(ctx, &p)
	v, err := answer.Result()
	text, _ := v.(string)
	return text, err
}

// join asks in a goroutine, and returns when the call waits for another.
func (r *road) join(ctx context.Context, c Call) (answer func() (string, error)) {
	r.Helper()
	var text string
	var err error
	done := make(chan struct{})
	before := r.waiting()
	go func() {
		defer close(done)
		text, err = r.ask(ctx, c)
	}()
	for deadline := time.Now().Add(20 * time.Second); r.waiting() == before; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			r.Fatal("the call does not wait")
		}
	}
	return func() (string, error) { <-done; return text, err }
}

func (r *road) waiting() int {
	r.convoy.mu.Lock()
	defer r.convoy.mu.Unlock()
	return len(r.convoy.waiting)
}

// first has a call under way, which release lets go on.
func (r *road) first() (answer func() (string, error), release func()) {
	release = r.hold()
	var text string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err = r.ask(r.Context(), call("first", "", "x"))
	}()
	<-r.reached
	return func() (string, error) { <-done; return text, err }, release
}

func (r *road) want(answer func() (string, error), text string) {
	r.Helper()
	if got, err := answer(); got != text || err != nil {
		r.Errorf("got %q, %v; want %q", got, err, text)
	}
}

func TestWhoIsAloneIsSentAtOnce(t *testing.T) {
	r := newRoad(t)
	for range 3 {
		r.want(func() (string, error) { return r.ask(t.Context(), call("k", "-", "a")) }, "k-a")
	}
	if n := r.calls(); len(n) != 4 { // the first time Redis lacks the script
		t.Errorf("pipelines of %v commands", n)
	}
}

func TestThoseWhoComeMeanwhileGoTogether(t *testing.T) {
	r := newRoad(t)
	r.want(func() (string, error) { return r.ask(t.Context(), call("k", "", "a")) }, "ka") // loads the script
	first, release := r.first()
	var answers []func() (string, error)
	var want []string
	for _, c := range []Call{
		call("k", "-", "a"), call("k", "-", "b"), call("other", "-", "c"), call("k", "+", "d"), call("k", "-", "e"),
	} {
		answers = append(answers, r.join(t.Context(), c))
		want = append(want, c.Keys[0]+c.Shared[0].(string)+c.Own[0].(string))
	}
	release()
	r.want(first, "firstx")
	for i, answer := range answers {
		r.want(answer, want[i])
	}
	if n := r.calls(); len(n) != 2 || n[1] != 3 {
		t.Errorf("pipelines of %v commands; want the first, and one of 3", n)
	}
	if list := r.rdb.LRange(t.Context(), "k", 0, -1).Val(); strings.Join(list, "") != "aabed" {
		t.Errorf("the script took %v", list)
	}
}

func TestACrowdIsBounded(t *testing.T) {
	r := newRoad(t)
	var p Party
	var answers []*Answer
	for range mostCalls + 1 {
		answers = append(answers, p.Add(call("k", "", "a")))
	}
	r.convoy.Send(t.Context(), &p)
	for _, a := range answers {
		if v, err := a.Result(); v != "ka" || err != nil {
			t.Fatalf("%v, %v", v, err)
		}
	}
	if n := r.calls(); n[0] != 2 {
		t.Errorf("%d commands of %d calls", n[0], len(answers))
	}
}

func TestOnesErrorIsItsOwn(t *testing.T) {
	r := newRoad(t)
	first, release := r.first()
	good, bad, better := r.join(t.Context(), call("k", "", "a")), r.join(t.Context(), call("k", "", "bad")), r.join(t.Context(), call("k", "", "b"))
	release()
	r.want(first, "firstx")
	r.want(good, "ka")
	r.want(better, "kb")
	if _, err := bad(); err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("the bad one: %v", err)
	}
}

func TestAScriptThatIsLostIsSentAgain(t *testing.T) {
	r := newRoad(t)
	first, release := r.first()
	a, b := r.join(t.Context(), call("k", "", "a")), r.join(t.Context(), call("k", "", "b"))
	if err := r.rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	release()
	r.want(first, "firstx")
	r.want(a, "ka")
	r.want(b, "kb")
	if list := r.rdb.LRange(t.Context(), "k", 0, -1).Val(); len(list) != 2 {
		t.Errorf("the script took %v", list)
	}
}

func TestWhoGivesUpHurtsNobody(t *testing.T) {
	r := newRoad(t)
	first, release := r.first()
	ctx, cancel := context.WithCancel(t.Context())
	early, stays := r.join(ctx, call("k", "", "early")), r.join(t.Context(), call("k", "", "stays"))
	cancel()
	if _, err := early(); !errors.Is(err, context.Canceled) { // before anything is back
		t.Errorf("%v", err)
	}
	release()
	r.want(first, "firstx")
	r.want(stays, "kstays")
	if list := r.rdb.LRange(t.Context(), "k", 0, -1).Val(); len(list) != 1 {
		t.Errorf("the script took %v", list)
	}

	first, release = r.first()
	ctx, cancel = context.WithCancel(t.Context())
	late, stays := r.join(ctx, call("k", "", "late")), r.join(t.Context(), call("k", "", "stays"))
	releaseBoth := r.hold()
	release()
	r.want(first, "firstx")
	<-r.reached // both are under way
	cancel()
	if _, err := late(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	releaseBoth()
	r.want(stays, "kstays")
}

func TestTheFirstOnesEndIsItsOwn(t *testing.T) {
	r := newRoad(t)
	release := r.hold()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := r.ask(ctx, call("k", "", "first"))
		failed <- err
	}()
	<-r.reached
	second := r.join(t.Context(), call("k", "", "second"))
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-r.reached // the second is under way
	release()
	r.want(second, "ksecond")
}

func TestARedisThatIsAwayIsAnErrorToAll(t *testing.T) {
	r := newRoad(t)
	first, release := r.first()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	short, long := r.join(ctx, call("k", "", "a")), r.join(t.Context(), call("k", "", "b"))
	if _, err := short(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	_ = r.rdb.Close()
	release()
	for _, answer := range []func() (string, error){first, long} {
		if _, err := answer(); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

func TestNonsenseIsNoAnswer(t *testing.T) {
	r := newRoad(t)
	for _, text := range []string{"return 1", "return {}", "return {1, 2}", "return false"} {
		var p Party
		a := p.Add(Call{Script: redis.NewScript(text), Keys: []string{"k"}})
		r.convoy.Send(t.Context(), &p)
		if v, err := a.Result(); err == nil {
			t.Errorf("%s: %v", text, v)
		}
	}
	var p Party
	if a := p.Add(call("k", "", "a")); !errors.Is(a.Err(), ErrUnsent) {
		t.Errorf("%v", a.Err())
	}
}

func TestOneCallByItself(t *testing.T) {
	r := newRoad(t)
	c := call("k", "-", "a")
	if v, err := Run(t.Context(), r.rdb, c).Result(); v != "k-a" || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	c = Call{Script: redis.NewScript("return tonumber(ARGV[1]) + tonumber(ARGV[2])"), Keys: []string{"k"}, Shared: []any{1}, Own: []any{2}, Alone: true}
	if n, err := Run(t.Context(), r.rdb, c).Int(); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	r := newRoad(t)
	var all sync.WaitGroup
	for g := range 32 {
		own := string(rune('A' + g))
		all.Go(func() {
			for range 200 {
				if got, err := r.ask(t.Context(), call("k", "-", own)); got != "k-"+own || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	if n := len(r.calls()); n > 32*200/2 {
		t.Errorf("%d pipelines for %d calls", n, 32*200)
	}
}
