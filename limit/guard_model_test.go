package limit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"nightshift/internal/convoy"
	"nightshift/internal/redistest"
)

// guards are a memory and a Redis guard that do the same at the same time.
type guards struct {
	now     time.Time
	o       GuardOptions
	limits  map[string]GuardLimits
	rdb     redis.UniversalClient
	memory  *GuardMemory
	redis   *GuardRedis
	changes [2][]GuardChange
	scripts map[string]string // broken ones, by file; nil: as they are
}

var guardStart = time.UnixMilli(1_750_000_012_345)

func newGuards(rdb redis.UniversalClient) *guards {
	g := &guards{now: guardStart, rdb: rdb, limits: map[string]GuardLimits{}}
	g.o = GuardOptions{Limits: func(p string) GuardLimits { return g.limits[p] }}
	g.build()
	return g
}

func (g *guards) build() {
	for i := range g.changes {
		o := g.o
		o.OnChange = func(c GuardChange) { g.changes[i] = append(g.changes[i], c) }
		if i == 0 {
			g.memory = NewGuardMemory(o, func() time.Time { return g.now })
			continue
		}
		g.redis = NewGuardRedis(g.rdb, o)
		g.redis.now = func() string { return strconv.FormatInt(g.now.UnixMilli(), 10) }
		if s := g.scripts; s != nil {
			g.redis.reserve, g.redis.settle = redis.NewScript(s["lib"]+s["reserve"]), redis.NewScript(s["lib"]+s["settle"])
			g.redis.reopen, g.redis.grant = redis.NewScript(s["reopen"]), redis.NewScript(s["grant"])
		}
	}
}

// both does the same with both and fails where they say something else.
func (g *guards) both(t rapid.TB, what string, do func(Guarder) error) error {
	t.Helper()
	a, b := do(g.memory), do(g.redis)
	var over *OverError
	if b != nil && !errors.As(b, &over) {
		t.Fatalf("%s: %v", what, b)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Fatalf("%s at %d: memory and redis differ:\n%s", what, g.now.UnixMilli(), diff)
	}
	if diff := cmp.Diff(g.changes[0], g.changes[1]); diff != "" {
		t.Fatalf("%s: they tell of other changes:\n%s", what, diff)
	}
	return a
}

var guardNames = []string{"ann", "bob", System}

// same compares everything that both keep.
func (g *guards) same(t rapid.TB) {
	t.Helper()
	ctx, b, now := context.Background(), g.memory.book, g.now.UnixMilli()
	names := append([]string{AllProducers}, guardNames...)
	windows, _, _, err := g.redis.read(ctx, names, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		w := *b.named(name)
		w.tidy(now)
		if diff := cmp.Diff(&w, windows[i], cmp.AllowUnexported(window{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("hour of %s: memory and redis differ:\n%s", name, diff)
		}
	}
	held, err := g.rdb.HGetAll(ctx, heldKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for ticket, h := range b.held {
		want[ticket] = fmt.Sprintf("%d %d %d %d %s", h.Minute, h.At, h.USD, flag(h.Own), h.Batch)
	}
	if b.swept != 0 {
		want["@swept"] = strconv.FormatInt(b.swept, 10)
	}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Fatalf("calls under way: memory and redis differ:\n%s", diff)
	}
	for _, id := range []string{"b1", "b2"} {
		m, err := g.rdb.HGetAll(ctx, purseKey(id)).Result()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b.batches[id], decodePurse(m)); diff != "" {
			t.Fatalf("batch %s: memory and redis differ:\n%s", id, diff)
		}
	}
}

func TestGuardsAgree(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	rapid.Check(t, func(t *rapid.T) { newGuards(rdb).live(t, t) })
}

// live leads both through a life that is drawn from t, and tells tb where they differ.
func (g *guards) live(t *rapid.T, tb rapid.TB) {
	g.rdb.FlushDB(context.Background())
	draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	limits := func() GuardLimits {
		return GuardLimits{Calls: int64(draw("calls", 0, 4)), USD: int64(draw("usd", 0, 2)) * 50}
	}
	g.limits["ann"], g.limits["bob"] = limits(), limits()
	if draw("global", 0, 2) == 0 {
		g.o.Global = limits()
		g.build()
	}
	g.seed(tb, int64(draw("own calls", 0, 3)), int64(draw("own budget", 0, 4))*40)
	var out []Charge
	next := 0
	for range draw("steps", 10, 60) {
		g.now = g.now.Add(time.Duration(draw("ms", 0, 1000)) * []time.Duration{time.Millisecond, 40 * time.Millisecond, time.Second, 4 * time.Second}[draw("unit", 0, 3)])
		switch op := draw("op", 0, 20); {
		case op < 11:
			out = append(out, g.reserveSome(tb, draw, &next)...)
		case op < 16 && len(out) > 0:
			g.endSome(tb, draw, out)
		case op == 16 || op == 17:
			name := guardNames[draw("reopened", 0, 1)]
			type opener interface {
				Reopen(context.Context, string, string) error
			}
			_ = g.both(tb, "reopen", func(s Guarder) error { return s.(opener).Reopen(context.Background(), name, "eve") })
		case op == 18:
			g.limits["ann"] = limits()
		case op == 19:
			g.own(tb, draw)
		default: // the clock steps
			g.now = g.now.Add(time.Duration(draw("minutes", -130, 70)) * time.Minute)
		}
		g.same(tb)
	}
}

// reserveSome reserves for lines of one batch, all in one script, some of them
// twice, and returns the calls that were let in.
func (g *guards) reserveSome(t rapid.TB, draw func(string, int, int) int, next *int) (out []Charge) {
	producer, batch := guardNames[min(draw("producer", 0, 6)/3, 2)], []string{"", "b1", "b2"}[draw("batch", 0, 2)]
	var list []Charge
	for range max(draw("together", -4, 5), 1) {
		*next++
		c := Charge{
			Producer: producer, Batch: batch,
			Line: []string{"", "l1", "l2", "l3", "l4", "l5"}[draw("line", 0, 5)], Ticket: fmt.Sprint("t", *next),
			USD: int64(draw("cost", -5, 60)), Always: draw("always", 0, 9) == 0,
		}
		c.Always = c.Always || c.Producer == System
		for range 1 + draw("repeat", 0, 4)/4 {
			list = append(list, c)
		}
	}
	for i, err := range g.together(t, "reserve", list, func(c Charge) (func() error, func(*convoy.Party) func() error) {
		return func() error { return g.memory.Reserve(context.Background(), c) },
			func(p *convoy.Party) func() error { return g.redis.ReserveIn(p, c) }
	}) {
		if err == nil {
			out = append(out, list[i])
		}
	}
	return out
}

// endSome settles or releases calls of one batch in one script.
func (g *guards) endSome(t rapid.TB, draw func(string, int, int) int, out []Charge) {
	list := []Charge{out[draw("which", 0, len(out)-1)]}
	for range draw("together", 0, 4) {
		if c := out[draw("which", 0, len(out)-1)]; c.Batch == list[0].Batch && c.Producer == list[0].Producer {
			list = append(list, c)
		}
	}
	g.together(t, "end", list, func(c Charge) (func() error, func(*convoy.Party) func() error) {
		if draw("unsent", 0, 4) < 2 {
			return func() error { return g.memory.Release(context.Background(), c) },
				func(p *convoy.Party) func() error { return g.redis.ReleaseIn(p, c) }
		}
		usd := int64(draw("real", -5, 90))
		return func() error { return g.memory.Settle(context.Background(), c, usd) },
			func(p *convoy.Party) func() error { return g.redis.SettleIn(p, c, usd) }
	})
}

// together has the memory answer one after another and one script all at once, and
// fails where they say something else.
func (g *guards) together(t rapid.TB, what string, list []Charge, ways func(Charge) (memory func() error, redis func(*convoy.Party) func() error)) []error {
	t.Helper()
	var party convoy.Party
	var memory, script []func() error
	for _, c := range list {
		m, r := ways(c)
		memory, script = append(memory, m), append(script, r(&party))
	}
	convoy.New(g.rdb).Send(context.Background(), &party)
	answers := make([]error, len(list))
	for i := range list {
		answers[i] = g.both(t, what, func(s Guarder) error {
			if s == Guarder(g.memory) {
				return memory[i]()
			}
			return script[i]()
		})
	}
	return answers
}

// seed gives the batches something of their own from the beginning.
func (g *guards) seed(t rapid.TB, calls, budget int64) {
	ctx := context.Background()
	for _, err := range []error{
		g.memory.Grant(ctx, "b1", Grant{Calls: calls}), g.redis.Grant(ctx, "b1", Grant{Calls: calls}),
		g.memory.SetBudget(ctx, "b2", budget), g.redis.SetBudget(ctx, "b2", budget),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// own gives a batch an allowance or a budget, or takes both.
func (g *guards) own(t rapid.TB, draw func(string, int, int) int) {
	ctx, id := context.Background(), []string{"b1", "b2"}[draw("owner", 0, 1)]
	type owner interface {
		Grant(context.Context, string, Grant) error
		SetBudget(context.Context, string, int64) error
	}
	n := int64(draw("own", -2, 100))
	at := time.UnixMilli(int64(draw("at", 1, 3)))
	kind := draw("kind", 0, 2)
	_ = g.both(t, "own", func(s Guarder) error {
		switch o := s.(owner); kind {
		case 0:
			g := Grant{Calls: n / 20, By: "eve", At: at}
			return errors.Join(o.Grant(ctx, id, g), o.Grant(ctx, id, g)) // its answer was lost
		case 1:
			return o.SetBudget(ctx, id, n)
		default: // Redis lost it
			g.rdb.Del(ctx, purseKey(id))
			delete(g.memory.book.batches, id)
			return nil
		}
	})
}
