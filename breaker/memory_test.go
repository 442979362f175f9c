package breaker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// remembered holds a Memory to recorded moves, by its own methods where a move
// can be made by them: they take shorter ways than Step.
type remembered struct {
	*Memory
	player
	tickets map[uint64]Ticket
}

func (r *remembered) live(moves []move) error {
	r.Memory = NewMemory(r.settingsOf, func() time.Time { return time.UnixMilli(r.at.now) })
	r.tickets = map[uint64]Ticket{}
	return r.play(moves, r.move)
}

func (r *remembered) move(m *move) error {
	if m.op != nil {
		return r.apply(m)
	}
	return m.ask(r.Memory, m.due)
}

func (r *remembered) apply(m *move) error {
	if err := r.do(m); err != nil {
		return err
	}
	if model := r.record(m.key); !equal(m.model, model) {
		return differ("records of the model differ", m.model, model, cmpopts.EquateEmpty())
	}
	if parent := r.record(m.key.Parent()); !equal(m.parent, parent) {
		return differ("records of the parent differ", m.parent, parent, cmpopts.EquateEmpty())
	}
	return nil
}

func (r *remembered) do(m *move) error {
	op := m.op
	switch {
	case op.Kind == OpAdmit && op.ID > r.lastID.Load():
		return r.admit(m)
	case op.Kind == OpReport:
		t := r.tickets[op.ID]
		t.Key, t.ID, t.Epoch, t.ParentEpoch, t.Probe, t.Scope = m.key, op.ID, op.Epoch, op.ParentEpoch, op.Probe, op.Scope
		return r.Report(context.Background(), t, op.Report)
	}
	return differ("replies differ", m.reply, r.Memory.do(m.key, op))
}

func (r *remembered) admit(m *move) error {
	r.lastID.Store(m.op.ID - 1)
	var opts []AdmitOption
	if m.op.NoProbe {
		opts = append(opts, NoProbe)
	}
	t, err := r.Admit(context.Background(), m.key, opts...)
	var open *OpenError
	switch {
	case m.reply.Code == Rejected && errors.As(err, &open):
		return differ("rejections differ", *m.reply.rejection(m.key), *open)
	case err != nil:
		return err
	}
	r.tickets[t.ID] = t
	if t.cell = nil; t != m.reply.ticket(m.key, m.op.ID) {
		return fmt.Errorf("the ticket is %+v, not that of %+v", t, m.reply)
	}
	return nil
}

func TestMemoryAgreesWithStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := genTrial.Draw(t, "trial")
		tr.Steps = slices.DeleteFunc(tr.Steps, func(s step) bool { return s.Do == "lose" || s.Do == "settings" })
		moves, err := record(tr)
		if err == nil {
			err = new(remembered).live(moves)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// grants are admissions of calls of which nobody saw the moment.
type grant struct {
	model, epoch, parent int64
	seen                 int64 // transitions that were known before it
}

// TestCallsAreAdmittedAsIfOneAfterTheOther has 64 goroutines call two models
// that open and close all the time. Every call must have been admitted by two
// levels that were closed at one moment, not earlier than the call.
func TestCallsAreAdmittedAsIfOneAfterTheOther(t *testing.T) {
	var moves []Transition // the hook is called by one at a time
	var known atomic.Int64
	s := Settings{Window: 4, Failures: 2, Cooldown: time.Millisecond, MaxCooldown: time.Millisecond, TaskProbes: true}
	m := NewMemory(func(Key) Settings { return s }, nil, OnTransition(func(tr Transition) {
		moves = append(moves, tr)
		known.Add(1)
	}))
	keys := []Key{{Provider: "p", Model: "p/a"}, {Provider: "p", Model: "p/b"}}
	var first []Ticket
	for _, k := range keys {
		tk, err := m.Admit(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, tk)
	}
	var mu sync.Mutex
	var all []grant
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			mine := callAtRandom(m, keys, known.Load)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	if len(moves) < 100 || len(all) < 1000 {
		t.Fatalf("only %d transitions and %d calls", len(moves), len(all))
	}
	last := momentsOf(moves, keys, first)
	for _, g := range all {
		if at, ok := last[grant{g.model, g.epoch, g.parent, 0}]; !ok || at < g.seen {
			t.Fatalf("%+v: both levels were last closed in these epochs after transition %d (ever: %v)", g, at, ok)
		}
	}
}

// callAtRandom makes calls and returns those that were no probes.
func callAtRandom(m *Memory, keys []Key, known func() int64) (all []grant) {
	ctx := context.Background()
	for range 2000 {
		model, seen := rand.IntN(len(keys)), known()
		tk, err := m.Admit(ctx, keys[model])
		if err != nil {
			continue
		}
		if !tk.Probe {
			all = append(all, grant{int64(model), tk.Epoch, tk.ParentEpoch, seen})
		}
		outcome := Success
		if rand.IntN(20) == 0 {
			outcome = Failure
		}
		_ = m.Report(ctx, tk, Report{Outcome: outcome})
	}
	return all
}

// momentsOf returns after how many transitions a model and its parent were last
// closed in these epochs. Epochs count transitions.
func momentsOf(moves []Transition, keys []Key, first []Ticket) map[grant]int64 {
	closed := map[Key]bool{keys[0]: true, keys[1]: true, keys[0].Parent(): true}
	epochs := map[Key]int64{keys[0]: first[0].Epoch, keys[1]: first[1].Epoch, keys[0].Parent(): first[0].ParentEpoch}
	last := map[grant]int64{}
	for i := 0; ; i++ {
		for j, k := range keys {
			if closed[k] && closed[k.Parent()] {
				last[grant{int64(j), epochs[k], epochs[k.Parent()], 0}] = int64(i)
			}
		}
		if i == len(moves) {
			return last
		}
		epochs[moves[i].Key]++
		closed[moves[i].Key] = moves[i].To == Closed
	}
}

func TestMemoryAsksForSettingsOnceASecond(t *testing.T) {
	now, asked, window := time.UnixMilli(1_750_000_000_000), 0, 20
	m := NewMemory(func(Key) Settings { asked++; return Settings{Window: window} }, func() time.Time { return now })
	key := Key{Provider: "p", Model: "p/a"}
	call := func() {
		tk, err := m.Admit(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Report(t.Context(), tk, Report{Outcome: Success}); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		call()
	}
	if asked != 2 {
		t.Errorf("asked %d times, want once a level", asked)
	}
	window = 5
	now = now.Add(time.Second)
	call()
	if n := len(m.record(key).Ring); n != 5 || asked != 4 {
		t.Errorf("%d results after %d questions, want 5 after 4", n, asked)
	}
	now = now.Add(-time.Hour) // a clock that stepped back asks, too
	if call(); asked != 6 {
		t.Errorf("asked %d times, want 6", asked)
	}
}

func TestTicketsOfAnotherMemoryFindTheirBreaker(t *testing.T) {
	settings := func(Key) Settings { return Settings{} }
	now := func() time.Time { return time.UnixMilli(1_750_000_000_000) }
	a, b := NewMemory(settings, now), NewMemory(settings, now)
	key := Key{Provider: "p", Model: "p/a"}
	for _, m := range []*Memory{a, b} {
		if _, err := m.Admit(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	tk, _ := a.Admit(t.Context(), key)
	if err := b.Report(t.Context(), tk, Report{Outcome: Success}); err != nil {
		t.Fatal(err)
	}
	if len(a.record(key).Ring) != 0 || len(b.record(key).Ring) != 1 {
		t.Error("the result did not go to the store that it was reported to")
	}
}

func TestTheSystemsClockIsReadOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		for range 50 {
			if got, want := c.now(), time.Now().UnixMilli(); got != want {
				t.Fatalf("it is %d, want %d", got, want)
			}
			time.Sleep(77_777 * time.Microsecond)
		}
	})
	stale := clock{date: time.Now(), ns: 0} // of a date that the system has left
	if got := stale.now(); got > 1000 {
		t.Errorf("it is %d after less than a second", got)
	}
	stale.date = stale.date.Add(-time.Second)
	if got, want := stale.now(), time.Now().UnixMilli(); got < want-1000 || got > want {
		t.Errorf("it is %d after a second, want %d", got, want)
	}
}

func TestAMemoryInUseAllocatesNothing(t *testing.T) {
	m := NewMemory(func(Key) Settings { return Settings{} }, nil)
	key, ctx := Key{Provider: "p", Model: "p/a"}, t.Context()
	call := func(o Outcome) {
		tk, _ := m.Admit(ctx, key)
		_ = m.Report(ctx, tk, Report{Outcome: o, Output: ValidOutput})
	}
	for range 1000 { // the windows find their room
		call(Success)
	}
	if n := testing.AllocsPerRun(1000, func() { call(Success) }); n != 0 {
		t.Errorf("%v allocations a call, want none", n)
	}
	i := 0
	failing := func() { // one call in five
		if i++; i%5 == 0 {
			call(Failure)
		} else {
			call(Success)
		}
	}
	if n := testing.AllocsPerRun(1000, failing); n != 0 {
		t.Errorf("%v allocations a call of which some fail, want none", n)
	}
}

func TestClosedBreakersAdmitWithoutALock(t *testing.T) {
	m := NewMemory(func(Key) Settings { return Settings{Window: 1} }, nil)
	key := Key{Provider: "p", Model: "p/a"}
	if _, err := m.Admit(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	c := m.cell(key)
	c.mu.Lock()
	admitted := make(chan Ticket)
	go func() {
		tk, _ := m.Admit(context.Background(), key)
		admitted <- tk
	}()
	var tk Ticket
	select {
	case tk = <-admitted:
		c.mu.Unlock()
	case <-time.After(10 * time.Second):
		c.mu.Unlock()
		<-admitted
		t.Fatal("Admit waits for the lock")
	}
	if err := m.Report(t.Context(), tk, Report{Outcome: Failure}); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := c.bothClosed(); ok {
		t.Error("an open breaker admits")
	}
}

func TestATicketCountedAloneCountsOnce(t *testing.T) {
	m := NewMemory(func(Key) Settings { return Settings{} }, nil)
	key := Key{Provider: "p", Model: "p/a"}
	tk, err := m.Admit(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	op := tk.ended(OpReport, Report{Outcome: Success})
	m.alone(key, &op)
	if err := m.Report(t.Context(), tk, Report{Outcome: Success}); err != nil {
		t.Fatal(err)
	}
	if n := len(m.record(key).Ring); n != 1 {
		t.Errorf("%d results, want 1", n)
	}
}
